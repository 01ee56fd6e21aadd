/**
 * Reads small files of the workspace at once, on the main thread: a command may have put there a pipe, which waits for its
 * writer, or a file that is larger than memory.
 */
import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';

/** A pointer of git names one folder; the longest path has half of that. */
export const longestPointer = 8192;
/** The settings of a repository, with some ten thousand branches. */
export const largestSettings = 4 * 1024 ** 2;

/** The text of a file of at most that many bytes; null where it is larger, or no regular file. */
export function smallText(path: string, mostBytes: number): string | null {
  const start = startOf(path, mostBytes + 1);
  return start === null || start.length > mostBytes ? null : start.toString('utf8');
}

/** What a file begins with; null where it is no regular file. Links are followed: people have them in these places. */
export function startOf(path: string, bytes: number): Buffer | null {
  // Some devices do something when they are opened.
  if (!statSync(path).isFile()) return null;
  // Something else may have taken its place meanwhile; a pipe opened so waits for nobody.
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!fstatSync(descriptor).isFile()) return null;
    const start = Buffer.alloc(bytes);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes; length += read)
      read = readSync(descriptor, start, length, bytes - length, null);
    return start.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}
