/** The programs as they are compiled: what they are started from, and that no more is loaded than from their sources. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import type { OutputChunk } from 'rolldown';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { compilePrograms } from './compiled-programs.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'service-compiled-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

/** What comes with a module that is begun with: the parts of this project, and packages. */
function loadedWith(files: readonly OutputChunk[], source: string): ReadonlySet<string> {
  const byName = new Map(files.map((file) => [file.fileName, file]));
  const seen = new Set<OutputChunk>();
  const load = (file: OutputChunk | undefined): void => {
    if (!file || seen.has(file)) return;
    seen.add(file);
    for (const name of file.imports) load(byName.get(name));
  };
  const first = files.find(({ facadeModuleId }) => facadeModuleId === join(root, source));
  expect(first).toBeDefined();
  load(first);
  const modules = [...seen].flatMap(({ moduleIds }) => moduleIds);
  return new Set(
    modules
      .map(
        (id) =>
          /node_modules\/(?:@[^/]+\/)?[^/]+|^(?:server|clients)\/(?!node_modules)[\w.-]+/.exec(
            relative(root, id),
          )?.[0],
      )
      .filter((part) => part !== undefined),
  );
}

test('what starts comes without the libraries that are loaded where they are asked for', async () => {
  const { files } = await compilePrograms(root, await temporaryFolder());
  const server = loadedWith(files, 'server/main.ts');
  expect(server).toContain('node_modules/express');
  expect([...server].filter((part) => /@opentelemetry\/(?!api)|@aws-sdk|@anthropic-ai/.test(part))).toEqual(
    [],
  );
  const command = loadedWith(files, 'clients/terminal/main.ts');
  expect([...command].filter((part) => part.startsWith('node_modules/'))).toEqual([]);
});

test('what reads the settings comes without the rest of the server', async () => {
  const { files } = await compilePrograms(root, await temporaryFolder());
  expect(loadedWith(files, 'server/config/config.ts')).toEqual(
    new Set([
      ...['server/config', 'server/contract', 'server/outbound', 'server/clock.ts', 'server/git-owner.ts'],
      ...['server/process-name.ts', 'server/process-stat.ts'],
      ...['node_modules/jsonc-parser', 'node_modules/ipaddr.js'],
    ]),
  );
  expect(loadedWith(files, 'clients/terminal/commands/config-show.ts')).toEqual(
    new Set(['clients/terminal']),
  );
});

const compile = () => run(process.execPath, [join(import.meta.dirname, 'compile.ts')]);
beforeAll(compile);

test('what was compiled while the clock was ahead takes nothing away of what is compiled now', async () => {
  const names = ['9000000000001', '9000000000002', '9000000000003', '9000000000004-1'];
  const ahead = names.map((name) => join(root, 'dist', name));
  onTestFinished(async () => {
    for (const folder of ahead) await rm(folder, { recursive: true });
  });
  for (const folder of ahead) await mkdir(folder);
  await compile();
  const { folder } = JSON.parse(await readFile(join(root, 'dist/newest.json'), 'utf8'));
  expect(existsSync(join(root, 'dist', folder, 'server.mjs'))).toBe(true);
});

test.each([
  ['the command', 'clients/terminal/bin/service', ['version'], /^service \d/],
  ['the server', 'node_modules/.bin/node', ['server/start.mjs', '--help'], /--port/],
])('%s starts from compiled files alone', async (_what, program, args, answer) => {
  const home = await temporaryFolder();
  const hook = `import { registerHooks } from 'node:module';
    registerHooks({ load(url, context, next) { console.error('loads ' + url); return next(url, context); } });`;
  const { stdout, stderr } = await run(join(root, program), args, {
    cwd: root,
    env: {
      ...{ PATH: process.env.PATH, HOME: home },
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}`,
    },
  });
  expect(stdout).toMatch(answer);
  const loaded = [...stderr.matchAll(/^loads file:.*\/([\w-]+\/[\w.-]+)$/gm)].map(([, file]) => file);
  expect(loaded).toContainEqual(expect.stringMatching(/^\d{13}-\d+\/(service|server)\.mjs$/));
  expect(loaded.filter((file) => file?.endsWith('.ts'))).toEqual([]);
});
