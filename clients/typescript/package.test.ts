/** The package as a partner has it: built, packed, and unpacked among the packages of another project. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { buildPackage } from './build-package.ts';
import manifest from './package.json' with { type: 'json' };
import { frame, openStream, sendJson, startScriptedServer } from './scripted-server.ts';

const run = promisify(execFile);
const installed = join(import.meta.dirname, '../../node_modules');
const offered = Object.keys(manifest.exports).map((name) => name.replace('.', manifest.name));

/** An empty project, but for the packages. */
let project: string;
let packed: readonly string[];

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'service-client-'));
  await buildPackage(join(project, 'built'));
  const env = { PATH: process.env.PATH, HOME: project, npm_config_offline: 'true' };
  const { stdout } = await run('npm', ['pack', './built', '--json'], { cwd: project, env });
  const [{ filename, files }] = JSON.parse(stdout);
  packed = files.map(({ path }: { path: string }) => path);
  const target = join(project, 'node_modules', manifest.name);
  await mkdir(target, { recursive: true });
  await run('tar', ['-xzf', join(project, filename), '-C', target, '--strip-components=1']);
  await rm(join(project, 'built'), { recursive: true });
  await mkdir(join(project, 'node_modules/@types'));
  for (const name of [...Object.keys(manifest.dependencies), '@types/node'])
    await symlink(join(installed, name), join(project, 'node_modules', name));
  await writeFile(join(project, 'package.json'), '{ "type": "module" }');
});
afterAll(() => rm(project, { recursive: true }));

/** The programs of the README, which are one where they stand in one file. */
async function readmePrograms(): Promise<string[]> {
  const readme = await readFile(join(project, 'node_modules', manifest.name, 'README.md'), 'utf8');
  return [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, program = '']) => program);
}

test('the package has what is built of it, its README and its license', () => {
  const built = packed.filter((path) => !/\.(js|d\.ts)$/.test(path));
  expect(built.toSorted()).toEqual(['LICENSE', 'README.md', 'package.json']);
  expect(packed).toEqual(expect.arrayContaining(['client.js', 'client.d.ts', 'generated/api.d.ts']));
  expect(packed.filter((path) => /test|example|scripted|build/.test(path))).toEqual([]);
});

test('its package.json says what a partner needs, and nothing of this repository', async () => {
  const { exports, private: _, devDependencies: __, ...rest } = manifest;
  const text = await readFile(join(project, 'node_modules', manifest.name, 'package.json'), 'utf8');
  const published: typeof manifest = JSON.parse(text);
  expect(published).toEqual({ ...rest, exports: expect.anything() });
  expect(Object.keys(published.exports)).toEqual(Object.keys(exports));
});

test('each import that it offers can be imported', async () => {
  await writeFile(join(project, 'all.mjs'), offered.map((name) => `import '${name}';\n`).join(''));
  await run(process.execPath, ['all.mjs'], { cwd: project });
});

const strict = { strict: true, noEmit: true, skipLibCheck: false, target: 'es2024' };

test.each([
  ['Node', { module: 'nodenext', moduleResolution: 'nodenext', lib: ['es2024'], types: ['node'] }],
  ['a bundler', { module: 'esnext', moduleResolution: 'bundler', lib: ['es2024', 'dom'], types: [] }],
])('the programs of the README compile for %s', async (_, options) => {
  const program = (await readmePrograms()).join('\n');
  const compiled = options.types.includes('node')
    ? program
    : program.replace('process.stdout.write', 'alert');
  await writeFile(join(project, 'program.ts'), compiled);
  const config = { compilerOptions: { ...strict, ...options }, files: ['program.ts'] };
  await writeFile(join(project, 'tsconfig.json'), JSON.stringify(config));
  const compiler = join(installed, '@typescript/native/bin/tsc');
  const { stdout } = await run(process.execPath, [compiler, '-p', project]).catch((error) => error);
  expect(stdout).toBe('');
});

test('the first program of the README runs', async () => {
  const server = await startScriptedServer(({ url }, response) => {
    if (url === '/api/v1/sessions') return sendJson(response, 201, { id: 'ses_1' });
    openStream(response);
    response.write(frame(1, null, { type: 'text_delta', message_id: 'msg_1', text: 'I write it.' }));
    response.end(frame(2, 'done', { stop_reason: 'end_turn' }));
  });
  onTestFinished(server.close);
  const [first = ''] = await readmePrograms();
  const program = first.replace('http://127.0.0.1:8090', server.url).replace('sk-…', 'sk-test');
  await writeFile(join(project, 'first.ts'), program);
  const { stdout, stderr } = await run(process.execPath, ['first.ts'], { cwd: project });
  expect({ stdout, stderr }).toEqual({ stdout: 'I write it.', stderr: '' });
  expect(server.received.map(({ url }) => url)).toEqual(['/api/v1/sessions', '/api/v1/query/stream']);
});
