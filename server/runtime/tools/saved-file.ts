/** Saves bytes that tools were given as a file: whole or not at all, and over nothing that the session has not seen. */
import { createHash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import {
  changedError,
  holdsText,
  keepOwnership,
  MAX_EDITABLE_BYTES,
  takePlace,
  withFileLock,
} from './file-content.ts';
import { removeLeftTemporaries, temporaryName } from './temporary-files.ts';
import { type ToolContext, ToolInputError, type UnkeptContent } from './tool.ts';
import { giveToOwnerOf, openForReading, openParent, type ResolvedPath } from './workspace-path.ts';

/** Into a file beside the target, which then takes its place: no reader ever sees half of it. Mode and owner are kept. */
export async function saveFile(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  path: ResolvedPath,
  context: ToolContext,
): Promise<{ bytes: number; note: string }> {
  const parent = await openParent(path);
  const temporary = parent.entry(temporaryName());
  try {
    await removeLeftTemporaries(parent.entry);
    // All through this one: whoever may write to the folder can put a link to another file under the name.
    const handle = await openNew(temporary);
    try {
      await giveToOwnerOf(parent.handle, handle);
      const { content, sha256, size, mtimeMs } = await writeChunks(chunks, handle);
      return await withFileLock(path, async () => {
        const before = await knownFile(path, context);
        context.signal.throwIfAborted();
        if (before) await keepOwnership(handle, before.stats);
        const change = { path: path.real, before: before?.content ?? null, after: content };
        const place = { path, at: parent.entry(basename(path.real)), read: before?.stats ?? null };
        await takePlace(temporary, place, change, context);
        context.files.remember(path.real, { sha256, mtimeMs });
        return { bytes: size, note: await context.noteAfterChange(path.real) };
      });
    } finally {
      await handle.close();
    }
  } finally {
    // After the rename it is not there any more.
    await rm(temporary, { force: true });
    await parent.handle.close();
  }
}

interface StoredContent {
  /** What is too large to be kept is only told apart. */
  readonly content: Uint8Array | UnkeptContent;
  readonly sha256: string;
  readonly size: number;
  readonly mtimeMs: number;
}

function openNew(at: string): Promise<FileHandle> {
  return open(at, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o666);
}

async function writeChunks(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  handle: FileHandle,
): Promise<StoredContent> {
  for await (const chunk of chunks) await handle.appendFile(chunk);
  await handle.sync();
  return storedContent(handle);
}

async function storedContent(handle: FileHandle): Promise<StoredContent> {
  const { size, mtimeMs } = await handle.stat();
  const hash = createHash('sha256');
  const kept: Uint8Array[] = [];
  for await (const chunk of handle.createReadStream({ autoClose: false, start: 0 })) {
    hash.update(chunk);
    if (size <= MAX_EDITABLE_BYTES) kept.push(chunk);
  }
  const sha256 = hash.digest('hex');
  return {
    sha256,
    size,
    mtimeMs,
    content: size <= MAX_EDITABLE_BYTES ? Buffer.concat(kept) : { sha256, size },
  };
}

/** Not every file can be viewed, and of a large one that is no knowledge of its content. */
async function adviceFor(path: ResolvedPath, { size }: Stats): Promise<string> {
  const handle = await openForReading(path);
  try {
    if (size <= MAX_EDITABLE_BYTES && (await holdsText(handle)))
      return 'View it first, or choose another name.';
    return 'It is binary or too large to be viewed: choose another name, or remove it with a command first.';
  } finally {
    await handle.close();
  }
}

interface KnownFile {
  readonly content: StoredContent['content'];
  readonly stats: Stats;
}

/** What lies at the path, which this session has to know: nothing is overwritten unseen. Null where nothing does. */
export async function knownFile(path: ResolvedPath, context: ToolContext): Promise<KnownFile | null> {
  const stats = await lstat(path.real).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (!stats) return null;
  if (stats.isDirectory()) throw new ToolInputError(`${path.shown} is a folder; name a file in it.`);
  const known = context.files.recall(path.real);
  if (!known)
    throw new ToolInputError(
      `${path.shown} exists and has not been viewed in this session. ${await adviceFor(path, stats)}`,
    );
  const handle = await openForReading(path);
  try {
    // Before it is read: what is written from then on shows.
    const read = await handle.stat();
    const { content, sha256 } = await storedContent(handle);
    if (sha256 === known.sha256) return { content, stats: read };
  } finally {
    await handle.close();
  }
  throw changedError(path);
}
