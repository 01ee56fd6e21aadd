// Plain JavaScript, as it decides what is read: the few files of a compiled program, or the hundreds of its sources.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const root = join(import.meta.dirname, '..');

/**
 * The program as `make compile` has made it, while its sources are what they were then; else the given one. So it is where
 * `SERVICE_DEBUG` is set, whose reports name the lines of sources.
 *
 * @param {'server' | 'service'} name
 * @param {string} source - The address of the source that it begins with.
 * @returns {string} The address to import.
 */
export function programOf(name, source) {
  const newest = process.env.SERVICE_DEBUG ? null : newestBuild();
  if (newest === null || !Object.entries(newest.sources).every(isUnchanged)) return source;
  const program = join(root, 'dist', newest.folder, `${name}.mjs`);
  // Whoever tidies up may have left what only names it.
  return existsSync(program) ? pathToFileURL(program).href : source;
}

function newestBuild() {
  try {
    return JSON.parse(readFileSync(join(root, 'dist/newest.json'), 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw error;
  }
}

const orNothing = { throwIfNoEntry: false };

/** Asked of a thousand files at each start: to join their paths would take as long as to look at them. */
function isUnchanged([file, [changed, size]]) {
  const facts = statSync(`${root}/${file}`, orNothing);
  return facts !== undefined && Math.floor(facts.mtimeMs / 1000) === changed && facts.size === size;
}
