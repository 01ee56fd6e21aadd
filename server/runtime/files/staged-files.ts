/** Writes new contents beside files, and puts them in their places: all of them, or none. */
import type { Stats } from 'node:fs';
import { type FileHandle, link, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { isAsRead } from '../tools/entry-stats.ts';
import { withFileLock, writeNew } from '../tools/file-content.ts';
import { backupName, temporaryName } from '../tools/temporary-files.ts';
import { openForReading, openParent, type ResolvedPath } from '../tools/workspace-path.ts';
import { noteWrite } from '../tools/writes-meanwhile.ts';
import type { PendingFile } from './pending-file.ts';

/** Contents that wait beside their files. */
export interface StagedFiles {
  /**
   * Does the work while no tool of another session edits these files. Such a tool holds its file and waits for the
   * database, to record the change: whoever is in a transaction must not ask for files, or each waits for the other.
   */
  locked<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Puts them in their files' places: to be called within `locked`. If one cannot be, those before it are as they were,
   * and it rejects.
   */
  apply(): Promise<void>;
  /**
   * Makes an `apply` undone. Where that fails for some, the others are as they were, it rejects, and may be called again:
   * what those held stays beside them.
   */
  undo(): Promise<void>;
  /** Removes what lies beside the files; rejects when it has tried all of them. */
  clear(): Promise<void>;
}

interface StagedFile extends PendingFile {
  /** The new content beside the file; null where the file is to go. */
  readonly content: string | null;
  /** Of that, in bytes. */
  readonly size: number;
  /** Where the old content is kept while the others follow. */
  readonly backup: string;
}

/** Writes the contents beside the files, which stay as they are. */
export async function stage(pending: readonly PendingFile[]): Promise<StagedFiles> {
  const staged: StagedFile[] = [];
  const applied: StagedFile[] = [];
  /** Those that could not be taken back. */
  let stuck: readonly StagedFile[] = [];
  const clear = async () => {
    const left = await forEach(staged, (one) => removeBeside(one, stuck.includes(one)));
    if (left.length > 0) throw failure('Something was left beside', left);
  };
  const undo = async () => {
    const left = await forEach(applied.splice(0).reverse(), takeBack);
    stuck = left.map(({ one }) => one);
    applied.push(...stuck.toReversed());
    if (left.length > 0) throw failure('These files could not be taken back, what they held is beside', left);
  };
  try {
    for (const one of pending) staged.push(await stageOne(one));
  } catch (error) {
    await clear().catch((left: unknown) => {
      throw new AggregateError([error, left], 'Files could not be written, and were not removed again.');
    });
    throw error;
  }
  const apply = async () => {
    for (const one of staged) await assertAsChecked(one);
    try {
      for (const one of staged) {
        // Others have taken their time since.
        await assertAsChecked(one);
        await replace(one);
        applied.push(one);
      }
    } catch (error) {
      await undo();
      throw error;
    }
  };
  // Always in the same order, so that no two wait for each other; and each once, since a lock waits for itself, too.
  const paths = new Map(staged.map(({ path }) => [path.real, path]));
  const inOrder = [...paths.values()].toSorted((a, b) => (a.real < b.real ? -1 : 1));
  return { locked: (work) => locked(inOrder, work), apply, undo, clear };
}

interface Failed {
  readonly one: StagedFile;
  readonly error: unknown;
}

/** Goes on where one fails. */
async function forEach(
  files: readonly StagedFile[],
  work: (one: StagedFile) => Promise<void>,
): Promise<readonly Failed[]> {
  const failed: Failed[] = [];
  for (const one of files) await work(one).catch((error: unknown) => failed.push({ one, error }));
  return failed;
}

function failure(what: string, failed: readonly Failed[]): Error {
  const names = failed.map(({ one }) => `${one.path.shown} (${one.backup})`);
  return new AggregateError(
    failed.map(({ error }) => error),
    `${what}: ${names.join(', ')}.`,
  );
}

async function removeBeside({ path, content, backup }: StagedFile, keepsBackup: boolean): Promise<void> {
  await besideFile(path, async (entry) => {
    for (const name of [content, keepsBackup ? null : backup])
      if (name) await rm(entry(name), { force: true });
  });
}

function locked<T>(paths: readonly ResolvedPath[], work: () => Promise<T>): Promise<T> {
  const [first, ...rest] = paths;
  return first ? withFileLock(first, () => locked(rest, work)) : work();
}

async function stageOne(one: PendingFile): Promise<StagedFile> {
  const backup = backupName();
  if (one.file.target === null) return { ...one, content: null, size: 0, backup };
  const content = temporaryName();
  const bytes = await one.file.read();
  if (!bytes) throw new Error(`The content of ${one.path.shown} is gone.`);
  await besideFile(one.path, async (entry, folder) => {
    await writeNew(entry(content), bytes, one.stats && { stats: one.stats }, folder, one.file.mode);
  });
  return { ...one, content, size: bytes.length, backup };
}

/** Refuses when the file is not as it was checked. */
async function assertAsChecked({ path, stats }: PendingFile): Promise<void> {
  if (await isAsRead(path.real, stats)) return;
  throw Object.assign(new Error(`${path.shown} has changed a moment ago.`), { name: 'FileMoved' });
}

async function replace({ path, stats, file, content, size, backup }: StagedFile): Promise<void> {
  noteWrite(path.real, file.target === null ? null : { sha256: file.target, size });
  await besideFile(path, async (entry, folder) => {
    const name = entry(basename(path.real));
    // A second name for the old content costs nothing; some file systems know none.
    if (stats) await link(name, entry(backup)).catch(() => keepCopy(path, stats, entry(backup), folder));
    if (content === null) await rm(name);
    else await rename(entry(content), name);
  });
}

/** Reads the file itself: by its name a copy would also be made of what a link leads to that was put there meanwhile. */
async function keepCopy(path: ResolvedPath, stats: Stats, at: string, folder: FileHandle): Promise<void> {
  const handle = await openForReading(path);
  try {
    await writeNew(at, await handle.readFile(), { stats }, folder);
  } finally {
    await handle.close();
  }
}

async function takeBack({ path, stats, backup }: StagedFile): Promise<void> {
  await besideFile(path, async (entry) => {
    const name = entry(basename(path.real));
    if (stats) await rename(entry(backup), name);
    else await rm(name, { force: true });
  });
}

/** Works in the folder of the file, held open, so that nobody can put another in its place. */
async function besideFile(
  path: ResolvedPath,
  work: (entry: (name: string) => string, folder: FileHandle) => Promise<void>,
): Promise<void> {
  const parent = await openParent(path);
  try {
    await work(parent.entry, parent.handle);
  } finally {
    await parent.handle.close();
  }
}
