/** A skill: a folder whose `SKILL.md` tells an agent how to do one kind of work. */
import { basename } from 'node:path';
import { z } from 'zod';
import { readYaml } from '../guidance/front-matter.ts';
import type { GuidanceFile } from '../guidance/guidance-file.ts';

/** A skill that can be loaded. */
export interface Skill {
  readonly name: string;
  /** When to use it: all that the model sees of it before it loads it. */
  readonly description: string;
  /** The real path of its folder. */
  readonly folder: string;
  /** The instructions, without the front matter. */
  readonly body: string;
  /** Whether a model may load it by itself. */
  readonly forModels: boolean;
}

/** A skill, or why the file is none. */
export type ReadSkill = Skill | { readonly name: string; readonly failed: string };

/** The front matter, as the open format of skills has it. What it does not name is left alone. */
const frontMatter = z.object({
  name: z
    .string()
    .max(64, 'name has more than 64 characters')
    .regex(
      /^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$/,
      'name takes letters and digits, with single hyphens between them',
    ),
  description: z
    .string('description is missing: a model chooses a skill by it')
    .trim()
    .min(1, 'description is empty: a model chooses a skill by it')
    .max(1024, 'description has more than 1024 characters'),
  license: z.string().optional(),
  compatibility: z.string().max(500, 'compatibility has more than 500 characters').optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  'user-invocable': z.boolean().optional(),
  'disable-model-invocation': z.boolean().optional(),
});

/** Reads a `SKILL.md`. */
export function parseSkill(file: GuidanceFile, folder: string): ReadSkill {
  const name = basename(folder);
  if ('failed' in file) return { name, failed: file.failed };
  if (file.cut) return { name, failed: 'SKILL.md is too long; put details into files beside it' };
  const parts = /^\uFEFF?---[^\S\n]*\r?\n(?<head>.*?)^---[^\S\n]*(?:\r?\n(?<body>.*))?$/msu.exec(file.text);
  if (!parts?.groups)
    return { name, failed: 'SKILL.md does not begin with front matter between two lines of ---' };
  const { head = '', body = '' } = parts.groups;
  const facts = frontMatter.safeParse(yamlOrNull(head));
  if (!facts.success) return { name, failed: facts.error.issues.map(messageOf).join('; ') };
  if (facts.data.name !== name)
    return {
      name,
      failed: `its name is ${facts.data.name}, but its folder is ${name}: they have to be the same`,
    };
  const forModels = facts.data['disable-model-invocation'] !== true;
  return { name, description: facts.data.description, folder, body: body.trim(), forModels };
}

/** What is no YAML is no front matter either; the rules then say what is missing. */
function yamlOrNull(text: string): unknown {
  try {
    return readYaml(text);
  } catch {
    return null;
  }
}

function messageOf({ message, path }: z.core.$ZodIssue): string {
  const [key] = path;
  if (key === undefined) return 'the front matter is no list of keys and values';
  return message.startsWith(String(key)) ? message : `${String(key)}: ${message}`;
}
