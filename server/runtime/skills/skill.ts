/** A skill: a folder whose `SKILL.md` tells an agent how to do one kind of work. */
import { basename } from 'node:path';
import { z } from 'zod';
import { readFrontMatter } from '../guidance/front-matter.ts';
import type { GuidanceFile } from '../guidance/guidance-file.ts';
import type { GuidanceSource } from '../guidance/guidance-place.ts';

/** A skill that can be loaded. */
export interface Skill {
  readonly name: string;
  /** When to use it: all that the model sees of it before it loads it. */
  readonly description: string;
  /** The real path of its folder. */
  readonly folder: string;
  /** The whole file. */
  readonly text: string;
  /** The instructions, without the front matter. */
  readonly body: string;
  /** Whether a model may load it by itself. */
  readonly forModels: boolean;
  readonly source: GuidanceSource;
  /** Of one that is kept. */
  readonly id?: string;
}

/** A file that is meant as a skill, and why it is none. */
interface BrokenSkill {
  readonly name: string;
  readonly failed: string;
  /** As far as it could be read. */
  readonly text?: string;
  readonly source: GuidanceSource;
  readonly id?: string;
}

export type ReadSkill = Skill | BrokenSkill;

/** What a file says by itself. */
export type ParsedSkill = Omit<Skill, 'source' | 'id'> | Omit<BrokenSkill, 'source' | 'id'>;

/** The front matter, as the open format of skills has it. What it does not name is left alone. */
export const skillRules = z.object({
  name: z
    .string()
    .max(64, 'has more than 64 characters')
    .regex(/^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$/, 'takes letters and digits, with single hyphens between them'),
  description: z
    .string('is missing; a model chooses a skill by it')
    .trim()
    .min(1, 'is empty; a model chooses a skill by it')
    .max(1024, 'has more than 1024 characters'),
  license: z.string().optional(),
  compatibility: z.string().max(500, 'has more than 500 characters').optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  'user-invocable': z.boolean().optional(),
  'disable-model-invocation': z.boolean().optional(),
});

/** Reads a `SKILL.md`. */
export function parseSkill(file: GuidanceFile, folder: string): ParsedSkill {
  const name = basename(folder);
  if ('failed' in file) return { name, failed: file.failed };
  const { text } = file;
  if (file.cut) return { name, failed: 'SKILL.md is too long; put details into files beside it', text };
  try {
    const { fields, body } = readFrontMatter(text, skillRules);
    if (fields.name !== name)
      throw new Error(`its name is ${fields.name}, but its folder is ${name}: they have to be the same`);
    const forModels = fields['disable-model-invocation'] !== true;
    return { name, description: fields.description, folder, text, body, forModels };
  } catch (error) {
    return { name, failed: error instanceof Error ? error.message : String(error), text };
  }
}
