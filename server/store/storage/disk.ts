/** Objects as files in a folder: written beside their place, brought to the disk, and renamed into it. */
import { createReadStream } from 'node:fs';
import { access, constants, mkdir, open, rename, rm } from 'node:fs/promises';
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
      await makeFolder(dirname(draftOf(key)));
      await writeDraft(draftOf(key), bytes).catch(refuseFullDisk);
      const folders = await makeFolder(dirname(pathOf(key)));
      await rename(draftOf(key), pathOf(key));
      // The names are on the disk, too: the object's own, and those of folders that are new.
      for (const name of [dirname(pathOf(key)), ...folders]) await syncToDisk(name);
    },
    read: (key, range) => openToRead(pathOf(key), range),
    async delete(key) {
      await Promise.all([rm(draftOf(key), { force: true }), rm(pathOf(key), { force: true })]);
    },
    async ping() {
      // It is made with the first object: until then whoever may make it is enough.
      const found = await access(folder).then(
        () => folder,
        () => dirname(folder),
      );
      await access(found, constants.R_OK | constants.W_OK).catch(refuseFolder);
    },
  };
}

function refuseFolder(cause: NodeJS.ErrnoException): never {
  throw new Problem('storage_unavailable', 'The folder of files cannot be written to; tell the operator.', {
    cause,
  });
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

async function writeAll(file: Awaited<ReturnType<typeof open>>, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
}

async function openToRead(path: string, range: ByteRange | undefined): Promise<Readable> {
  const file = await open(path, 'r').catch((cause: NodeJS.ErrnoException) => {
    throw new Problem('storage_unavailable', 'The bytes of this file cannot be read; tell the operator.', {
      cause,
    });
  });
  return createReadStream(path, { fd: file, ...(range && { start: range.first, end: range.last }) });
}

/** The parents of the folders that were missing. */
async function makeFolder(path: string): Promise<readonly string[]> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  const parents: string[] = [];
  for (let at = path; first !== undefined && at.length >= first.length; at = dirname(at))
    parents.push(dirname(at));
  return parents;
}

function refuseFullDisk(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ENOSPC' && error.code !== 'EDQUOT' && error.code !== 'EFBIG') throw error;
  throw new Problem('storage_full', 'The disk is full; free some room, then try again.', { cause: error });
}
