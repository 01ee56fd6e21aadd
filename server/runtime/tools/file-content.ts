// Reads whole text files and replaces them in one step, for the tools that change files.
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { isAsRead } from './entry-stats.ts';
import { contentHash } from './file-memory.ts';
import { removeLeftTemporaries, temporaryName } from './temporary-files.ts';
import { type FileChange, type ToolContext, ToolInputError } from './tool.ts';
import { giveToOwnerOf, openForReading, openParent, type ResolvedPath } from './workspace-path.ts';
import { noteWrite } from './writes-meanwhile.ts';

/** Larger files are not source text; changing one by string replacement would hold it in memory several times. */
export const MAX_EDITABLE_BYTES = 10 * 1024 * 1024;

/** Whether a file may be shown: one with a NUL at its beginning is binary. */
export async function holdsText(handle: FileHandle): Promise<boolean> {
  const start = Buffer.alloc(8192);
  const { bytesRead } = await handle.read(start, 0, start.length, 0);
  return !start.subarray(0, bytesRead).includes(0);
}

/** A text file as it is on disk. */
export interface TextFile {
  readonly text: string;
  readonly sha256: string;
  readonly stats: Stats;
}

/** The file's text, or null where there is no file. Refuses binary and very large files. */
export async function readTextFile(path: ResolvedPath): Promise<TextFile | null> {
  const handle = await openForReading(path).catch(unlessMissing);
  if (!handle) return null;
  try {
    const stats = await handle.stat();
    if (stats.size > MAX_EDITABLE_BYTES) {
      throw new ToolInputError(
        `${path.shown} is too large to change here (${stats.size} bytes; at most ${MAX_EDITABLE_BYTES}). Use a command, such as sed.`,
      );
    }
    const content = await handle.readFile();
    return { text: decode(content, path), sha256: contentHash(content), stats };
  } finally {
    await handle.close();
  }
}

/** Refuses to go on when the file is not what this session last saw of it. */
export function assertSeen(path: ResolvedPath, file: TextFile, context: ToolContext): void {
  const known = context.files.recall(path.real);
  if (!known)
    throw new ToolInputError(`${path.shown} exists and has not been viewed in this session. View it first.`);
  if (known.sha256 !== file.sha256) throw changedError(path);
}

export function changedError(path: ResolvedPath): ToolInputError {
  return new ToolInputError(`${path.shown} has changed since it was last viewed. View it again first.`);
}

/** A file that was replaced: its size, and what there is to say about it. */
export interface Replaced {
  readonly bytes: number;
  readonly note: string;
}

/**
 * Puts the text in the file's place by a rename, so that no reader ever sees half of it, and remembers the new
 * version. Mode and owner of an existing file are kept. Refuses where somebody has written since `before` was read.
 */
export async function replaceTextFile(
  path: ResolvedPath,
  text: string,
  before: TextFile | null,
  context: ToolContext,
): Promise<Replaced> {
  const content = Buffer.from(text.toWellFormed(), 'utf8');
  const parent = await openParent(path);
  const temporary = parent.entry(temporaryName());
  try {
    await removeLeftTemporaries(parent.entry);
    const mtimeMs = await writeNew(temporary, content, before, parent.handle);
    const change = { path: path.real, before: before?.text ?? null, after: text };
    const place = { path, at: parent.entry(basename(path.real)), read: before?.stats ?? null };
    await takePlace(temporary, place, change, context);
    context.files.remember(path.real, { sha256: contentHash(content), mtimeMs });
    return { bytes: content.length, note: await context.noteAfterChange(path.real) };
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  } finally {
    await parent.handle.close();
  }
}

/** Where a new file is to go, and what was there when it was read. */
interface Place {
  readonly path: ResolvedPath;
  readonly at: string;
  readonly read: Stats | null;
}

/**
 * Puts a new file in its place. To make it safe on disk, and to record it, takes long enough for a person to save theirs:
 * so it is looked at again before it is recorded, and in the last moment.
 */
export async function takePlace(
  temporary: string,
  { path, at, read }: Place,
  change: FileChange,
  context: ToolContext,
): Promise<void> {
  if (!(await isAsRead(at, read))) throw changedError(path);
  await context.recordChange(change);
  if (!(await isAsRead(at, read))) throw changedError(path);
  noteWrite(change.path, change.after);
  await rename(temporary, at);
}

/** Runs one change of a file after the other, so that two calls in one step cannot overwrite each other. */
export async function withFileLock<T>(path: ResolvedPath, work: () => Promise<T>): Promise<T> {
  const before = locks.get(path.real) ?? Promise.resolve();
  const mine = before.then(work, work);
  const settled = mine.then(ignoreOutcome, ignoreOutcome);
  locks.set(path.real, settled);
  try {
    return await mine;
  } finally {
    if (locks.get(path.real) === settled) locks.delete(path.real);
  }
}

const locks = new Map<string, Promise<void>>();

/** The next in line waits only for the end of the work; its outcome goes to whoever asked for it. */
function ignoreOutcome(): void {
  // Nothing to do.
}

/**
 * Writes a file that is to take another's place: with the mode and the owner of that one, or of its folder and with the
 * given mode. All through the open file: whoever may write to the folder can put a link to another file under the name.
 */
export async function writeNew(
  at: string,
  content: Uint8Array,
  before: Pick<TextFile, 'stats'> | null,
  folder: FileHandle,
  mode: number | null = null,
): Promise<number> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const handle = await open(at, flags, 0o666);
  try {
    await handle.writeFile(content);
    if (before) await keepOwnership(handle, before.stats);
    else await giveToOwnerOf(folder, handle);
    if (!before && mode !== null) await handle.chmod(mode & 0o777);
    await handle.sync();
    return (await handle.stat()).mtimeMs;
  } finally {
    await handle.close();
  }
}

/** Gives the file that takes the place of another its mode and, as far as this process may, its owner. */
export async function keepOwnership(handle: FileHandle, stats: Stats): Promise<void> {
  const now = await handle.stat();
  if (now.uid !== stats.uid || now.gid !== stats.gid)
    await handle.chown(stats.uid, stats.gid).catch(unlessForbidden);
  // Without the set-user-id bits: new content must not inherit someone's rights.
  await handle.chmod(stats.mode & 0o777);
}

function unlessForbidden(error: NodeJS.ErrnoException): void {
  // Only root can give files away; anyone else keeps the file as its own, as editors do.
  if (error.code !== 'EPERM') throw error;
}

function unlessMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}

function decode(content: Buffer, path: ResolvedPath): string {
  if (content.includes(0))
    throw new ToolInputError(
      `${path.shown} is a binary file (${content.length} bytes); only commands can change it.`,
    );
  try {
    // `ignoreBOM` keeps the byte order mark in the text, so that it is written back.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
  } catch (cause) {
    throw new ToolInputError(
      `${path.shown} is not UTF-8 text; changing it here would damage it. Use a command, such as sed or iconv.`,
      { cause },
    );
  }
}
