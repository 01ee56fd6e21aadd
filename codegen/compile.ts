/**
 * Compiles the programs into `dist/`: run by `make compile`. They stand for their sources as long as none of those has
 * changed: `server/compiled-program.mjs` looks, and takes the sources where one has.
 */
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { compilePrograms } from './compiled-programs.ts';

const root = join(import.meta.dirname, '..');
const target = join(root, 'dist');
/** Those that are at work read more of theirs later: a new one must not take it away. */
const builds = 3;

const began = Date.now();
// Of two that compile at once each has its own.
const folder = `${began}-${process.pid}`;
await mkdir(target, { recursive: true });
try {
  const { sources } = await compilePrograms(root, join(target, folder));
  await keep({ folder, sources: await factsOf([...sources, join(root, 'package-lock.json')]) });
} catch (error) {
  await rm(join(target, folder), { recursive: true, force: true });
  throw error;
}
// The clock may have been ahead: what was made by it stands behind this one, and is left alone.
const earlier = (await readdir(target)).filter((name) => /^\d+(-\d+)?$/.test(name) && name < folder).sort();
for (const old of earlier.slice(0, 1 - builds)) await rm(join(target, old), { recursive: true, force: true });

/**
 * Times in whole seconds, which is what archives and layers of containers keep of them. A source may have one that is still
 * to come: it was not changed meanwhile.
 *
 * @throws Error where a source was changed meanwhile.
 */
async function factsOf(files: readonly string[]): Promise<Readonly<Record<string, readonly number[]>>> {
  const facts: Record<string, readonly [changed: number, size: number]> = {};
  for (const file of files) {
    const { mtimeMs, size } = await stat(file);
    if (mtimeMs >= began && mtimeMs <= Date.now())
      throw new Error(`${file} was changed while it was compiled; compile again.`);
    facts[relative(root, file)] = [Math.floor(mtimeMs / 1000), size];
  }
  return facts;
}

/** From then on it is the one that starts. */
async function keep(build: object): Promise<void> {
  const draft = join(target, folder, 'newest.json');
  await writeFile(draft, JSON.stringify(build));
  await rename(draft, join(target, 'newest.json'));
}
