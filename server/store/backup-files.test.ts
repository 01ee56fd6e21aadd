/** Files of a backup that are put back, and taken away again where the restore goes no further. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newId } from '../ids.ts';
import { othersOf, putFilesBack } from './backup-files.ts';
import { objectPath } from './storage/disk.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-backup-files-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('go again alone: what was there before, and what came meanwhile, stays', async () => {
  const [copy, files] = [join(folder, 'copy.files'), join(folder, 'files')];
  const [both, inCopy, later] = [newId('storedObject'), newId('storedObject'), newId('storedObject')];
  for (const key of [both, inCopy]) await write(copy, key, 'of the copy');
  await write(files, both, 'of the server');
  const named = { kept: [both, inCopy], others: [], inBuckets: 0 };
  const { lost, undo } = await putFilesBack(copy, files, named);
  expect(lost).toBe(0);
  expect(await readFile(objectPath(files, inCopy), 'utf8')).toBe('of the copy');
  await write(files, later, 'of the server');
  await undo();
  expect(await keysIn(files)).toEqual([both, later].sort());
  expect(await readFile(objectPath(files, both), 'utf8')).toBe('of the server');
});

test('of what the copy does not name that goes which was there before it was put back', async () => {
  const files = join(folder, 'files');
  const [kept, old, later] = [newId('storedObject'), newId('storedObject'), newId('storedObject')];
  for (const key of [kept, old]) await write(files, key, 'x');
  const others = await othersOf(files, { kept: [kept], others: [], inBuckets: 0 });
  await write(files, later, 'x');
  await others.remove();
  expect(await keysIn(files)).toEqual([kept, later].sort());
});

async function write(files: string, key: string, content: string): Promise<void> {
  await mkdir(dirname(objectPath(files, key)), { recursive: true });
  await writeFile(objectPath(files, key), content);
}

async function keysIn(files: string): Promise<string[]> {
  const names = await readdir(files, { recursive: true, withFileTypes: true });
  return names
    .filter((name) => name.isFile())
    .map(({ name }) => name)
    .sort();
}
