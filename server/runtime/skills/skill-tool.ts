/** The tool that loads a skill: its instructions, and which files lie beside it. */
import { lstat, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { z } from 'zod';
import type { ToolResult } from '../../contract/api.ts';
import { liesWithin } from '../guidance/project-folders.ts';
import { defineTool, success } from '../tools/define-tool.ts';
import { type Tool, ToolInputError } from '../tools/tool.ts';
import type { FoundSkillFile } from './found-skill.ts';
import type { Skill } from './skill.ts';

/** The names told of a skill's files; a model can list the rest. */
const maxFiles = 100;

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
          return success(await render(skill), { name, folder: skill.folder });
        },
      };
    },
  });
}

/** All of its files, its instructions among them; `truncated` where there are more than anybody is told of. */
export async function listSkillFolder(
  folder: string,
): Promise<{ readonly files: readonly FoundSkillFile[]; readonly truncated: boolean }> {
  const paths = ['SKILL.md', ...(await filesOf(folder))];
  const told = paths.slice(0, maxFiles + 1);
  const looks = told.map(async (path) => {
    const found = await lstat(join(folder, path)).catch(() => null);
    return found?.isFile() ? [{ path, size: found.size, executable: (found.mode & 0o111) !== 0 }] : [];
  });
  return { files: (await Promise.all(looks)).flat(), truncated: paths.length > told.length };
}

async function render({ name, folder, body }: Skill): Promise<string> {
  const files = bounded(await filesOf(folder));
  const list = files.length === 0 ? '' : `\n\nFiles beside it:\n${files.join('\n')}`;
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

/** Breadth first, and no further than is told: a skill may have packages installed in it. */
async function filesOf(folder: string): Promise<readonly string[]> {
  const files: string[] = [];
  const folders = [folder];
  for (let next = folders.shift(); next !== undefined && files.length <= maxFiles; next = folders.shift()) {
    const below = next;
    const entries = await readdir(below, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(below, entry.name);
      if (entry.isDirectory()) folders.push(path);
      else if (entry.isFile() && path !== join(folder, 'SKILL.md')) files.push(relative(folder, path));
    }
  }
  return files;
}

function bounded(files: readonly string[]): readonly string[] {
  return files.length <= maxFiles ? files : [...files.slice(0, maxFiles), '(and more: list the folder)'];
}
