/** Makes the package that is published, in `dist/`: run by `make clients`. Inside the repository the sources are imported. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import manifest from './package.json' with { type: 'json' };

const here = import.meta.dirname;
const root = join(here, '../..');

/** @param folder - An absolute path; what is there goes. */
export async function buildPackage(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await compile(folder);
  await copyFile(join(here, 'README.md'), join(folder, 'README.md'));
  await copyFile(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(publishedManifest(), null, 2)}\n`);
}

async function compile(folder: string): Promise<void> {
  const compiler = join(root, 'node_modules/@typescript/native/bin/tsc');
  const args = [compiler, '-p', join(here, 'tsconfig.build.json'), '--outDir', folder];
  const [code] = await once(spawn(process.execPath, args, { stdio: 'inherit' }), 'exit');
  if (code !== 0) throw new Error('The package was not built: its sources do not compile.');
}

/** Node runs no TypeScript below node_modules: what is offered are the compiled files. */
function publishedManifest() {
  const { exports, private: _, devDependencies: __, ...rest } = manifest;
  const built = Object.entries(exports).map(([name, source]) => {
    const file = source.replace(/\.ts$/, '');
    return [name, { types: `${file}.d.ts`, default: `${file}.js` }];
  });
  return { ...rest, exports: Object.fromEntries(built) };
}

if (import.meta.main) await buildPackage(join(here, 'dist'));
