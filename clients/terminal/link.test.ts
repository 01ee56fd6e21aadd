/** `make link` and `make unlink`, with the real make: nothing of anybody's is replaced or removed. */
import { existsSync, mkdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launcher, testHome } from './test-command.ts';
import { runToEnd } from './test-process.ts';

const root = join(import.meta.dirname, '../..');

/** A PATH with the programs that make itself needs, and nothing else that could be called `service`. */
function prepare() {
  const { home, project, environment } = testHome();
  const tools = join(home, 'tools');
  mkdirSync(tools);
  for (const name of ['make', 'bash', 'sh', 'uname', 'tr', 'find'])
    symlinkSync(whereIs(name), join(tools, name));
  const bin = join(home, '.local/bin');
  const make = (args: readonly string[], path = tools) =>
    // Nothing is to be installed or generated anew: the files that are made here are up to date by declaration.
    runToEnd(
      'make',
      ['-s', '-C', root, '-o', 'node_modules/.installed', '-o', 'node_modules/.generated', ...args],
      {
        cwd: project,
        environment: { ...environment, PATH: path, NAME: 'laptop', PREFIX: '/nowhere' },
      },
    );
  return { home, tools, bin, make };
}

function whereIs(name: string): string {
  const folders = (process.env.PATH ?? '').split(':');
  return folders.map((folder) => join(folder, name)).find((file) => existsSync(file)) ?? name;
}

test('make link puts the command into ~/.local/bin, and says when that is not on PATH', async () => {
  const { bin, tools, make } = prepare();
  const first = await make(['link']);
  expect(first).toMatchObject({ code: 0, stderr: '' });
  expect(first.stdout).toContain(`${bin}/service now starts ${launcher}.`);
  expect(first.stdout).toContain(`export PATH="${bin}:$PATH"`);
  expect(readlinkSync(join(bin, 'service'))).toBe(launcher);
  const again = await make(['link'], `${tools}:${bin}`);
  expect(again).toEqual({ code: 0, stdout: `${bin}/service already starts ${launcher}.\n`, stderr: '' });
});

test('make link takes a name and a folder with spaces, and the link starts the command', async () => {
  const { home, make } = prepare();
  expect(await make(['link', 'NAME=svc', `PREFIX=${home}/my programs`])).toMatchObject({ code: 0 });
  const linked = join(home, 'my programs/bin/svc');
  const ended = await runToEnd(linked, ['version'], { cwd: home, environment: { HOME: home } });
  expect(ended).toEqual({ code: 0, stdout: 'service 0.1.0\n', stderr: '' });
});

test('make link refuses where another program of that name is on PATH, and offers another name', async () => {
  const { home, tools, bin, make } = prepare();
  mkdirSync(join(home, 'sbin'));
  for (const name of ['service', 'svc']) writeFileSync(join(home, 'sbin', name), '', { mode: 0o755 });
  const { code, stderr } = await make(['link'], `${tools}:${home}/sbin`);
  expect(code).not.toBe(0);
  expect(stderr).toContain(
    `There is another service on your PATH: ${home}/sbin/service. Choose another name: make link NAME=service-agent`,
  );
  expect(existsSync(bin)).toBe(false);
});

test.each<[string, (file: string) => void]>([
  ['a file', (file) => writeFileSync(file, 'somebody’s own script')],
  ['a link to something else', (file) => symlinkSync('/bin/sh', file)],
  ['a link to nowhere', (file) => symlinkSync('/nowhere/service', file)],
])('make link and make unlink leave %s as it is', async (_, put) => {
  const { bin, make } = prepare();
  mkdirSync(bin, { recursive: true });
  const file = join(bin, 'service');
  put(file);
  const before = fingerprint(file);
  for (const target of ['link', 'unlink']) {
    const { code, stderr } = await make([target]);
    expect(code).not.toBe(0);
    expect(stderr).toContain(`${file} is`);
  }
  expect(fingerprint(file)).toBe(before);
});

test('make unlink takes our link away, and nothing where there is none', async () => {
  const { bin, make } = prepare();
  await make(['link', 'NAME=svc']);
  expect(await make(['unlink'])).toMatchObject({ code: 0, stdout: `There is no ${bin}/service.\n` });
  expect(existsSync(join(bin, 'svc'))).toBe(true);
  expect(await make(['unlink', 'NAME=svc'])).toMatchObject({ code: 0, stdout: `${bin}/svc is gone.\n` });
  expect(existsSync(join(bin, 'svc'))).toBe(false);
});

test.each(['../evil', '-x', 'two words', ''])('make link refuses %j as a name', async (name) => {
  const { home, make } = prepare();
  const { code, stderr } = await make(['link', `NAME=${name}`]);
  expect(code).not.toBe(0);
  expect(stderr).toContain(`${JSON.stringify(name)} is no name for a command.`);
  expect(existsSync(join(home, '.local'))).toBe(false);
});

function fingerprint(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    // No link: its content tells as much.
    return readFileSync(file, 'utf8');
  }
}
