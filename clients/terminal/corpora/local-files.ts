/** The files that a person names to be taken in: those below the folders, and each with the name it is known by. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { CommandFailure, exitCodes } from '../failures.ts';

export interface LocalFile {
  readonly path: string;
  /** From the folder that was named on: by this it is known again. */
  readonly place: string;
}

/** What no person has written. */
const passedBy = new Set(['node_modules', '__pycache__']);

/** What begins with a dot is passed by, and links are not followed: they may lead anywhere. */
export async function filesBelow(named: readonly string[]): Promise<readonly LocalFile[]> {
  const found = new Map<string, LocalFile>();
  for (const one of named) {
    const path = resolve(one);
    const state = await stat(path).catch((error: NodeJS.ErrnoException) => {
      throw new CommandFailure(`${one} cannot be read: ${error.message}.`, exitCodes.usage);
    });
    const base = `${dirname(path)}${path === sep ? '' : sep}`;
    const paths = state.isDirectory() ? await below(path) : [path];
    for (const file of paths) found.set(file, { path: file, place: file.slice(base.length) });
  }
  return [...found.values()];
}

async function below(folder: string): Promise<string[]> {
  const files: string[] = [];
  const entries = await readdir(folder, { withFileTypes: true });
  for (const entry of entries.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
    if (entry.name.startsWith('.') || passedBy.has(entry.name)) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) files.push(...(await below(path)));
    else if (entry.isFile()) files.push(path);
  }
  return files;
}

/** What a corpus is called when nobody says: as the first folder, or the one that the first file is in. */
export async function nameFor(named: readonly string[]): Promise<string> {
  const path = resolve(named[0] ?? '.');
  const state = await stat(path).catch(() => null); // `filesBelow` says what is wrong with it.
  return basename(state?.isDirectory() ? path : dirname(path)) || 'documents';
}

/** The SHA-256 of its bytes, in hexadecimal. */
export async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}
