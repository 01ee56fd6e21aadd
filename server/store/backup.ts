/** Copies a database while it is in use, and the files that it names: done whole, or not at all. */
import { chmod, link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Knex } from 'knex';
import type { Log } from '../log.ts';
import { fateOf, nameOwner } from '../process-name.ts';
import { syncToDisk } from '../sync-to-disk.ts';
import { type FilesOfBackup, type NamedObjects, takeFiles } from './backup-files.ts';
import { connect } from './database.ts';
import { outputOf, rowsInDump, variablesOf } from './postgres-programs.ts';

/**
 * Writes a copy of the database at `url` to a new file, readable for its owner alone, and of the files in the folder
 * `files` to a folder beside it. What is there already stays.
 */
export async function backUp(url: string, target: string, log: Log, files?: string): Promise<FilesOfBackup> {
  for (const place of [target, filesOf(target)])
    if (await exists(place)) throw new Error(`${place} is there already; name another file.`);
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  await removeDrafts(dirname(target), log);
  const draft = join(dirname(target), draftOf(basename(target)));
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

/** Says whose it is, within what a name may hold; of the target as much as shows what for. */
function draftOf(target: string): string {
  return `.${[...target].slice(0, 24).join('')}~${encodeURIComponent(nameOwner())}`;
}

const draftPattern = /^\..+~([\w.-]+%2F\d+%2F[\w-]+%2F[\da-f-]{36})(\.files|-journal)?$/;

/** Where nobody can tell whether its process has died, a draft that was not written to for so long is nobody's. */
const leftoverMs = 86_400_000;

/** Whoever is killed leaves a draft, as large as the database; its links keep the bytes of files that are deleted later. */
async function removeDrafts(folder: string, log: Log): Promise<void> {
  for (const name of await readdir(folder)) {
    const [, owner] = draftPattern.exec(name) ?? [];
    if (owner === undefined) continue;
    const path = join(folder, name);
    try {
      const fate = fateOf(decodeURIComponent(owner));
      const isOld = Date.now() - (await stat(path)).mtimeMs >= leftoverMs;
      if (fate === 'died' || (fate === 'unknown' && isOld)) await rm(path, { recursive: true, force: true });
    } catch (error) {
      log.warn({ err: error, path }, 'what a killed backup has left could not be removed');
    }
  }
}

/** The files first: a copy is never without them. */
async function bringInPlace(draft: string, target: string): Promise<void> {
  const hasFiles = await exists(filesOf(draft));
  if (hasFiles) await rename(filesOf(draft), filesOf(target));
  try {
    await moveToNew(draft, target);
  } catch (error) {
    if (hasFiles) await rm(filesOf(target), { recursive: true, force: true });
    throw error;
  }
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
