/** The master key: made once, private, and refused where it is not what it should be. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findExecutable } from '../runtime/processes/executable.ts';
import { beginRotation, endRotation, loadMasterKey } from './master-key.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-master-key-'));
});
afterEach(() => rm(folder, { recursive: true }));

const inFolder = () => ({ dataDirectory: join(folder, 'data'), database: 'sqlite' }) as const;

test('the first start makes a key of 32 bytes that only its owner can read, the second finds it', async () => {
  const first = await loadMasterKey(inFolder());
  expect(first).toMatchObject({ created: true, path: join(folder, 'data', 'master.key') });
  expect(first.keys[0]).toHaveLength(32);
  expect((await stat(first.path)).mode & 0o777).toBe(0o600);
  expect(await readFile(first.path, 'utf8')).toBe(`${first.keys[0]?.toString('base64')}\n`);
  expect(await loadMasterKey(inFolder())).toEqual({ ...first, created: false });
});

test('of twenty starts at once one makes the key, all get the same, and no draft stays behind', async () => {
  const starts = await Promise.all(Array.from({ length: 20 }, () => loadMasterKey(inFolder())));
  expect(starts.filter((start) => start.created)).toHaveLength(1);
  expect(new Set(starts.map((start) => start.keys[0]?.toString('hex'))).size).toBe(1);
  expect(await readdir(join(folder, 'data'))).toEqual(['master.key']);
});

test('a configured file is read and nothing is made', async () => {
  const key = randomBytes(32);
  const file = await written(key.toString('base64'));
  const loaded = await loadMasterKey({ ...inFolder(), masterKeyFile: file, database: 'postgresql' });
  expect(loaded).toEqual({ keys: [key], path: file, created: false });
  expect(await readdir(folder)).toEqual(['configured.key']);
});

test('a configured file that is missing is not made, and the message says what should be there', async () => {
  const masterKeyFile = join(folder, 'nowhere.key');
  await expect(loadMasterKey({ ...inFolder(), masterKeyFile })).rejects.toThrow(
    /nowhere\.key cannot be read.*base64/,
  );
  expect(await readdir(folder)).toEqual([]);
});

test('PostgreSQL without a configured file is refused with the setting to set', async () => {
  const start = loadMasterKey({ ...inFolder(), database: 'postgresql' });
  await expect(start).rejects.toThrow('SERVICE_MASTER_KEY_FILE');
  expect(await readdir(folder)).toEqual([]);
});

test.each([
  ['nothing', ''],
  ['16 bytes', randomBytes(16).toString('base64')],
  ['33 bytes', randomBytes(33).toString('base64')],
  ['no base64', 'not a key at all'],
  ['hexadecimal', randomBytes(32).toString('hex')],
  ['a line too many', `${`${randomBytes(32).toString('base64')}\n`.repeat(3)}`],
])('a file that holds %s is refused', async (_, text) => {
  const masterKeyFile = await written(text);
  await expect(loadMasterKey({ ...inFolder(), masterKeyFile })).rejects.toThrow('does not hold a master key');
});

test('a file that everybody can read is refused, and the message says how to mend it', async () => {
  const { path } = await loadMasterKey(inFolder());
  await chmod(path, 0o644);
  await expect(loadMasterKey(inFolder())).rejects.toThrow(/chmod 600/);
});

test('a folder in the place of the file is refused', async () => {
  await expect(loadMasterKey({ ...inFolder(), masterKeyFile: folder })).rejects.toThrow('is not a file');
});

test.skipIf(!findExecutable('strace'))(
  'a key that is made or replaced is under its name on the disk before anything can be sealed with it',
  async () => {
    const [trace, mark] = [join(folder, 'trace'), join(folder, 'mark')];
    const { dataDirectory } = inFolder();
    const keyFile = join(dataDirectory, 'master.key');
    const script = `
      import { writeFileSync } from 'node:fs';
      import { beginRotation, endRotation, loadMasterKey } from ${JSON.stringify(import.meta.resolve('./master-key.ts'))};
      const mark = () => writeFileSync(${JSON.stringify(mark)}, '');
      await loadMasterKey(${JSON.stringify(inFolder())});
      mark();
      const keys = await beginRotation(${JSON.stringify(keyFile)});
      mark();
      await endRotation(${JSON.stringify(keyFile)}, keys);
      mark();`;
    const calls = '--trace=link,linkat,rename,renameat,renameat2,fsync,openat';
    const strace = ['--follow-forks', '--decode-fds=path', '--string-limit=4096', calls, '--output', trace];
    await promisify(execFile)('strace', [
      ...strace,
      ...[process.execPath, '--input-type=module-typescript', '--eval', script],
    ]);
    const events = (await readFile(trace, 'utf8')).split('\n').flatMap((line) => {
      if (/ (link|rename)\w*\(/.test(line) && line.includes(`"${keyFile}"`)) return ['named'];
      if (line.includes(' fsync(') && line.includes(`<${dataDirectory}>`)) return ['on the disk'];
      return line.includes(`"${mark}"`) ? ['used'] : [];
    });
    expect(events).toEqual(Array.from({ length: 3 }, () => ['named', 'on the disk', 'used']).flat());
  },
);

test('whoever ends a rotation late leaves the key that has taken over meanwhile, and the one it takes over from', async () => {
  const { path } = await loadMasterKey(inFolder());
  const keys = await beginRotation(path);
  await endRotation(path, keys);
  const next = await beginRotation(path);
  await endRotation(path, keys);
  expect((await loadMasterKey(inFolder())).keys).toEqual(next);
  await endRotation(path, next);
  await endRotation(path, keys);
  expect((await loadMasterKey(inFolder())).keys).toEqual(next.slice(0, 1));
});

async function written(text: string): Promise<string> {
  const file = join(folder, 'configured.key');
  await writeFile(file, text, { mode: 0o600 });
  return file;
}
