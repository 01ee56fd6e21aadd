/** Finds the skills among the files of a commit, and says what is wrong with each. */
import { posix } from 'node:path';
import type { FoundRepository, FoundRepositorySkill } from '../store/store.ts';
import { checkSkill } from './check-skill.ts';
import type { FetchedCommit, TreeEntry } from './git-repository.ts';
import { RepositoryFault } from './repository-fault.ts';
import { fileFaults, type SkillFault } from './skill-files.ts';

/** More of one repository are no longer looked through by anybody. */
const mostSkills = 100;
const mostBytes = 32 * 1024 * 1024;
/** No more is told of what is skipped, nor of the faults of one skill. */
const mostTold = 100;
/** As many levels below the subfolder as are looked through in folders on disk. */
const deepest = 4;
const instructions = 'SKILL.md';

type Named = TreeEntry & { readonly path: string };

/** Throws `RepositoryFault` where there is none, or more than may be kept. */
export async function skillsIn(
  { commit, entries, read }: FetchedCommit,
  subfolder: string | null,
): Promise<FoundRepository> {
  const named = entries.filter((entry): entry is Named => entry.path !== null);
  const levels = depthOf(subfolder ?? '') + deepest;
  const folders = skillFolders(named, levels);
  refuseUnlike(folders, subfolder);
  const among = new Set(folders);
  const byFolder = Map.groupBy(named, ({ path }) => highestAbove(path, among, levels));
  const strange = entries.length - named.length;
  const skipped = (byFolder.get(null) ?? []).filter(({ kind }) => kind !== 'file').map(skippedFault);
  if (strange > 0)
    skipped.push({ path: null, line: null, code: 'path', message: `${strange} names are not UTF-8` });
  const looked = folders.map((folder) => ({ folder, files: byFolder.get(folder) ?? [] }));
  const sound = looked.map((one) => ({ ...one, faults: faultsOf(one.folder, one.files) }));
  const readable = sound.flatMap(({ faults, files }) => (faults.length === 0 ? files : []));
  const bytes = readable.reduce((sum, { size }) => sum + size, 0);
  if (bytes > mostBytes)
    throw new RepositoryFault(
      `Its skills have more than ${mostBytes / 1024 / 1024} MiB together: name a subfolder with some of them.`,
    );
  const contents = await read(readable);
  const skills = sound.map(({ folder, files, faults }) =>
    faults.length > 0 ? broken(folder, faults) : whole(folder, files, contents),
  );
  const told = skills.map((skill) => ({ ...skill, faults: skill.faults.slice(0, mostTold) }));
  return { commit, skills: onlyOneOfEachName(told), skipped: skipped.slice(0, mostTold) };
}

/** The highest folders with instructions: what lies below one belongs to it. */
function skillFolders(entries: readonly Named[], levels: number): string[] {
  const all = entries
    .filter(({ path }) => posix.basename(path) === instructions)
    .map(({ path }) => (path === instructions ? '' : posix.dirname(path)))
    .filter((folder) => depthOf(folder) <= levels);
  const among = new Set(all);
  return [...new Set(all.map((folder) => highestAbove(`${folder}/`, among, levels) ?? folder))].sort();
}

/** Looks each folder of the path up: to compare it with each of thousands of folders would keep the server still. */
function highestAbove(path: string, folders: ReadonlySet<string>, levels: number): string | null {
  if (folders.has('')) return '';
  let end = path.indexOf('/');
  for (let level = 1; end >= 0 && level <= levels; level += 1) {
    const folder = path.slice(0, end);
    if (folders.has(folder)) return folder;
    end = path.indexOf('/', end + 1);
  }
  return null;
}

function depthOf(folder: string): number {
  return folder === '' ? 0 : folder.split('/').length;
}

function refuseUnlike(folders: readonly string[], subfolder: string | null): void {
  const place = subfolder === null ? 'in it' : `below ${subfolder}`;
  if (folders.length === 0) throw new RepositoryFault(`There is no folder with a ${instructions} ${place}.`);
  if (folders.length > mostSkills)
    throw new RepositoryFault(
      `There are more than ${mostSkills} skills ${place}: name a subfolder with fewer.`,
    );
}

function skippedFault({ path, kind }: Named): SkillFault {
  return { path, line: null, ...strangeKinds[kind === 'submodule' ? 'submodule' : 'link'] };
}

const strangeKinds = {
  link: { code: 'link', message: 'is a link, which is not followed' },
  submodule: { code: 'submodule', message: 'is a submodule, which is not fetched' },
} as const;

/** What can be said before anything of it is read. */
function faultsOf(folder: string, files: readonly Named[]): SkillFault[] {
  const inside = files.map((file) => ({ ...file, path: within(folder, file.path) }));
  const strange = inside.flatMap(({ path, kind }) =>
    kind === 'file' ? [] : [{ path, line: null, ...strangeKinds[kind] }],
  );
  return [...strange, ...fileFaults(inside)];
}

function within(folder: string, path: string): string {
  return folder === '' ? path : path.slice(folder.length + 1);
}

function whole(
  folder: string,
  files: readonly Named[],
  contents: ReadonlyMap<string, Buffer>,
): FoundRepositorySkill {
  const entries = files.map(({ path, executable, object }) => ({
    path: within(folder, path),
    executable,
    content: contents.get(object) ?? missing(path),
  }));
  // The top of a repository has no name of its own.
  const checked = checkSkill(entries, folder === '' ? null : posix.basename(folder));
  const { name, description, skill, faults } = checked;
  return { path: folder, name: name ?? nameOf(folder), description, content: skill, faults };
}

function missing(path: string): never {
  throw new RepositoryFault(`git left out the file ${path}, which it had listed.`);
}

function broken(folder: string, faults: readonly SkillFault[]): FoundRepositorySkill {
  return { path: folder, name: nameOf(folder), description: null, content: null, faults };
}

function nameOf(folder: string): string {
  return folder === '' ? 'SKILL.md' : posix.basename(folder);
}

/** The highest counts: nobody hides another skill by one that lies deeper. */
function onlyOneOfEachName(skills: readonly FoundRepositorySkill[]): FoundRepositorySkill[] {
  const counting = new Map<string, string>();
  for (const { name, path, content } of skills.toSorted((a, b) => depthOf(a.path) - depthOf(b.path)))
    if (content !== null && !counting.has(name)) counting.set(name, path);
  return skills.map((skill) => {
    const first = counting.get(skill.name);
    if (skill.content === null || first === skill.path) return skill;
    const message = `its name is that of ${first}, which counts`;
    return broken(skill.path, [{ path: instructions, line: null, code: 'name', message }]);
  });
}
