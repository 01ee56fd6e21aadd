/** The trust store: what it remembers, when it is refused, and that nothing is lost or half written. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  chown,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { SettingsError } from '../diagnostic.ts';
import { testProject } from '../test-project.ts';
import {
  forgetNext,
  readTrust,
  recordTrust,
  revokeTrust,
  TrustStoreError,
  trustNext,
} from './trust-store.ts';

const sha256 = 'a'.repeat(64);
const now = new Date('2026-01-02T03:04:05Z');

async function testStore() {
  const project = await testProject();
  const { dataHome } = await project.places();
  const { root } = project;
  const store = join(dataHome, 'trust.json');
  return { ...project, dataHome, store, read: () => readTrust(dataHome, root) };
}

/** What keeps a promise from being kept, in one line. */
async function refusal(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => new Error('It was not refused'),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(TrustStoreError);
  return error instanceof SettingsError ? error.message : '';
}

describe('trust', () => {
  test('is for one path and its bytes, and is remembered with what was shown', async () => {
    const { dataHome, root, read, store } = await testStore();
    await recordTrust(dataHome, root, [{ realPath: '/p/service.json', sha256, review: 'mcp.x\n' }], now);
    const trust = await read();
    expect(trust.isTrusted('/p/service.json', sha256)).toBe(true);
    expect(trust.isTrusted('/p/service.json', 'b'.repeat(64))).toBe(false);
    expect(trust.isTrusted('/p/Service.json', sha256)).toBe(false);
    expect(trust.isTrusted('/p', sha256)).toBe(false);
    expect(trust.entry('/p/service.json')).toEqual({
      sha256,
      trustedAt: '2026-01-02T03:04:05.000Z',
      review: 'mcp.x\n',
    });
    expect(trust.entry('/p/constructor')).toBeNull();
    expect([...trust.all().keys()]).toEqual(['/p/service.json']);
    expect((await stat(store)).mode & 0o777).toBe(0o600);
    expect((await stat(dataHome)).mode & 0o777).toBe(0o700);
  });

  test('is kept in a folder that is closed to others where they could only read it', async () => {
    const { dataHome, root, read } = await testStore();
    await mkdir(dataHome, { recursive: true, mode: 0o755 });
    await recordTrust(dataHome, root, [{ realPath: '/p', sha256, review: '' }], now);
    expect((await stat(dataHome)).mode & 0o777).toBe(0o700);
    await chmod(dataHome, 0o755);
    expect((await read()).entry('/p')).not.toBeNull();
    expect((await stat(dataHome)).mode & 0o777).toBe(0o700);
  });

  test('is of nothing where there is no store', async () => {
    const { read } = await testStore();
    expect((await read()).all().size).toBe(0);
  });

  test('is for the latest bytes alone', async () => {
    const { dataHome, root, read } = await testStore();
    const trusted = (hash: string) =>
      recordTrust(dataHome, root, [{ realPath: '/p', sha256: hash, review: '' }], now);
    await trusted(sha256);
    await trusted('b'.repeat(64));
    const trust = await read();
    expect([trust.isTrusted('/p', sha256), trust.isTrusted('/p', 'b'.repeat(64))]).toEqual([false, true]);
  });

  test('is for two kinds of bytes while one is about to take the place of the other', async () => {
    const { dataHome, root, read } = await testStore();
    const [realPath, other, third] = ['/p', 'b'.repeat(64), 'c'.repeat(64)];
    const trusted = async () => {
      const { isTrusted } = await read();
      return [sha256, other, third].map((one) => isTrusted(realPath, one));
    };
    const next = (bytes: string, before: string) =>
      trustNext(dataHome, root, { realPath, sha256: bytes, review: bytes }, before);
    await recordTrust(dataHome, root, [{ realPath, sha256, review: '' }], now);
    await next(other, third);
    expect(await trusted(), 'what is there is not trusted').toEqual([true, false, false]);
    await next(other, sha256);
    expect(await trusted()).toEqual([true, true, false]);
    await forgetNext(dataHome, root, { realPath, sha256: other });
    expect(await trusted(), 'it could not be written').toEqual([true, false, false]);
    await next(other, sha256);
    await next(third, other);
    expect(await trusted(), 'it was written, and whoever wrote it ended').toEqual([false, true, true]);
    expect((await read()).entry(realPath)?.review).toBe(other);
    await recordTrust(dataHome, root, [{ realPath, sha256: third, review: '' }], now);
    expect(await trusted()).toEqual([false, false, true]);
    await next(other, third);
    await revokeTrust(dataHome, root, [realPath]);
    expect(await trusted()).toEqual([false, false, false]);
  });

  test('is revoked, and says of which files', async () => {
    const { dataHome, root, read, store } = await testStore();
    const files = ['/p', '/q', '/r'].map((realPath) => ({ realPath, sha256, review: '' }));
    await recordTrust(dataHome, root, files, now);
    expect(await revokeTrust(dataHome, root, ['/q', '/nowhere'])).toEqual(['/q']);
    expect([...(await read()).all().keys()]).toEqual(['/p', '/r']);
    const { mtimeMs } = await stat(store);
    expect(await revokeTrust(dataHome, root, ['/q'])).toEqual([]);
    expect((await stat(store)).mtimeMs).toBe(mtimeMs);
  });

  test.each<[string, (file: string) => Promise<unknown>]>([
    ['one byte is changed', (file) => writeFile(file, '{ "lsp": {"go": {"command": "goplt"}} }')],
    ['the lines end otherwise', (file) => writeFile(file, '{ "lsp": {"go": {"command": "gopls"}} }\r\n')],
    ['it is moved to another name', (file) => rename(file, join(dirname(file), '.service.json'))],
    [
      'a link to other bytes takes its place',
      async (file) => {
        await writeFile(join(dirname(file), 'other'), '{ "lsp": {"go": {"command": "other"}} }');
        await rm(file);
        await symlink('other', file);
      },
    ],
    [
      'a link to the very same bytes elsewhere takes its place',
      async (file) => {
        await rename(file, join(dirname(file), 'elsewhere'));
        await symlink('elsewhere', file);
      },
    ],
    [
      'its folder is moved',
      async (file) => {
        await mkdir(join(dirname(file), 'deeper'));
        await rename(file, join(dirname(file), 'deeper', 'service.json'));
      },
    ],
  ])('ends when %s', async (_, change) => {
    const { put, trust, load, path } = await testStore();
    const file = await put('service.json', '{ "lsp": {"go": {"command": "gopls"}} }');
    await trust('service.json');
    expect((await load()).config.lsp).toEqual({ go: { command: 'gopls' } });
    await change(file);
    await mkdir(path('deeper'), { recursive: true });
    const { layers, config } = await load('deeper');
    expect(config.lsp).toBeUndefined();
    expect(layers.map(({ trusted }) => trusted)).toEqual([false]);
  });
});

describe('the store is refused', () => {
  test.each<[string, (store: string, project: string) => Promise<unknown>, string]>([
    [
      'where it is a link',
      async (store) => {
        await rename(store, `${store}.real`);
        await symlink(`${store}.real`, store);
      },
      'error: The trust store is a symbolic link. Put a copy of the file it points to in its place, if that is yours, or remove it.',
    ],
    [
      'where it is a link to nothing',
      async (store) => {
        await rm(store);
        await symlink('nowhere', store);
      },
      'The trust store is a symbolic link.',
    ],
    [
      'where others may read it',
      (store) => chmod(store, 0o640),
      'Others than you may read or write the trust store.',
    ],
    [
      'where others may write it',
      (store) => chmod(store, 0o602),
      'Others than you may read or write the trust store.',
    ],
    [
      'where others may write beside it',
      (store) => chmod(dirname(store), 0o770),
      'Others than you may read or write in the folder that keeps trust. Run: chmod 700 ',
    ],
    [
      'where its folder is a link into the project',
      async (store, project) => {
        await rename(dirname(store), join(project, 'mine'));
        await symlink(join(project, 'mine'), dirname(store));
      },
      'Trust cannot be kept inside the project ',
    ],
    [
      'where it is not JSON',
      (store) => writeFile(store, '{"version":1,"files":{'),
      'This is not a trust store, or a damaged one. ',
    ],
    [
      'where it is empty',
      (store) => writeFile(store, ''),
      'This is not a trust store, or a damaged one. Mend it, or remove it and run',
    ],
    [
      'where it is of another kind',
      (store) => writeFile(store, '{"version":2,"files":{}}'),
      'This is not a trust store',
    ],
    [
      'where an entry is not one',
      (store) => writeFile(store, JSON.stringify({ version: 1, files: { '/p': { sha256: 'short' } } })),
      'This is not a trust store',
    ],
    [
      'where it is a folder',
      async (store) => {
        await rm(store);
        await mkdir(store);
      },
      'The trust store is not a file. Remove it.',
    ],
  ])('%s, told with how to mend it, and left as it is', async (_, spoil, message) => {
    const { dataHome, root, read, store } = await testStore();
    const files = [{ realPath: '/p/service.json', sha256, review: '' }];
    await recordTrust(dataHome, root, files, now);
    await spoil(store, root);
    const bytes = await readFile(store, 'utf8').catch(() => null);
    expect(await refusal(read())).toContain(message);
    expect(await refusal(recordTrust(dataHome, root, files, now))).toContain(message);
    expect(await refusal(revokeTrust(dataHome, root, ['/p/service.json']))).toContain(message);
    expect(await readFile(store, 'utf8').catch(() => null)).toBe(bytes);
  });

  test('where it would lie in the project, before anything is written', async () => {
    const { root } = await testStore();
    const files = [{ realPath: '/p', sha256, review: '' }];
    const message = `Trust cannot be kept inside the project ${root}. Let XDG_DATA_HOME name a folder outside the project.`;
    expect(await refusal(recordTrust(join(root, 'data'), root, files, now))).toContain(message);
    expect(await readdir(root)).not.toContain('data');
  });

  test('where it belongs to somebody else', async () => {
    const { dataHome, root, read, store } = await testStore();
    const files = [{ realPath: '/p', sha256, review: '' }];
    const message = 'The folder that keeps trust belongs to somebody else.';
    // Only root can give a file away; others find one that is root's.
    if (process.getuid?.() !== 0) {
      expect(await refusal(recordTrust('/usr', root, files, now))).toContain(message);
      return;
    }
    await recordTrust(dataHome, root, files, now);
    await chown(store, 65_534, 65_534);
    expect(await refusal(read())).toContain('The trust store belongs to somebody else.');
    await chown(store, 0, 0);
    await chown(dataHome, 65_534, 65_534);
    expect(await refusal(read())).toContain(message);
    expect(await refusal(recordTrust(dataHome, root, files, now))).toContain(message);
  });
});

describe('several processes', () => {
  test('that trust at once lose nothing', async () => {
    const { dataHome, root, read } = await testStore();
    const each = 8;
    const children = Array.from({ length: 6 }, (_, index) =>
      recorder(dataHome, root, `for (let i = 0; i < ${each}; i++) await record('/p/${index}/' + i);`),
    );
    const codes = await Promise.all(children.map((child) => once(child, 'exit')));
    expect(codes.map(([code]) => code)).toEqual(children.map(() => 0));
    expect((await read()).all().size).toBe(children.length * each);
    expect(await readdir(join(dataHome, 'locks'))).toEqual([]);
  });

  test('that are killed in the middle of it leave a whole store that goes on', async () => {
    const { dataHome, root, read } = await testStore();
    await recordTrust(dataHome, root, [{ realPath: '/p/0', sha256, review: 'x'.repeat(100_000) }], now);
    for (let round = 0; round < 5; round++) {
      const child = recorder(
        dataHome,
        root,
        `console.log('ready'); for (let i = 0; ; i++) await record('/p/' + (i % 9));`,
      );
      await once(child.stdout, 'data');
      await pause(20 + round * 7);
      child.kill('SIGKILL');
      await once(child, 'exit');
      expect((await read()).all().size).toBeGreaterThan(0);
    }
    await recordTrust(dataHome, root, [{ realPath: '/q', sha256, review: '' }], now);
    expect((await read()).entry('/q')).not.toBeNull();
  });
});

/** A process that trusts files; `program` may call `record(path)`. */
function recorder(dataHome: string, root: string, program: string) {
  const source = `
    import { recordTrust } from ${JSON.stringify(join(import.meta.dirname, 'trust-store.ts'))};
    const record = (realPath) => recordTrust(${JSON.stringify(dataHome)}, ${JSON.stringify(root)},
      [{ realPath, sha256: ${JSON.stringify(sha256)}, review: '' }], new Date());
    ${program}`;
  return spawn(process.execPath, ['--input-type=module', '--eval', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}
