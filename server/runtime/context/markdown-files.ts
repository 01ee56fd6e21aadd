/** The files that a path of the settings names: itself, or the Markdown files of a folder. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isThere } from '../guidance/presence.ts';

/** More notes than these no model reads, and a link may lead to a whole disk. */
const maxFiles = 100;
const maxFolders = 200;

/** Sorted; nothing where there is nothing. Links to folders below are not followed. */
export async function markdownFiles(path: string): Promise<readonly string[]> {
  if (!isThere(path)) return [];
  const stats = await stat(path).catch(() => null);
  if (!stats) return [];
  if (!stats.isDirectory()) return [path];
  const found: string[] = [];
  const folders = [path];
  for (let looked = 0; looked < maxFolders && found.length < maxFiles; looked += 1) {
    const folder = folders.shift();
    if (folder === undefined) break;
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (entry.isDirectory()) folders.push(join(folder, entry.name));
      else if (/\.mdc?$/i.test(entry.name)) found.push(join(folder, entry.name));
    }
  }
  return found.slice(0, maxFiles);
}
