/** Finds the skills that an agent has: the service's own, the person's, those that the settings name, those of the project. */
import { readdir, realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { readGuidance } from '../guidance/guidance-file.ts';
import { type GuidancePlace, namedPlace, personalPlace, projectPlace } from '../guidance/guidance-place.ts';
import { isThere } from '../guidance/presence.ts';
import { liesWithin, projectFolders } from '../guidance/project-folders.ts';
import { rememberLooks } from '../guidance/remembered-look.ts';
import { type ParsedSkill, parseSkill, type ReadSkill, type Skill } from './skill.ts';
import type { KeptSkill, KeptSkills } from './skill-keeper.ts';

/** Where projects keep skills, as the tools of the field have it; in the working folder and in the repository's root. */
const projectNames = ['.agents/skills', '.service/skills', '.claude/skills', '.cursor/skills'];

/** What every agent may need to know of the service itself, shipped with it. */
const builtIn: GuidancePlace = {
  path: join(import.meta.dirname, 'builtin'),
  within: null,
  source: 'builtin',
};

/** A skill longer than this would fill a model's context by itself. */
export const maxSkillBytes = 256 * 1024;
/** A folder of skills may be a link to a whole disk. */
const maxFolders = 500;
/** Of all skills of one place: they are held for as long as runs ask for them. */
const maxCharacters = 16 * 1024 * 1024;
const maxDepth = 4;

/** Where to look. */
export interface SkillPlaces {
  readonly workspacePath: string;
  readonly shared: boolean;
  /** The folders of the person or the operator. */
  readonly personal: readonly string[];
  /** `options.skills_paths` */
  readonly named: readonly string[];
  readonly kept: KeptSkills;
}

type SkillPlace = GuidancePlace & { readonly id?: string };

function keptPlace({ id, folder, source }: KeptSkill): SkillPlace {
  return { path: folder, within: folder, source, id };
}

/** Of two with one name the nearer to the project counts. A broken one never replaces a whole one. */
export async function findSkills({
  workspacePath,
  shared,
  personal,
  named,
  kept,
}: SkillPlaces): Promise<readonly ReadSkill[]> {
  const folders = await projectFolders(workspacePath, shared);
  const root = folders[0] ?? workspacePath;
  const places: readonly SkillPlace[] = [
    builtIn,
    ...personal.map(personalPlace),
    ...named.map((given) => namedPlace(given, workspacePath, root)),
    ...[...new Set([root, workspacePath])].flatMap((folder) =>
      projectNames.map((name) => projectPlace(join(folder, name), root)),
    ),
    ...kept.skills.map(keptPlace),
  ];
  const skills = new Map<string, ReadSkill>();
  for (const place of places) {
    for (const found of await skillsBelow(place)) {
      const skill = place.id === undefined ? found : { ...found, id: place.id };
      const known = skills.get(skill.name);
      if (known && isWhole(known) && !isWhole(skill)) continue;
      skills.set(skill.name, skill);
    }
  }
  return [...skills.values()].sort(ownFirst);
}

/** What people have written for this work, before what is there anyway. */
function ownFirst(a: ReadSkill, b: ReadSkill): number {
  const later = Number(a.source === 'builtin') - Number(b.source === 'builtin');
  return later || (a.name < b.name ? -1 : 1);
}

/** Tells a skill from a file that is none. */
export function isWhole(skill: ReadSkill): skill is Skill {
  return 'body' in skill;
}

/** Asked at each step of each run: read again only when something has changed there. */
const remembered = rememberLooks<readonly ReadSkill[]>((skills) =>
  skills.reduce((sum, { text = '' }) => sum + text.length, 0),
);

async function skillsBelow(place: GuidancePlace): Promise<readonly ReadSkill[]> {
  const { path, within, source } = place;
  if (!isThere(path)) return [];
  const key = JSON.stringify([path, within, source]);
  return remembered(key, path, (dependsOn) => readSkillsBelow(place, dependsOn));
}

const tooMuch = `the skills of its folder are longer than ${maxCharacters / 1024 ** 2} MB together`;

/** Links are followed, as people keep their skills in one place; those of a project not out of it. */
async function readSkillsBelow(
  { path: top, within, source }: GuidancePlace,
  dependsOn: (path: string) => void,
): Promise<readonly ReadSkill[]> {
  const found: ReadSkill[] = [];
  const visited = new Set<string>();
  let characters = 0;
  const queue = [{ path: top, depth: 0 }];
  for (let next = queue.shift(); next && visited.size < maxFolders; next = queue.shift()) {
    dependsOn(next.path);
    const folder = await realpath(next.path).catch(() => null);
    if (folder === null || visited.has(folder) || (within !== null && !liesWithin(within, folder))) continue;
    visited.add(folder);
    dependsOn(join(folder, 'SKILL.md'));
    const file = await readGuidance(join(folder, 'SKILL.md'), { within, maxBytes: maxSkillBytes });
    // The name is that of the place where it was found: a link may bear another than what it leads to.
    if (file) {
      characters += 'text' in file ? file.text.length : 0;
      const held = characters > maxCharacters ? { path: file.path, failed: tooMuch } : file;
      found.push({ ...inFolder(parseSkill(held, next.path), folder), source });
    } else if (next.depth < maxDepth) queue.push(...(await foldersIn(next.path, next.depth + 1)));
  }
  return found;
}

function inFolder(skill: ParsedSkill, folder: string): ParsedSkill {
  return 'body' in skill ? { ...skill, folder } : skill;
}

async function foldersIn(path: string, depth: number): Promise<{ path: string; depth: number }[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => ({ path: join(path, name), depth }))
    .sort((a, b) => (basename(a.path) < basename(b.path) ? -1 : 1));
}
