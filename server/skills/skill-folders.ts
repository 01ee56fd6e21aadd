/** Lays the files of skills out where runs can read them: each state of a skill in a folder of its own that never changes. */
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, realpath, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import type { Log } from '../log.ts';
import type { SkillFileContent } from '../store/store.ts';
import { byPath, digestOf, sha256Of } from './skill-files.ts';

/** What is to lie in a folder. */
export interface LaidOutSkill {
  readonly name: string;
  readonly digest: string;
  files(): Promise<readonly SkillFileContent[]>;
  /** Waits for nobody else who lays the same, and nobody waits for this one. */
  readonly alone: boolean;
}

export interface SkillFolders {
  /** The real path of the folder, which is whole when this resolves. */
  lay(skill: LaidOutSkill): Promise<string>;
  /** Whether it is a folder that `lay` has answered with once. */
  isLaid(folder: string): Promise<boolean>;
  /** Removes what has not been laid for a day and what nobody has any more; answers with how many. */
  sweep(now: Date, isNeeded: (digest: string) => Promise<boolean>): Promise<number>;
}

/** The files are not those of the digest: most likely somebody has just put others, and the next look finds them. */
export class OtherFiles extends Error {}

const unfinished = '.unfinished-';
const dayMs = 86_400_000;

/** Commands run as other users, who may read each skill but not list which there are. */
const passable = 0o711;
const readable = 0o755;

export function createSkillFolders(directory: string, log: Log): SkillFolders {
  const laid = new Map<string, Promise<string>>();
  return {
    lay({ name, digest, files, alone }) {
      if (alone) return lay(directory, digest, name, files);
      const path = join(directory, digest, name);
      const laying = laid.get(path) ?? lay(directory, digest, name, files);
      laid.set(path, laying);
      // What went wrong is tried again by whoever asks next; what is there may be swept by somebody else.
      const forget = () => void laid.delete(path);
      laying.then(forget, forget);
      return laying;
    },
    isLaid: (folder) => isLaid(directory, folder),
    sweep: (now, isNeeded) => sweep(directory, now, isNeeded, log),
  };
}

/** Under another name first: whoever finds the folder finds all of it, also after a kill in between. */
async function lay(
  directory: string,
  digest: string,
  name: string,
  files: LaidOutSkill['files'],
): Promise<string> {
  const place = join(directory, digest);
  if (await isThere(join(place, name))) return realpath(join(place, name));
  await mkdir(directory, { recursive: true });
  await chmod(directory, passable);
  const draft = join(directory, `${unfinished}${randomUUID()}`);
  const found = await files();
  refuseOthers(found, name, digest);
  try {
    for (const { path, content, executable } of found)
      await writeOut(join(draft, name), path, content, executable);
    await rename(draft, place).catch(unlessThere);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return realpath(join(place, name));
}

/** The digest was read before the files, which may have been replaced since; everybody with the digest gets this folder. */
function refuseOthers(files: readonly SkillFileContent[], name: string, digest: string): void {
  const told = files.map((file) => ({ ...file, sha256: sha256Of(file.content) })).sort(byPath);
  if (digestOf(name, told) !== digest)
    throw new OtherFiles(
      `The files of the skill ${name} are not those of the digest ${digest}: it was just changed, or its rows are damaged; put it anew if this is said again.`,
    );
}

async function writeOut(
  folder: string,
  path: string,
  content: Uint8Array,
  executable: boolean,
): Promise<void> {
  const file = join(folder, path);
  await mkdir(dirname(file), { recursive: true, mode: readable });
  await writeFile(file, content, { flag: 'wx' });
  // Past the mask of the process: no name of a skill is secret to the commands of those who have it.
  await chmod(file, executable ? 0o555 : 0o444);
  for (let at = dirname(file); at.length >= dirname(folder).length; at = dirname(at))
    await chmod(at, readable);
}

/** Another process was faster, with the same files. */
function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );
}

async function isLaid(directory: string, folder: string): Promise<boolean> {
  // What cannot be looked at is nothing that anybody could read.
  const place = await realpath(directory).catch(() => null);
  if (place === null) return false;
  const [digest = '', name = '', ...rest] = relative(place, folder).split(sep);
  if (!/^[0-9a-f]{64}$/.test(digest) || name === '' || name === '..' || rest.length > 0) return false;
  return (await realpath(folder).catch(() => null)) === folder;
}

async function sweep(
  directory: string,
  now: Date,
  isNeeded: (digest: string) => Promise<boolean>,
  log: Log,
): Promise<number> {
  const names = await readdir(directory).catch(() => []);
  let swept = 0;
  for (const name of names) {
    const path = join(directory, name);
    try {
      // A run that has loaded the skill has a day from then on, when it is changed.
      if (!name.startsWith(unfinished) && (await isNeeded(name))) await utimes(path, now, now);
      if (now.getTime() - (await stat(path)).mtimeMs < dayMs) continue;
      // Under another name first: whoever finds the folder finds all of it, also after a kill in between.
      const gone = join(directory, `${unfinished}${randomUUID()}`);
      await rename(path, gone);
      await rm(gone, { recursive: true, force: true });
      swept += 1;
    } catch (error) {
      log.error(
        { err: error, path },
        'the folder of a skill could not be removed; the next hour tries again',
      );
    }
  }
  return swept;
}
