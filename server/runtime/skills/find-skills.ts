/** Finds the skills that an agent has: the person's, those that the settings name, and those of the project. */
import { readdir, realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { guidancePath, readGuidance } from '../guidance/guidance-file.ts';
import { liesWithin, projectFolders } from '../guidance/project-folders.ts';
import { parseSkill, type ReadSkill, type Skill } from './skill.ts';

/** Where projects keep skills, as the tools of the field have it; in the working folder and in the repository's root. */
const projectNames = ['.agents/skills', '.service/skills', '.claude/skills', '.cursor/skills'];

/** A skill longer than this would fill a model's context by itself. */
const maxSkillBytes = 256 * 1024;
/** A folder of skills may be a link to a whole disk. */
const maxFolders = 500;
const maxDepth = 4;

/** Where to look. */
export interface SkillPlaces {
  readonly workspacePath: string;
  readonly shared: boolean;
  /** The folders of the person or the operator. */
  readonly personal: readonly string[];
  /** `options.skills_paths` */
  readonly named: readonly string[];
}

/** By name; of two with one name the nearer to the project counts. A broken one never replaces a whole one. */
export async function findSkills({
  workspacePath,
  shared,
  personal,
  named,
}: SkillPlaces): Promise<readonly ReadSkill[]> {
  const folders = await projectFolders(workspacePath, shared);
  const root = folders[0] ?? workspacePath;
  const places = [
    ...personal.map((path) => ({ path, within: null })),
    ...named.map((given) => {
      const path = guidancePath(given, workspacePath);
      // A folder of the project holds what its authors put there, links too, whoever names it.
      return { path, within: liesWithin(root, path) ? root : null };
    }),
    ...[...new Set([root, workspacePath])].flatMap((folder) =>
      projectNames.map((name) => ({ path: join(folder, name), within: root })),
    ),
  ];
  const skills = new Map<string, ReadSkill>();
  for (const place of places) {
    for (const skill of await skillsBelow(place.path, place.within)) {
      const known = skills.get(skill.name);
      if (known && isWhole(known) && !isWhole(skill)) continue;
      skills.set(skill.name, skill);
    }
  }
  return [...skills.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Tells a skill from a file that is none. */
export function isWhole(skill: ReadSkill): skill is Skill {
  return 'body' in skill;
}

/** Links are followed, as people keep their skills in one place; those of a project not out of it. */
async function skillsBelow(top: string, within: string | null): Promise<readonly ReadSkill[]> {
  const found: ReadSkill[] = [];
  const visited = new Set<string>();
  const queue = [{ path: top, depth: 0 }];
  for (let next = queue.shift(); next && visited.size < maxFolders; next = queue.shift()) {
    const folder = await realpath(next.path).catch(() => null);
    if (folder === null || visited.has(folder) || (within !== null && !liesWithin(within, folder))) continue;
    visited.add(folder);
    const file = await readGuidance(join(folder, 'SKILL.md'), { within, maxBytes: maxSkillBytes });
    // The name is that of the place where it was found: a link may bear another than what it leads to.
    if (file) found.push(inFolder(parseSkill(file, join(next.path)), folder));
    else if (next.depth < maxDepth) queue.push(...(await foldersIn(next.path, next.depth + 1)));
  }
  return found;
}

function inFolder(skill: ReadSkill, folder: string): ReadSkill {
  return isWhole(skill) ? { ...skill, folder } : skill;
}

async function foldersIn(path: string, depth: number): Promise<{ path: string; depth: number }[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => ({ path: join(path, name), depth }))
    .sort((a, b) => (basename(a.path) < basename(b.path) ? -1 : 1));
}
