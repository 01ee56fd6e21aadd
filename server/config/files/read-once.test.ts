/** A settings file is read once, from inside its project, and is what its path says. */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, symlink, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { testProject } from '../test-project.ts';
import { isWithin, type ReadResult, readOnce } from './read-once.ts';

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** In short: the text of a file, or severity and message. */
function short(result: ReadResult): string | null {
  if (result === null) return null;
  return 'severity' in result
    ? `${result.severity}: ${result.message}`
    : Buffer.from(result.bytes).toString();
}

describe('what is read', () => {
  test('comes with its real path and the hash of exactly its bytes', async () => {
    const { root, path, put } = await testProject();
    await put('real/settings', '\uFEFF{ }\r\n');
    await symlink(path('real'), path('link'));
    await symlink('settings', path('real/service.json'));
    expect(await readOnce(path('link/service.json'), root)).toEqual({
      realPath: path('real/settings'),
      bytes: Buffer.from('\uFEFF{ }\r\n'),
      sha256: sha256('\uFEFF{ }\r\n'),
    });
  });

  test('is nothing where there is nothing, a folder in its place, or a file in place of its folder', async () => {
    const { root, path, put } = await testProject();
    await mkdir(path('service.json'));
    await put('file', '');
    for (const name of ['none/service.json', 'service.json', 'file/service.json'])
      expect(await readOnce(path(name), root)).toBeNull();
  });

  test('may be as large as a settings file may be, and not larger', async () => {
    const { root, put } = await testProject();
    const file = await put('service.json', ' '.repeat(1024 * 1024));
    expect(await readOnce(file, root)).toHaveProperty('bytes.length', 1024 * 1024);
    await truncate(file, 2 ** 40);
    expect(short(await readOnce(file, root))).toBe('error: The file is larger than 1048576 bytes');
  });

  test('with no boundary may be anywhere: people keep their settings behind links', async () => {
    const { home, put } = await testProject();
    const file = await put('dotfiles/service.json', '{}');
    await symlink(file, join(home, 'service.json'));
    expect(await readOnce(join(home, 'service.json'), null)).toMatchObject({ realPath: file });
  });
});

describe('what is not read', () => {
  test('a link to outside the project, nor one through a folder that is a link', async () => {
    const { home, root, path } = await testProject();
    await writeFile(join(home, 'secret'), 'secret');
    await symlink(join(home, 'secret'), path('service.json'));
    await symlink(home, path('folder'));
    await symlink('../home/secret', path('.service.json'));
    for (const name of ['service.json', 'folder/secret', '.service.json'])
      expect(short(await readOnce(path(name), root))).toMatch(/^warning: This is a symbolic link to outside/);
  });

  test('a link to nothing or to itself', async () => {
    const { root, path } = await testProject();
    await symlink('nowhere', path('a'));
    await symlink('c', path('b'));
    await symlink('b', path('c'));
    expect(short(await readOnce(path('a'), root))).toBe('warning: This is a symbolic link to nothing');
    expect(short(await readOnce(path('b'), root))).toMatch(/^warning: .*leads back to itself$/);
  });

  test('a pipe, which would keep us waiting for ever', async () => {
    const { root, path } = await testProject();
    execFileSync('mkfifo', [path('service.json')]);
    expect(short(await readOnce(path('service.json'), root))).toMatch(/^warning: This is a pipe/);
  });

  test('a socket or a device', async () => {
    const { root, path } = await testProject();
    const server = createServer().listen(path('service.json'));
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    expect(short(await readOnce(path('service.json'), root))).toMatch(/^warning: This is a pipe, a socket/);
    expect(short(await readOnce('/dev/zero', null))).toMatch(/^warning: .* or a device/);
  });

  test('a file that this user may not read, which is an error: it may hold guards', async () => {
    const { root, put } = await testProject();
    const file = await put('service.json', '{}');
    await chmod(file, 0);
    const result = await asNobody(root, () => readOnce(file, root));
    expect(short(result)).toBe('error: The file cannot be read (EACCES)');
  });

  test('in the person’s own place a folder is an error, and so is a file in place of its folder', async () => {
    const { path, put } = await testProject();
    await mkdir(path('service.json'));
    await put('file', '');
    expect(short(await readOnce(path('service.json'), null))).toBe('error: The file cannot be read (EISDIR)');
    const result = await readOnce(path('file/service.json'), null);
    expect(short(result)).toBe('error: The file cannot be read (ENOTDIR)');
    expect(result).toHaveProperty('remedy', expect.stringContaining('name the folder'));
  });
});

test('what is swapped while it is read is never taken for something else', async () => {
  const { home, root, path, put } = await testProject();
  // The same name in turn: a folder of the project, a link to outside, and another file in its place.
  await put('good/service.json', '{"options":{"debug":true}}');
  await mkdir(join(home, 'outside'));
  await writeFile(join(home, 'outside/service.json'), '{"hooks":{}} // outside');
  const swapper = spawn(process.execPath, [
    '-e',
    swapping,
    path('good'),
    path('here'),
    join(home, 'outside'),
  ]);
  onTestFinished(() => void swapper.kill('SIGKILL'));
  await once(swapper.stdout, 'data');
  const seen = new Map<string, number>();
  // Where nothing is seen but one of the two, nothing was swapped under our hands: then on, until the time is up.
  for (let round = 0; round < 1000 || !seen.has('file') || seen.size < 2; round++) {
    const result = await readOnce(path('here/service.json'), root);
    const what = result === null ? 'nothing' : 'severity' in result ? result.severity : 'file';
    seen.set(what, (seen.get(what) ?? 0) + 1);
    if (result && 'bytes' in result) {
      expect(Buffer.from(result.bytes).toString()).not.toContain('outside');
      expect(result.sha256).toBe(sha256(Buffer.from(result.bytes).toString()));
      expect(isWithin(result.realPath, root)).toBe(true);
    }
  }
});

const swapping = `
  const fs = require('node:fs');
  const [good, here, outside] = process.argv.slice(1);
  process.stdout.write('ready');
  for (;;) {
    fs.renameSync(good, here);
    fs.renameSync(here, good);
    fs.symlinkSync(outside, here);
    fs.unlinkSync(here);
  }`;

/** Root may read everything, so that a test run as root must step down to be refused. */
async function asNobody<Result>(root: string, action: () => Promise<Result>): Promise<Result> {
  await chmod(join(root, '..'), 0o755);
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    return await action();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}

test('a folder holds itself and what is in it, and no neighbour whose name begins alike', () => {
  expect(['/a/b', '/a/b/c', '/a/b/..c'].map((path) => isWithin(path, '/a/b'))).toEqual([true, true, true]);
  expect(['/a/bc', '/a', '/'].map((path) => isWithin(path, '/a/b'))).toEqual([false, false, false]);
  expect(isWithin('/anything', '/')).toBe(true);
});
