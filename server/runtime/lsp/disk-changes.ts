/** Sees what has changed on disk since it last looked: commands change files without telling anybody. */
import type { Dirent } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { statsInPlace } from '../tools/read-in-place.ts';
import { isOfType } from './file-types.ts';

/** A change, in the numbers of the protocol: 1 created, 2 changed, 3 deleted. */
export interface DiskChange {
  readonly path: string;
  readonly type: 1 | 2 | 3;
}

/** In a larger project only the documents that are open are looked at. */
const mostFiles = 5000;
const mostFolders = 2000;
/** What others have written, and much of it. */
const passedOver = new Set(['node_modules', 'target', 'dist', 'build', 'vendor', '__pycache__', 'venv']);

/** Looks below the root at files of these types and names; the first look only remembers. */
export function watchDisk(
  root: string,
  filetypes: readonly string[],
  names: readonly string[],
): () => Promise<readonly DiskChange[]> {
  let known: ReadonlyMap<string, string> | null = null;
  const concerned = (path: string) => isOfType(path, filetypes) || names.includes(basename(path));
  return async () => {
    const now = await look(root, concerned);
    const before = known;
    known = now;
    if (!before || !now) return [];
    const made = [...now].flatMap(([path, stamp]): DiskChange[] => {
      const old = before.get(path);
      if (old === stamp) return [];
      return [{ path, type: old === undefined ? 1 : 2 }];
    });
    const gone = [...before.keys()].filter((path) => !now.has(path));
    return [...made, ...gone.map((path): DiskChange => ({ path, type: 3 }))];
  };
}

/** Null where there is too much to look at. */
async function look(
  root: string,
  concerned: (path: string) => boolean,
): Promise<ReadonlyMap<string, string> | null> {
  const found = new Map<string, string>();
  const queue = [root];
  for (let count = 0; count < queue.length; count += 1) {
    if (count > mostFolders) return null;
    const folder = queue[count] ?? root;
    for (const entry of await entriesOf(folder)) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) {
        if (!entry.name.startsWith('.') && !passedOver.has(entry.name)) queue.push(path);
      } else if (entry.isFile() && concerned(path)) {
        const stats = statsInPlace(path);
        if (stats) found.set(path, `${stats.mtimeMs} ${stats.size} ${stats.ino}`);
        if (found.size > mostFiles) return null;
      }
    }
  }
  return found;
}

async function entriesOf(folder: string): Promise<readonly Dirent[]> {
  return await readdir(folder, { withFileTypes: true }).catch(() => []); // gone, or not for us to see
}
