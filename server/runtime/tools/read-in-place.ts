// Reads files and folders where they were found, for threads that walk while commands may exchange them for links.
import {
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  type Stats,
} from 'node:fs';

const ON_LINUX = process.platform === 'linux';

/**
 * Opens a file or folder and hands it on only if it is still where it was found: a command that runs meanwhile may
 * have put a link to somewhere else in its place. Null when it cannot be read.
 */
export function readInPlace<T>(path: string, read: (openedAt: string, descriptor: number) => T): T | null {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    // Unreadable or gone: a search passes over it as over a file that is not there.
    return null;
  }
  try {
    const openedAt = ON_LINUX ? `/proc/self/fd/${descriptor}` : path;
    if (ON_LINUX && readlinkSync(openedAt) !== path) return null;
    return read(openedAt, descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** The text of a regular file of at most that size; else null. */
export function readSmallFile(path: string, maxBytes: number): string | null {
  return readInPlace(path, (_openedAt, descriptor) => {
    const stats = fstatSync(descriptor);
    return stats.isFile() && stats.size <= maxBytes ? readFileSync(descriptor, 'utf8') : null;
  });
}

/** What a folder holds; nothing where it cannot be read, or is none. */
export function entriesInPlace(folder: string): readonly Dirent[] {
  const entries = readInPlace(folder, (openedAt, descriptor) =>
    fstatSync(descriptor).isDirectory() ? readdirSync(openedAt, { withFileTypes: true }) : [],
  );
  return entries ?? [];
}

/** What lies at the path; null where nothing does, or nothing for us to see, as in a folder that we may only list. */
export function statsInPlace(path: string): Stats | null {
  try {
    return lstatSync(path);
  } catch {
    return null;
  }
}
