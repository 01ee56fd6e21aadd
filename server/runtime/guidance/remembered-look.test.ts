/** A look is remembered as long as nothing that it depends on has changed, and not a moment longer. */
import { mkdir, mkdtemp, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { rememberLooks } from './remembered-look.ts';

let top: string;
let looks: number;
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), 'service-look-'));
  await mkdir(join(top, 'kept'));
  await writeFile(join(top, 'kept/a.md'), 'one');
  looks = 0;
});
afterEach(() => rm(top, { recursive: true }));

/** Looks at a folder, a file in it, and a file that is not there. */
function looker() {
  const remembered = rememberLooks<number>(() => 0);
  return () =>
    remembered('key', join(top, 'kept'), async (dependsOn) => {
      for (const path of ['kept', 'kept/a.md', 'kept/b.md']) dependsOn(join(top, path));
      looks += 1;
      return looks;
    });
}

/** Long enough ago for a clock that counts in steps. */
const settle = () => sleep(80);

test('what has not changed is not looked at again', async () => {
  await settle();
  const look = looker();
  expect([await look(), await look(), await look()]).toEqual([1, 1, 1]);
});

test('many places are remembered, as long as they depend on few paths', async () => {
  await settle();
  const remembered = rememberLooks<number>(() => 0, { paths: 1000 });
  const look = (key: number, count: number) =>
    remembered(String(key), join(top, 'kept'), async (dependsOn) => {
      for (let path = 0; path < count; path += 1) dependsOn(join(top, String(path)));
      looks += 1;
      return looks;
    });
  const lookAtAll = async () => {
    for (let key = 0; key < 300; key += 1) await look(key, 3);
  };
  await lookAtAll();
  await lookAtAll();
  expect(looks).toBe(300);
  await look(300, 400);
  // The oldest had to go for it, and the newest stay.
  expect([await look(299, 3), await look(0, 3)]).toEqual([300, 302]);
});

test('many places are remembered, as long as little was found in them', async () => {
  await settle();
  const remembered = rememberLooks<number>((found) => found, { characters: 1000 });
  const look = (key: string, length: number) =>
    remembered(key, join(top, 'kept'), async (dependsOn) => {
      dependsOn(join(top, 'kept'));
      looks += 1;
      return length;
    });
  for (const key of ['a', 'b', 'a', 'b']) await look(key, 400);
  expect(looks).toBe(2);
  // The oldest has to go for it, and the other stays.
  await look('c', 500);
  await look('b', 400);
  expect(looks).toBe(3);
  await look('a', 400);
  expect(looks).toBe(4);
});

test('what has changed just now is looked at again: it could change once more without showing it', async () => {
  const look = looker();
  await writeFile(join(top, 'kept/a.md'), 'two');
  const { ctimeMs } = await stat(join(top, 'kept/a.md'));
  // However late this process comes to look.
  const now = vi.spyOn(Date, 'now').mockReturnValue(ctimeMs + 40);
  onTestFinished(() => now.mockRestore());
  expect([await look(), await look()]).toEqual([1, 2]);
  now.mockReturnValue(ctimeMs + 60);
  expect([await look(), await look()]).toEqual([3, 3]);
});

test.each<[string, () => Promise<unknown>]>([
  ['a file is written', () => writeFile(join(top, 'kept/a.md'), 'two')],
  [
    'a file is written whose time and size stay',
    async () => {
      await writeFile(join(top, 'kept/a.md'), 'two');
      await utimes(join(top, 'kept/a.md'), 1, 1);
    },
  ],
  ['a file appears that was looked for', () => writeFile(join(top, 'kept/b.md'), 'new')],
  ['another file appears in the folder', () => writeFile(join(top, 'kept/c.md'), 'new')],
  ['a file goes', () => rm(join(top, 'kept/a.md'))],
  [
    'a file becomes a link to itself elsewhere',
    async () => {
      await rename(join(top, 'kept/a.md'), join(top, 'a.md'));
      await symlink(join(top, 'a.md'), join(top, 'kept/a.md'));
    },
  ],
  [
    'the folder becomes a link to itself elsewhere',
    async () => {
      await rename(join(top, 'kept'), join(top, 'moved'));
      await symlink(join(top, 'moved'), join(top, 'kept'));
    },
  ],
])('%s: it is looked at again', async (_, change) => {
  await settle();
  const look = looker();
  await look();
  await change();
  expect(await look()).toBe(2);
});
