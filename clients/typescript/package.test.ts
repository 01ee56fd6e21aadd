/** The package as it is built: what it says to have is there. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import manifest from './package.json' with { type: 'json' };

const compiler = join(import.meta.dirname, '../../node_modules/@typescript/native/bin/tsc');

test('each import that the package offers is built', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'service-client-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  // The types are checked elsewhere.
  const args = [compiler, '-p', 'tsconfig.build.json', '--noCheck', '--outDir', folder];
  await promisify(execFile)(process.execPath, args, { cwd: import.meta.dirname });
  const targets = Object.values(manifest.exports).map((source) => source.replace(/\.ts$/, ''));
  const built = targets.flatMap((target) => [`${target}.js`, `${target}.d.ts`]);
  const missing = built.filter((file) => !existsSync(join(folder, file)));
  expect(missing).toEqual([]);
});
