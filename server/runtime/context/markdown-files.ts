/** The files that a path of the settings names: itself, or the Markdown files of a folder. */
import { type Dirent, readdirSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { isThere } from '../guidance/presence.ts';
import { liesWithin } from '../guidance/project-folders.ts';
import { readInPlace, statsInPlace } from '../tools/read-in-place.ts';

/** More notes than these no model reads, and a link may lead to a whole disk. */
const maxFiles = 100;
const maxFolders = 200;

/**
 * Sorted; nothing where there is nothing. Links to folders below are not followed. Of what lies outside of `within` nothing
 * is looked at: a link that an agent has made must not even tell which files there are.
 */
export async function markdownFiles(path: string, within: string | null): Promise<readonly string[]> {
  if (!isThere(path)) return [];
  const real = await realpath(path).catch(() => null);
  if (real === null) return [];
  // Whoever reads it says why it does not count.
  if (within !== null && !liesWithin(within, real)) return [path];
  if (!statsInPlace(real)?.isDirectory()) return [path];
  const found: string[] = [];
  const folders = [real];
  for (let looked = 0; looked < maxFolders && found.length < maxFiles; looked += 1) {
    const folder = folders.shift();
    if (folder === undefined) break;
    const entries = readInPlace(folder, entriesOf) ?? [];
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (entry.isDirectory()) folders.push(join(folder, entry.name));
      else if (/\.mdc?$/i.test(entry.name)) found.push(join(folder, entry.name));
    }
  }
  return found.slice(0, maxFiles);
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    // What is no folder by now, or cannot be read, has no files for us.
    return [];
  }
}
