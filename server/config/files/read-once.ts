/** Reads a settings file once, so that what is hashed, what is parsed and what the path names are one and the same. */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readlink, realpath } from 'node:fs/promises';
import { relative, sep } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Diagnostic } from '../diagnostic.ts';
import { maximumBytes, tooLarge } from '../document.ts';

/** A file as it was read. */
export interface ReadFile {
  /** The path with every symbolic link resolved. */
  readonly realPath: string;
  readonly bytes: Uint8Array;
  /** Hex SHA-256 of the bytes. */
  readonly sha256: string;
}

/** A file, nothing where there is none, or what keeps it from being read. */
export type ReadResult = ReadFile | Diagnostic | null;

/** Editors replace files while we read; whoever does so this often in a row does it to deceive us. */
const maximumAttempts = 10;
/** Whoever writes a file in place empties it first, and an empty file is a valid one: it counts only once it stays so. */
const emptyMs = 100;

/**
 * Reads the file if it is there. With a boundary, a file whose real path lies outside that folder is not opened; the
 * boundary is a real path itself.
 */
export async function readOnce(file: string, boundary: string | null): Promise<ReadResult> {
  for (let attempt = 0; attempt < maximumAttempts; attempt++) {
    const result = await attemptToRead(file, boundary);
    if (result !== 'changed') return result;
  }
  return told(
    'error',
    file,
    'The file is being replaced again and again while it is read',
    'Find out by whom.',
  );
}

/** Whether the path is the folder or lies in it. */
export function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !way.startsWith(sep));
}

async function attemptToRead(file: string, boundary: string | null): Promise<ReadResult | 'changed'> {
  const realPath = await tried(realpath(file));
  if (typeof realPath === 'object') return unresolved(file, boundary, realPath.code);
  if (boundary !== null && !isWithin(realPath, boundary)) return outside(file, boundary);
  const kind = await tried(lstat(realPath));
  if ('code' in kind) return kind.code === 'ENOENT' ? 'changed' : unreadable(file, kind.code);
  if (kind.isSymbolicLink()) return 'changed';
  // To open a pipe or a device can have an effect, or wait for ever.
  if (!kind.isFile()) return kind.isDirectory() ? folderInstead(file, boundary) : noFile(file);
  const handle = await tried(
    open(realPath, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK),
  );
  if ('code' in handle) return gone.has(handle.code) ? 'changed' : unreadable(file, handle.code);
  try {
    return await readHandle(handle, file, realPath);
  } finally {
    await handle.close();
  }
}

/** What opening says where the file was taken away, or a link put in its place, after it was looked at. */
const gone: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO']);

async function readHandle(
  handle: FileHandle,
  file: string,
  realPath: string,
): Promise<ReadResult | 'changed'> {
  const facts = await handle.stat();
  if (!facts.isFile()) return 'changed';
  if (facts.size > maximumBytes) return tooLarge(file);
  let bytes = await readUpTo(handle, maximumBytes + 1);
  const waitMs = emptyMs - Math.max(0, Date.now() - facts.ctimeMs);
  if (bytes.length === 0 && waitMs > 0) {
    await delay(waitMs);
    bytes = await readUpTo(handle, maximumBytes + 1);
  }
  if (!(await isStillAt(handle, realPath))) return 'changed';
  if (bytes.length > maximumBytes) return tooLarge(file);
  return { realPath, bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/** A file may grow while it is read, and some say that they are empty. */
async function readUpTo(handle: FileHandle, limit: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let total = 0;
  while (total < limit) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(Math.min(65_536, limit - total)), 0);
    if (bytesRead === 0) break;
    chunks.push(buffer.subarray(0, bytesRead));
    total += bytesRead;
  }
  return Buffer.concat(chunks);
}

/** A folder on the way may have been swapped for a link between resolving the path and opening it. */
async function isStillAt(handle: FileHandle, realPath: string): Promise<boolean> {
  const opened = await tried(readlink(`/proc/self/fd/${handle.fd}`));
  if (typeof opened === 'string') return opened === realPath;
  // Without /proc: the path must still name itself, and the very file that is open.
  const [now, facts, open] = await Promise.all([
    tried(realpath(realPath)),
    tried(lstat(realPath)),
    handle.stat(),
  ]);
  return now === realPath && 'ino' in facts && facts.ino === open.ino && facts.dev === open.dev;
}

/** What the file system says, or the code with which it refuses. */
async function tried<Found>(doing: Promise<Found>): Promise<Found | { readonly code: string }> {
  try {
    return await doing;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // the file system rejects with nothing else
    if (code === undefined) throw error;
    return { code };
  }
}

async function unresolved(file: string, boundary: string | null, code: string): Promise<ReadResult> {
  if (code === 'ENOENT') {
    const itself = await tried(lstat(file));
    if ('code' in itself) return null;
    return itself.isSymbolicLink()
      ? told('warning', file, 'This is a symbolic link to nothing', remedies.link)
      : null;
  }
  if (code === 'ELOOP')
    return told('warning', file, 'This is a symbolic link that leads back to itself', remedies.link);
  // A file where a folder of the project would be is no settings file's affair.
  if (code === 'ENOTDIR' && boundary !== null) return null;
  return unreadable(file, code);
}

const remedies = {
  link: 'Let it lead to a file, or remove it.',
  file: 'Let it be a file that this user may read, or remove it.',
  folder: 'Let SERVICE_GLOBAL_CONFIG name the folder that holds service.json, not the file.',
} as const;

function outside(file: string, boundary: string): Diagnostic {
  return told(
    'warning',
    file,
    `This is a symbolic link to outside the project ${boundary}, and is not read`,
    'Put the file itself there, or remove the link.',
  );
}

function noFile(file: string): Diagnostic {
  return told('warning', file, 'This is a pipe, a socket or a device, and is not read', remedies.file);
}

function folderInstead(file: string, boundary: string | null): Diagnostic | null {
  return boundary === null ? unreadable(file, 'EISDIR') : null;
}

function unreadable(file: string, code: string): Diagnostic {
  const remedy = code === 'ENOTDIR' ? remedies.folder : remedies.file;
  return told('error', file, `The file cannot be read (${code})`, remedy);
}

function told(severity: Diagnostic['severity'], file: string, message: string, remedy: string): Diagnostic {
  return { severity, place: { file, line: 1, column: 1 }, pointer: '', message, expected: null, remedy };
}
