/** Copies a database while it is in use, and the files that it names: done whole, or not at all. */
import { chmod, link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Knex } from 'knex';
import type { Log } from '../log.ts';
import { syncToDisk } from '../sync-to-disk.ts';
import { type FilesOfBackup, type NamedObjects, takeFiles } from './backup-files.ts';
import { connect } from './database.ts';
import { isLeft, isOwnedName, ownedName } from './owned-names.ts';
import { outputOf, rowsInDump, variablesOf } from './postgres-programs.ts';

/**
 * Writes a copy of the database at `url` to a new file, readable for its owner alone, and of the files in the folder
 * `files` to a folder beside it. What is there already stays.
 */
export async function backUp(url: string, target: string, log: Log, files?: string): Promise<FilesOfBackup> {
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  await removeDrafts(dirname(target), log);
  for (const place of [target, filesOf(target)])
    if (await exists(place)) throw new Error(`${place} is there already; name another file.`);
  const draft = draftOf(target);
  try {
    const taken =
      files === undefined
        ? await copyDatabase(url, draft, log).then(() => noFiles)
        : await takeFiles(files, filesOf(draft), async () => {
            await rm(draft, { force: true });
            await copyDatabase(url, draft, log);
            return objectsIn(url, draft, log);
          });
    await chmod(draft, 0o600);
    await syncToDisk(draft);
    await bringInPlace(draft, target);
    await syncToDisk(dirname(target));
    return taken;
  } finally {
    await rm(draft, { force: true });
    await rm(filesOf(draft), { recursive: true, force: true });
  }
}

/** Beside the target, and says whose it is, within what a name may hold; of the target as much as shows what for. */
export function draftOf(target: string): string {
  return join(dirname(target), ownedName(`.${[...basename(target)].slice(0, 24).join('')}`));
}

/** Whoever is killed leaves a draft, as large as the database; its links keep the bytes of files that are deleted later. */
export async function removeDrafts(folder: string, log: Log): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    try {
      if (isDraft(entry.name)) await removeIfLeft(path);
      else if (entry.isDirectory() && entry.name.endsWith(filesOf(''))) await removeWithoutCopy(path);
    } catch (error) {
      log.warn({ err: error, path }, 'what a killed backup or restore has left could not be removed');
    }
  }
}

function isDraft(name: string): boolean {
  return name.startsWith('.') && isOwnedName(name);
}

async function removeIfLeft(path: string): Promise<void> {
  if (await isLeft(path)) await rm(path, { recursive: true, force: true });
}

/** Files whose copy was not brought in place hold its draft, which has no other name then; where there are no links, the name is taken first. */
async function removeWithoutCopy(files: string): Promise<void> {
  const copy = files.slice(0, -filesOf('').length);
  for (const name of (await readdir(files)).filter(isDraft)) {
    const draft = join(files, name);
    const hasOtherName = (await stat(draft)).nlink > 1 || (await sizeOf(copy)) > 0;
    if (hasOtherName) await removeIfLeft(draft);
    else if (await isLeft(draft))
      for (const path of [copy, files]) await rm(path, { recursive: true, force: true });
  }
}

async function sizeOf(path: string): Promise<number> {
  return (await exists(path)) ? (await stat(path)).size : 0;
}

/** The files first, and the draft in them: a copy is never without its files, and files without a copy tell that they are. */
async function bringInPlace(draft: string, target: string): Promise<void> {
  if (!(await exists(filesOf(draft)))) return moveToNew(draft, target);
  await rename(draft, join(filesOf(draft), basename(draft)));
  await rename(filesOf(draft), filesOf(target));
  const brought = join(filesOf(target), basename(draft));
  try {
    await moveToNew(brought, target);
  } catch (error) {
    await rm(filesOf(target), { recursive: true, force: true });
    throw error;
  }
  await rm(brought, { force: true });
}

/** What disks say that know no hard links. */
const noLinks: ReadonlySet<unknown> = new Set(['EPERM', 'ENOTSUP', 'EXDEV', 'ENOSYS']);

/** Unlike a rename, a link never takes the place of a file; where there are none, a new and empty one gives way. */
async function moveToNew(draft: string, target: string): Promise<void> {
  try {
    await link(draft, target);
  } catch (error) {
    if (!noLinks.has((error as NodeJS.ErrnoException).code)) throw error; // of the file system
    await (await open(target, 'wx', 0o600)).close();
    await rename(draft, target).catch(async (failure: unknown) => {
      await rm(target, { force: true });
      throw failure;
    });
  }
}

const noFiles = { copied: 0, inBuckets: 0, lost: 0 };

/** The folder with the files of a copy. */
export function filesOf(copy: string): string {
  return `${copy}.files`;
}

async function copyDatabase(url: string, draft: string, log: Log): Promise<void> {
  // Whoever opened the draft while it was written could read all of it later: both engines keep the mode of what is there.
  await (await open(draft, 'wx', 0o600)).close();
  if (url.startsWith('sqlite:')) return copySqlite(url.slice('sqlite:'.length), draft, log);
  await outputOf(
    'pg_dump',
    ['--format=custom', '--enable-row-security', '--no-owner', '--no-privileges', `--file=${draft}`],
    variablesOf(url),
  );
}

interface ObjectOfCopy {
  readonly key: string;
  readonly backend: string;
  readonly state: string;
}

/** What a copy says of objects; nothing where it is older than they are. */
export async function objectsIn(url: string, copy: string, log: Log): Promise<NamedObjects> {
  const rows = url.startsWith('sqlite:')
    ? await withSqlite(`${pathToFileURL(copy).href}?mode=ro`, log, async (sql) =>
        (await sql.schema.hasTable('stored_objects'))
          ? sql<ObjectOfCopy>('stored_objects').select('key', 'backend', 'state')
          : [],
      )
    : await rowsInDump(copy, 'stored_objects', ['key', 'backend', 'state']);
  const onDisk = rows.filter(({ backend }) => backend === 'fs');
  return {
    kept: onDisk.filter(({ state }) => state === 'kept').map(({ key }) => key),
    others: onDisk.filter(({ state }) => state === 'uploading').map(({ key }) => key),
    inBuckets: rows.filter(({ backend, state }) => backend === 's3' && state === 'kept').length,
  };
}

/** One statement within one snapshot: whoever writes meanwhile neither waits nor has it begin anew. */
async function copySqlite(file: string, draft: string, log: Log): Promise<void> {
  await withSqlite(`${pathToFileURL(file).href}?mode=ro`, log, async (sql) => {
    await sql.raw('vacuum into ?', [draft]);
  });
}

export async function withSqlite<T>(filename: string, log: Log, work: (sql: Knex) => Promise<T>): Promise<T> {
  const settings = { client: 'sqlite3', connection: { filename, flags: ['OPEN_URI', 'OPEN_READWRITE'] } };
  const sql = connect({ ...settings, pool: { min: 0, max: 1 } }, log);
  try {
    return await work(sql);
  } finally {
    await sql.destroy();
  }
}

export async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );
}
