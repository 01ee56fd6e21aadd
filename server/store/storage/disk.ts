/** Objects as files in a folder: written beside their place, brought to the disk, and renamed into it. */
import { createReadStream } from 'node:fs';
import { access, constants, type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { Problem } from '../../problem.ts';
import { syncToDisk } from '../../sync-to-disk.ts';
import { type ByteRange, placeOf, type Storage } from './storage.ts';

/** The folder is made with the first object in it. */
export function diskStorage(folder: string): Storage {
  const draftOf = (key: string) => join(folder, 'uploads', key);
  const pathOf = (key: string) => objectPath(folder, key);
  return {
    backend: 'fs',
    async write(key, bytes) {
      const given = watched(bytes);
      try {
        await makeFolder(dirname(draftOf(key)));
        await writeDraft(draftOf(key), given.bytes);
        const folders = await makeFolder(dirname(pathOf(key)));
        await rename(draftOf(key), pathOf(key));
        // The names are on the disk, too: the object's own, and those of folders that are new.
        for (const name of [dirname(pathOf(key)), ...folders]) await syncToDisk(name);
      } catch (error) {
        // What the bytes were brought with is no matter of this disk.
        throw given.failed() ? error : refusalOf(error);
      }
    },
    read: (key, range, size) => openToRead(pathOf(key), range, size),
    sizeOf: (key) =>
      stat(pathOf(key)).then(
        (found) => found.size,
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return null;
          throw unreadable(error);
        },
      ),
    async delete(key) {
      await Promise.all([rm(draftOf(key), { force: true }), rm(pathOf(key), { force: true })]);
    },
    async ping() {
      // It is made with the first object: until then whoever may make it is enough.
      const found = await access(folder).then(
        () => folder,
        () => dirname(folder),
      );
      await access(found, constants.R_OK | constants.W_OK).catch((cause: unknown) => {
        throw unwritable(cause);
      });
    },
  };
}

function unwritable(cause: unknown): Problem {
  const detail = 'The folder of files cannot be written to; tell the operator.';
  return new Problem('storage_unavailable', detail, { cause });
}

function unreadable(cause: unknown): Problem {
  const detail = 'The bytes of this file cannot be read; tell the operator.';
  return new Problem('storage_unavailable', detail, { cause });
}

const full: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);
/** Of a new folder on a disk that is read-only Node says that it is not there. */
const away: ReadonlySet<unknown> = new Set([
  'EROFS',
  'EACCES',
  'EPERM',
  'EIO',
  'EMFILE',
  'ENFILE',
  'ENOTDIR',
  'ENOENT',
]);

function refusalOf(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (full.has(code))
    return new Problem('storage_full', 'The disk is full; free some room, then try again.', { cause: error });
  return away.has(code) ? unwritable(error) : error;
}

/** The same bytes, and whether to bring them has failed. */
function watched(bytes: AsyncIterable<Uint8Array>) {
  let failed = false;
  async function* passed(): AsyncGenerator<Uint8Array> {
    try {
      yield* bytes;
    } catch (error) {
      failed = true;
      throw error;
    }
  }
  return { bytes: passed(), failed: () => failed };
}

/** Where an object lies in the folder of the storage. */
export function objectPath(folder: string, key: string): string {
  return join(folder, 'objects', placeOf(key));
}

async function writeDraft(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of bytes) await writeAll(file, chunk);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
}

async function openToRead(
  path: string,
  range: ByteRange | undefined,
  size: number | undefined,
): Promise<Readable> {
  const file = await open(path, 'r').catch((cause: unknown) => {
    throw unreadable(cause);
  });
  if (size !== undefined) await requireSize(file, path, size);
  return createReadStream(path, { fd: file, ...(range && { start: range.first, end: range.last }) });
}

/** Closes the file where it has another one. */
async function requireSize(file: FileHandle, path: string, size: number): Promise<void> {
  try {
    const found = await file.stat();
    if (found.size !== size) throw new Error(`${path} has ${found.size} bytes, and should have ${size}.`);
  } catch (error) {
    await file.close();
    throw unreadable(error);
  }
}

/** The parents of the folders that were missing. */
async function makeFolder(path: string): Promise<readonly string[]> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  const parents: string[] = [];
  for (let at = path; first !== undefined && at.length >= first.length; at = dirname(at))
    parents.push(dirname(at));
  return parents;
}
