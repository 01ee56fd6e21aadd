/** The tool that loads a skill: its instructions, and which files lie beside it. */
import { type Dirent, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { z } from 'zod';
import type { ToolResult } from '../../contract/api.ts';
import { liesWithin } from '../guidance/project-folders.ts';
import { defineTool, success } from '../tools/define-tool.ts';
import { readInPlace, statsInPlace } from '../tools/read-in-place.ts';
import { type Tool, ToolInputError } from '../tools/tool.ts';
import type { FoundSkillFile } from './found-skill.ts';
import type { Skill } from './skill.ts';

/** The names told of a skill's files; a model can list the rest. */
const maxFiles = 100;
/** Nobody waits for a look at more of them. */
const maxFolders = 200;
const instructions = 'SKILL.md';

interface SkillFiles {
  readonly files: readonly FoundSkillFile[];
  readonly truncated: boolean;
}

const input = z.strictObject({ name: z.string().min(1).describe('The name of the skill') });

/** Builds the `skill` tool for the skills that there are. */
export function skillTool(skills: readonly Skill[]): Tool {
  return defineTool({
    name: 'skill',
    description:
      'Loads a skill: instructions for one kind of work, written by people of this project or shipped with the service. ' +
      'Load it before you begin such work. Its files are read with view; its scripts run with bash, under the same ' +
      'permissions as any command.',
    idempotent: true,
    needsPermission: false,
    input,
    prepare({ name }, { workspacePath, keepReadable }) {
      const skill = skills.find((one) => one.name === name);
      if (!skill)
        throw new ToolInputError(
          `There is no skill ${name}; there are: ${skills.map((one) => one.name).join(', ')}.`,
        );
      return {
        permission: null,
        run: async () => {
          if (!liesWithin(workspacePath, skill.folder)) keepReadable(skill.folder);
          return success(render(skill), { name, folder: skill.folder });
        },
      };
    },
  });
}

/** All of its files, its instructions first; `truncated` where there are more than anybody is told of. */
export function listSkillFolder(folder: string): SkillFiles {
  const { files, truncated } = filesOf(folder);
  const told = files.slice(0, maxFiles + 1);
  return { files: told, truncated: truncated || files.length > told.length };
}

function render({ name, folder, body }: Skill): string {
  const { files, truncated } = filesOf(folder);
  const beside = files.flatMap(({ path }) => (path === instructions ? [] : [path]));
  const lines = beside.slice(0, maxFiles);
  if (truncated || beside.length > maxFiles) lines.push('(and more: list the folder)');
  const list = lines.length === 0 ? '' : `\n\nFiles beside it:\n${lines.join('\n')}`;
  return `The skill ${name}; its folder is ${folder}, from which its relative paths are taken.\n\n${body}${list}`;
}

/** The folder that such a result names; null where it names none. */
export function folderIn({ name, is_error, content }: ToolResult): string | null {
  if (name !== 'skill' || is_error) return null;
  return (
    /^The skill [^;\n]+; its folder is (.+), from which its relative paths are taken\.\n/.exec(
      content,
    )?.[1] ?? null
  );
}

/**
 * Breadth first, and no further than is told: a skill may have packages installed in it. Each folder is read where it was
 * found: a command that runs meanwhile may put a link to any folder of the server in its place.
 */
function filesOf(folder: string): SkillFiles {
  const files: FoundSkillFile[] = [];
  const folders = [folder];
  for (let looked = 0; looked < maxFolders && files.length <= maxFiles + 1; looked += 1) {
    const below = folders.shift();
    if (below === undefined) return { files, truncated: false };
    for (const { name, isFolder, stats } of readInPlace(below, entriesOf) ?? []) {
      const path = join(below, name);
      if (isFolder) folders.push(path);
      if (!stats?.isFile()) continue;
      const executable = (stats.mode & 0o111) !== 0;
      files.push({ path: relative(folder, path), size: stats.size, executable });
    }
  }
  return { files, truncated: folders.length > 0 };
}

/** In their order, the instructions first; of no more files than are told, with the one that shows that there are more. */
function entriesOf(openedAt: string) {
  const order = ({ name }: Dirent) => (name === instructions ? '' : name);
  const entries = namesIn(openedAt).sort((a, b) => (order(a) < order(b) ? -1 : 1));
  const files = entries.filter((entry) => entry.isFile()).slice(0, maxFiles + 2);
  const folders = entries.filter((entry) => entry.isDirectory());
  return [
    ...files.map(({ name }) => ({ name, isFolder: false, stats: statsInPlace(join(openedAt, name)) })),
    ...folders.map(({ name }) => ({ name, isFolder: true, stats: null })),
  ];
}

function namesIn(openedAt: string): Dirent[] {
  try {
    return readdirSync(openedAt, { withFileTypes: true });
  } catch {
    // What is no folder by now, or cannot be read, has no files for us.
    return [];
  }
}
