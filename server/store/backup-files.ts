/** The files of a backup: those that the copied database names, each whole, and of a restore none that it does not. */
import { copyFile, glob, link, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { syncToDisk } from '../sync-to-disk.ts';
import { isLeft, isOwnedName, ownedName } from './owned-names.ts';
import { diskStorage, objectPath } from './storage/disk.ts';

/** What a copy of the database says of objects. */
export interface NamedObjects {
  /** On disk, and needed by files. */
  readonly kept: readonly string[];
  /** On disk, and under way: parts of uploads among them. */
  readonly others: readonly string[];
  readonly inBuckets: number;
}

/** What a backup has of files. */
export interface FilesOfBackup {
  readonly copied: number;
  /** Of these the backup has nothing: a bucket has backups of its own. */
  readonly inBuckets: number;
  /** Named by the database, and nowhere to be found. */
  readonly lost: number;
}

/** So often a copy of the database is taken anew where a file of it has been deleted meanwhile. */
const mostRounds = 5;

/**
 * Takes a copy of the database, and of its files into a new folder. An object never changes, so that a link to it is a
 * copy of it; one that was there when the database was copied is linked before or after that. What came and went between
 * the two is met by a copy taken anew.
 */
export async function takeFiles(
  files: string,
  folder: string,
  takeDatabase: () => Promise<NamedObjects>,
): Promise<FilesOfBackup> {
  let lost: readonly string[] | undefined;
  for (let round = 1; ; round += 1) {
    await takeObjects(files, folder);
    const named = await takeDatabase();
    const there = await takeObjects(files, folder);
    const missing = named.kept.filter((key) => !there.has(key));
    // Twice the same ones: they have not been deleted meanwhile, they are not there at all.
    if (missing.length === 0 || round === mostRounds || `${missing}` === `${lost}`) {
      const wanted = new Set([...named.kept, ...named.others]);
      await removeOthers(folder, wanted);
      const { kept, inBuckets } = named;
      return { copied: kept.length - missing.length, inBuckets, lost: missing.length };
    }
    lost = missing;
  }
}

/** Puts objects of a backup back that are not there, and takes those away again, alone, if the rest of the restore fails. */
export async function putFilesBack(
  folder: string,
  files: string,
  named: NamedObjects,
): Promise<{ readonly lost: number; undo(): Promise<void> }> {
  const put: string[] = [];
  const undo = async () => {
    for (const key of put) await rm(objectPath(files, key), { force: true });
  };
  try {
    const there = await takeObjects(folder, files, put);
    return { lost: named.kept.filter((key) => !there.has(key)).length, undo };
  } catch (error) {
    await undo();
    throw error;
  }
}

/**
 * What is there now and the copy does not name has no row any more once the copy is in place, and is nobody's: answers
 * with what takes it away then. What a server that has started takes in until that is done stays.
 */
export async function othersOf(
  files: string,
  { kept, others }: NamedObjects,
): Promise<{ remove(): Promise<void> }> {
  const wanted = new Set([...kept, ...others]);
  const keys = (await everyKeyIn(files)).filter((key) => !wanted.has(key));
  return {
    async remove() {
      for (const key of keys) await diskStorage(files).delete(key);
    },
  };
}

const markBeginning = 'restore';

/**
 * Says that the folder may hold what no row names: objects of the copy before the database is in place, those of the
 * database before it afterwards. Where the restore is killed the mark stays.
 */
export async function markRestore(files: string) {
  await mkdir(files, { recursive: true, mode: 0o700 });
  const mark = join(files, ownedName(markBeginning));
  await writeFile(mark, '', { mode: 0o600 });
  await syncToDisk(files);
  const remove = () => rm(mark, { force: true });
  return {
    remove,
    /** All that the folder holds has a row by now, whoever was killed before. */
    async removeAll() {
      await remove();
      for (const path of await marksIn(files)) if (await isLeft(path)) await rm(path, { force: true });
    },
  };
}

const mostAtOnce = 500;

/** Takes away what restores that were killed have left: whatever has no row. Answers with how many objects went. */
export async function sweepRestores(
  files: string,
  named: (keys: readonly string[]) => Promise<readonly string[]>,
): Promise<number> {
  const marks = await marksIn(files);
  // While one is at work its objects have no row yet.
  for (const path of marks) if (!(await isLeft(path))) return 0;
  if (marks.length === 0) return 0;
  // Looked for first: an object has its row before its first byte.
  const keys = await everyKeyIn(files);
  let swept = 0;
  for (let at = 0; at < keys.length; at += mostAtOnce) {
    const some = keys.slice(at, at + mostAtOnce);
    const known = new Set(await named(some));
    for (const key of some.filter((key) => !known.has(key))) {
      await diskStorage(files).delete(key);
      swept += 1;
    }
  }
  for await (const draft of glob(`objects/*/*/obj_*${draftEnding}`, { cwd: files }))
    await rm(join(files, draft));
  for (const path of marks) await rm(path, { force: true });
  return swept;
}

async function marksIn(files: string): Promise<string[]> {
  const names = await readdir(files).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names
    .filter((name) => name.startsWith(`${markBeginning}~`) && isOwnedName(name))
    .map((name) => join(files, name));
}

async function removeOthers(files: string, wanted: ReadonlySet<string>): Promise<void> {
  for (const key of await keysIn(files)) if (!wanted.has(key)) await rm(objectPath(files, key));
}

/** The keys of all that is there afterwards; those that came by this are added to `taken`. */
async function takeObjects(from: string, to: string, taken: string[] = []): Promise<Set<string>> {
  const there = new Set(await keysIn(to));
  const folders = new Set<string>();
  for (const key of await keysIn(from)) {
    if (there.has(key)) continue;
    const place = objectPath(to, key);
    await mkdir(dirname(place), { recursive: true, mode: 0o700 });
    const came = await linkOrCopy(objectPath(from, key), place);
    if (came === 'is gone') continue;
    if (came === 'was taken') taken.push(key);
    there.add(key);
    folders.add(dirname(place));
  }
  for (const folder of folders) await syncToDisk(folder);
  return there;
}

async function linkOrCopy(from: string, to: string): Promise<'was taken' | 'was there' | 'is gone'> {
  try {
    await link(from, to).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'EEXIST') throw error;
      // Another disk, or one that knows no links.
      await copyWhole(from, to);
    });
    return 'was taken';
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // of the file system
    if (code === 'ENOENT') return 'is gone';
    if (code === 'EEXIST') return 'was there';
    throw error;
  }
}

const draftEnding = '.draft';

async function copyWhole(from: string, to: string): Promise<void> {
  const draft = `${to}${draftEnding}`;
  try {
    await copyFile(from, draft);
    await syncToDisk(draft);
    await rename(draft, to);
  } finally {
    await rm(draft, { force: true });
  }
}

async function keysIn(files: string): Promise<string[]> {
  return keysAmong(files, ['objects/*/*/obj_*']);
}

/** Also of those whose bytes were still coming. */
async function everyKeyIn(files: string): Promise<string[]> {
  return keysAmong(files, ['objects/*/*/obj_*', 'uploads/obj_*']);
}

async function keysAmong(files: string, places: readonly string[]): Promise<string[]> {
  const keys: string[] = [];
  for await (const path of glob(places, { cwd: files })) {
    const key = basename(path);
    if (/^obj_[0-9a-z]{26}$/.test(key)) keys.push(key);
  }
  return keys;
}
