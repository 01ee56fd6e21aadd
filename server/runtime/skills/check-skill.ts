/** Looks whether a text is the SKILL.md of a skill that may be kept, and says all that is wrong with it. */
import { FrontMatterError, readFrontMatter } from '../guidance/front-matter.ts';
import { maxSkillBytes } from './find-skills.ts';
import { skillRules } from './skill.ts';

export interface SkillTextFault {
  /** The line of the text; null where it is about the whole. */
  readonly line: number | null;
  readonly message: string;
}

export type CheckedSkillText =
  | { readonly name: string; readonly description: string; readonly faults: readonly [] }
  | { readonly faults: readonly SkillTextFault[] };

/** By the rules that skills in folders are read by. */
export function checkSkillText(bytes: Uint8Array): CheckedSkillText {
  if (bytes.length > maxSkillBytes)
    return whole(`has more than ${maxSkillBytes / 1024} KiB; put details into files beside it`);
  if (bytes.includes(0)) return whole('is no text');
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const { name, description } = readFrontMatter(text, skillRules).fields;
    return { name, description, faults: [] };
  } catch (error) {
    if (error instanceof FrontMatterError) return { faults: error.faults };
    if (error instanceof TypeError) return whole('is not UTF-8');
    throw error;
  }
}

function whole(message: string): CheckedSkillText {
  return { faults: [{ line: null, message }] };
}
