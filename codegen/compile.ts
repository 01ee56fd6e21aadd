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
const folder = `${began}`;
await mkdir(target, { recursive: true });
const { sources } = await compilePrograms(root, join(target, folder));
await keep({ folder, sources: await factsOf([...sources, join(root, 'package-lock.json')]) });
const all = (await readdir(target)).filter((name) => /^\d+$/.test(name)).sort();
for (const old of all.slice(0, -builds)) await rm(join(target, old), { recursive: true });

/**
 * Times in whole seconds, which is what archives and layers of containers keep of them.
 *
 * @throws Error where a source was changed meanwhile.
 */
async function factsOf(files: readonly string[]): Promise<Readonly<Record<string, readonly number[]>>> {
  const facts: Record<string, readonly [changed: number, size: number]> = {};
  for (const file of files) {
    const { mtimeMs, size } = await stat(file);
    if (mtimeMs >= began) throw new Error(`${file} was changed while it was compiled; compile again.`);
    facts[relative(root, file)] = [Math.floor(mtimeMs / 1000), size];
  }
  return facts;
}

/** From then on it is the one that starts. */
async function keep(build: object): Promise<void> {
  const file = join(target, 'newest.json');
  await writeFile(`${file}.tmp`, JSON.stringify(build));
  await rename(`${file}.tmp`, file);
}
