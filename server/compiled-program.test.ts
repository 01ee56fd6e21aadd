/** Which program a start takes: what `make compile` made, as long as it is what the sources say. */
import { copyFile, mkdir, mkdtemp, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test, vi } from 'vitest';

const source = 'file:///the/source.ts';

/** A project whose only source was compiled. */
async function compiledProject() {
  const root = await mkdtemp(join(tmpdir(), 'service-compiled-'));
  onTestFinished(() => rm(root, { recursive: true }));
  await mkdir(join(root, 'server'));
  const program = join(root, 'server/compiled-program.mjs');
  await copyFile(join(import.meta.dirname, 'compiled-program.mjs'), program);
  const file = join(root, 'server/main.ts');
  await writeFile(file, '// the source');
  await mkdir(join(root, 'dist/17'), { recursive: true });
  await writeFile(join(root, 'dist/17/service.mjs'), '');
  const { mtimeMs, size } = await stat(file);
  const newest = { folder: '17', sources: { 'server/main.ts': [Math.floor(mtimeMs / 1000), size] } };
  await writeFile(join(root, 'dist/newest.json'), JSON.stringify(newest));
  const { programOf } = await import(pathToFileURL(program).href);
  return {
    root,
    file,
    chosen: () => programOf('service', source) as string,
    compiled: pathToFileURL(join(root, 'dist/17/service.mjs')).href,
  };
}

test('it is the compiled one while the sources are what they were', async () => {
  const { chosen, compiled, file } = await compiledProject();
  expect(chosen()).toBe(compiled);
  await writeFile(file, '// the source, which was changed');
  expect(chosen()).toBe(source);
});

test('it is the source where faults are looked for, so that their lines are named', async () => {
  const { chosen } = await compiledProject();
  vi.stubEnv('SERVICE_DEBUG', 'true');
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(chosen()).toBe(source);
});

test.each<[string, (project: { root: string; file: string }) => Promise<void>]>([
  ['has another time', ({ file }) => utimes(file, 1, 1)],
  ['is gone', ({ file }) => rm(file)],
  ['has lost its program', ({ root }) => rm(join(root, 'dist/17'), { recursive: true })],
  ['was never compiled', ({ root }) => rm(join(root, 'dist'), { recursive: true })],
])('it is the source where that %s', async (_what, change) => {
  const project = await compiledProject();
  await change(project);
  expect(project.chosen()).toBe(source);
});
