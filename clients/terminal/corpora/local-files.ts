/** The files that a person names to be taken in: those below the folders, and each with the name it is known by. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { CommandFailure, exitCodes } from '../failures.ts';

export interface LocalFile {
  readonly path: string;
  /** From the folder that was named on: by this people know it. */
  readonly place: string;
}

/** A file or folder that could not be taken in. */
export interface FailedFile {
  readonly file: string;
  readonly code: string;
  readonly message: string;
}

/** What no person has written. */
const passedBy = new Set(['node_modules', '__pycache__']);

/** What begins with a dot is passed by, and links are not followed: they may lead anywhere. */
export async function filesBelow(
  named: readonly string[],
): Promise<{ readonly files: readonly LocalFile[]; readonly failed: readonly FailedFile[] }> {
  const found = new Map<string, LocalFile>();
  const failed: FailedFile[] = [];
  for (const one of named) {
    const path = resolve(one);
    const state = await stat(path).catch((error: NodeJS.ErrnoException) => {
      throw new CommandFailure(`${one} cannot be read: ${error.message}.`, exitCodes.usage);
    });
    if (!state.isDirectory() && !state.isFile())
      throw new CommandFailure(`${one} is neither a file nor a folder.`, exitCodes.usage);
    const base = `${dirname(path)}${path === sep ? '' : sep}`;
    const placeOf = (below: string) => below.slice(base.length);
    const closed = (folder: string, error: unknown) => failed.push(unreadable(placeOf(folder), error));
    const add = (file: string) => found.set(file, { path: file, place: placeOf(file) });
    if (state.isDirectory()) await addFilesIn(path, add, closed);
    else add(path);
  }
  const files = [...found.values()];
  refuseSamePlaces(files);
  return { files, failed };
}

/** One folder that may not be read is no reason to leave out the others. */
async function addFilesIn(
  folder: string,
  add: (file: string) => void,
  closed: (folder: string, error: unknown) => void,
): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    closed(folder, error);
    return [];
  });
  for (const entry of entries.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
    if (entry.name.startsWith('.') || passedBy.has(entry.name)) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await addFilesIn(path, add, closed);
    else if (entry.isFile()) add(path);
  }
}

/** People could not tell them apart, in what they are told and in what is cited. */
function refuseSamePlaces(files: readonly LocalFile[]): void {
  const paths = new Map<string, string>();
  for (const { path, place } of files) {
    const other = paths.get(place);
    if (other !== undefined)
      throw new CommandFailure(
        `${other} and ${path} would both be called ${place}. Add them one after the other, with a command for each.`,
        exitCodes.usage,
      );
    paths.set(place, path);
  }
}

/** What the file system said of it. */
export function unreadable(place: string, error: unknown): FailedFile {
  const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'; // the file system rejects with nothing else
  return { file: place, code: 'unreadable', message: `It cannot be read (${code}).` };
}

/** What a corpus is called when nobody says: as the first folder, or the one that the first file is in. */
export async function nameFor(named: readonly string[]): Promise<string> {
  const path = resolve(named[0] ?? '.');
  const state = await stat(path).catch(() => null); // `filesBelow` says what is wrong with it.
  return basename(state?.isDirectory() ? path : dirname(path)) || 'documents';
}

/** The SHA-256 of its bytes, in hexadecimal. */
export async function hashOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash, { signal });
  return hash.digest('hex');
}
