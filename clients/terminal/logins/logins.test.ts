/** Where logins are kept. The keyring is played: a machine that runs tests seldom has one, and its person's is not for them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { testHome } from '../test-command.ts';
import type { Keyring } from './keyring.ts';
import { type Login, openLogins } from './logins.ts';
import { openMcpLogins } from './mcp-logins.ts';

const origin = 'https://service.example.com';
const login: Login = { kind: 'api_key', key: 'sk-the-secret' };

function playedKeyring(): Keyring & { readonly kept: Map<string, string>; works: boolean } {
  const kept = new Map<string, string>();
  const keyring = {
    kept,
    works: true,
    async read(name: string) {
      if (!keyring.works) throw new Error('It is locked.');
      return kept.get(name) ?? null;
    },
    async write(name: string, secret: string) {
      if (keyring.works) kept.set(name, secret);
      return keyring.works;
    },
    async remove(name: string) {
      if (!keyring.works) throw new Error('It is locked.');
      kept.delete(name);
    },
  };
  return keyring;
}

test('a login is kept in the keyring where there is one, and its secret in no file', async () => {
  const keyring = playedKeyring();
  const logins = openLogins(join(testHome().home, 'data'), keyring);
  expect(await logins.keep(origin, login)).toBe('keyring');
  expect(await logins.find(origin)).toEqual(login);
  expect(await logins.find('https://service.example.com:8443')).toBeNull();
  expect(await logins.origins()).toEqual([origin]);
  expect(readFileSync(logins.file, 'utf8')).not.toContain('the-secret');
  await logins.remove(origin);
  expect(await logins.find(origin)).toBeNull();
  expect(keyring.kept.size).toBe(0);
});

test('a login that was kept in a file goes into the keyring once there is one', async () => {
  const keyring = playedKeyring();
  const logins = openLogins(join(testHome().home, 'data'), keyring);
  keyring.works = false;
  expect(await logins.keep(origin, login)).toBe('file');
  expect(await logins.find(origin)).toEqual(login);
  keyring.works = true;
  expect(await logins.keep(origin, login)).toBe('keyring');
  expect(readFileSync(logins.file, 'utf8')).not.toContain('the-secret');
});

test('a keyring that cannot be read is told, and is no missing login', async () => {
  const keyring = playedKeyring();
  const logins = openLogins(join(testHome().home, 'data'), keyring);
  await logins.keep(origin, login);
  keyring.works = false;
  await expect(logins.find(origin)).rejects.toThrow(
    /cannot be read \(It is locked\.\)\.\nUnlock it, or start it/,
  );
});

test('a login that is damaged says so, and nothing of what stands there', async () => {
  const keyring = playedKeyring();
  const dataHome = join(testHome().home, 'data');
  const [logins, mcpLogins] = [openLogins(dataHome, keyring), openMcpLogins(dataHome, keyring)];
  await logins.keep(origin, login);
  keyring.kept.set(origin, 'sk-secret');
  const words = { message: expect.not.stringContaining('sk-') };
  await expect(logins.find(origin)).rejects.toThrow(`The login to ${origin} in the keyring`);
  await expect(logins.find(origin)).rejects.toMatchObject(words);
  await mcpLogins.write('https://mcp.example.com/mcp', 'x');
  for (const [name, read] of [
    ['logins.json', () => logins.find(origin)],
    ['mcp-logins.json', () => mcpLogins.read('https://mcp.example.com/mcp')],
  ] as const) {
    writeFileSync(join(dataHome, name), 'sk-secret');
    await expect(read()).rejects.toThrow(`${name} is damaged: remove it, and log in again.`);
    await expect(read()).rejects.toMatchObject(words);
    await expect(read()).rejects.not.toHaveProperty('cause');
  }
});

test('a login is forgotten also where the keyring that has it is away, and that it may be left there is said', async () => {
  const keyring = playedKeyring();
  const logins = openLogins(join(testHome().home, 'data'), keyring);
  await logins.keep(origin, login);
  keyring.works = false;
  expect(await logins.remove(origin)).toBe('left_in_keyring');
  expect(await logins.origins()).toEqual([]);
  expect(await logins.find(origin)).toBeNull();
});

test('what a keyring keeps of a login that took its place in the file while it was away is forgotten with that', async () => {
  const keyring = playedKeyring();
  const logins = openLogins(join(testHome().home, 'data'), keyring);
  await logins.keep(origin, login);
  keyring.works = false;
  // Twice: the second one takes the place of one in the file.
  for (const key of ['sk-next', 'sk-last']) await logins.keep(origin, { kind: 'api_key', key });
  expect(await logins.find(origin)).toEqual({ kind: 'api_key', key: 'sk-last' });
  keyring.works = true;
  expect(await logins.remove(origin)).toBe('removed');
  expect(keyring.kept.size).toBe(0);
});

test('the login of an MCP server in a keyring that is away is told, replaced and forgotten', async () => {
  const keyring = playedKeyring();
  const dataHome = join(testHome().home, 'data');
  const logins = openMcpLogins(dataHome, keyring);
  const url = 'https://mcp.example.com/mcp';
  await logins.write(url, 'one');
  keyring.works = false;
  await expect(logins.read(url)).rejects.toMatchObject({
    name: 'LoginUnreadable',
    message: expect.stringMatching(
      /^its login is in the keyring .* \(It is locked\.\): unlock or start that/,
    ),
  });
  await logins.write(url, 'two');
  expect(await logins.read(url)).toBe('two');
  expect(await logins.forget(url)).toBe('left_in_keyring');
  expect(await logins.read(url)).toBeNull();
  expect(await logins.forget(url)).toBe('absent');
  keyring.works = true;
  await logins.write(url, 'three');
  expect(readFileSync(join(dataHome, 'mcp-logins.json'), 'utf8')).not.toContain('three');
  expect(await logins.forget(url)).toBe('removed');
  expect(keyring.kept.size).toBe(0);
});

test('the login of an MCP server that is renewed keeps others of the same server away, and those of no other', async () => {
  const keyring = playedKeyring();
  keyring.works = false;
  const logins = openMcpLogins(join(testHome().home, 'data'), keyring);
  const [hung, well] = ['https://hung.example.com/mcp', 'https://well.example.com/mcp'];
  const [begun, renewal] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const order: string[] = [];
  const first = logins.locked(hung, async () => {
    begun.resolve();
    await renewal.promise;
    order.push('first');
    await logins.write(hung, 'late');
  });
  // Whichever of two comes first to the folder has the lock.
  await begun.promise;
  const second = logins.locked(hung, async () => void order.push('second'));
  await logins.locked(well, () => logins.write(well, 'new'));
  expect([await logins.read(well), await logins.read(hung), order]).toEqual(['new', null, []]);
  renewal.resolve();
  await Promise.all([first, second]);
  expect([await logins.read(well), await logins.read(hung), order]).toEqual([
    'new',
    'late',
    ['first', 'second'],
  ]);
  await Promise.all([logins.remove(well), logins.remove(hung)]);
  expect([await logins.read(well), await logins.read(hung)]).toEqual([null, null]);
});

test('a keyring that waits to be unlocked keeps nobody from the login of another MCP server', async () => {
  const keyring = playedKeyring();
  const [asked, unlocked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const hung = 'https://hung.example.com/mcp';
  const waiting: Keyring = {
    ...keyring,
    async write(name, secret) {
      if (name.endsWith(hung)) {
        asked.resolve();
        await unlocked.promise;
      }
      return keyring.write(name, secret);
    },
  };
  const logins = openMcpLogins(join(testHome().home, 'data'), waiting);
  const kept = logins.write(hung, 'late');
  await asked.promise;
  const well = 'https://well.example.com/mcp';
  await logins.write(well, 'new');
  expect(await logins.read(well)).toBe('new');
  unlocked.resolve();
  await kept;
  expect(await logins.read(hung)).toBe('late');
});

test('whoever wants the login of an MCP server waits for it longer than a renewal may take', async () => {
  const keyring = playedKeyring();
  keyring.works = false;
  const logins = openMcpLogins(join(testHome().home, 'data'), keyring);
  const url = 'https://slow.example.com/mcp';
  const [begun, renewal] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const renewed = logins.locked(url, async () => {
    begun.resolve();
    await renewal.promise;
    await logins.write(url, 'renewed');
  });
  await begun.promise;
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const found = logins.locked(url, () => logins.read(url));
  // The lock lies there, and was looked at once.
  await setTimeout(100);
  vi.setSystemTime(Date.now() + (logins.holdsMs ?? 0));
  await setTimeout(100);
  renewal.resolve();
  expect(await found).toBe('renewed');
  await renewed;
  // An authorization server may think for a while.
  expect(logins.holdsMs).toBeGreaterThanOrEqual(20_000);
});
