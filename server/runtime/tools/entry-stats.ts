// What a folder says of a file, and whether that is what it said when the file was read.
import type { Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';

/** What a path names, without following a link; null where there is nothing. */
export async function statsOf(path: string): Promise<Stats | null> {
  return lstat(path).catch((error: unknown) => {
    if (isNoFile(error)) return null;
    throw error;
  });
}

export function isNoFile(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** Whether nobody has written to the file, or put another in its place: told by its entry, so that it takes no time. */
export async function isAsRead(path: string, read: Stats | null): Promise<boolean> {
  const now = await statsOf(path);
  if (now === null || read === null) return now === read;
  return (
    now.ino === read.ino &&
    now.size === read.size &&
    now.mtimeMs === read.mtimeMs &&
    now.ctimeMs === read.ctimeMs
  );
}
