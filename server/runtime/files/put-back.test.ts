/** Putting files back: all of them or none, whatever happens in between. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { withFileLock } from '../tools/file-content.ts';
import { removeLeftTemporaries } from '../tools/temporary-files.ts';
import { resolvePath } from '../tools/workspace-path.ts';
import type { FileToPutBack } from './pending-file.ts';
import { planPutBack, requireFilesHere } from './put-back.ts';

let folder: string;

beforeEach(async () => {
  const made = await mkdtemp(join(tmpdir(), 'service-put-back-'));
  folder = await realpath(made);
  onTestFinished(() => rm(made, { recursive: true }));
});

const hashOf = (text: string) => createHash('sha256').update(text).digest('hex');

/** A file that went from one text to another; null where there was no file. */
function changed(path: string, before: string | null, after: string | null): FileToPutBack {
  return {
    path,
    known: [after === null ? null : hashOf(after)],
    target: before === null ? null : hashOf(before),
    mode: null,
    read: async () => (before === null ? null : Buffer.from(before)),
  };
}

async function put(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), text);
  }
}

async function found(): Promise<Record<string, string>> {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) =>
    entry.isFile(),
  );
  const texts = names.map(async ({ parentPath, name }) => {
    const path = join(parentPath, name);
    return [path.slice(folder.length + 1), await readFile(path, 'utf8')] as const;
  });
  return Object.fromEntries(await Promise.all(texts));
}

const shared = { requireSandbox: true };
const files = [
  changed('a', 'old a', 'new a'),
  changed('b/b', null, 'new b'),
  changed('c/d/c', 'old c', null),
];
const now = { a: 'new a', 'b/b': 'new b' };

describe('files', () => {
  test('come back, go and change together, and nothing is left beside them', async () => {
    await put(now);
    const plan = await planPutBack(folder, shared, files);
    expect(plan.conflicts).toEqual([]);
    expect(await found()).toEqual(now);
    const staged = await plan.stage();
    await staged.apply();
    await staged.clear();
    expect(await found()).toEqual({ a: 'old a', 'c/d/c': 'old c' });
  });

  test('come back with the permissions they had, and at no moment by a name that others could turn', async () => {
    const gone = { ...changed('tool', 'old', null), mode: 0o4751 };
    const staged = await (await planPutBack(folder, shared, [gone])).stage();
    // It waits as it will be: nothing is changed by its name any more.
    const [waiting = ''] = await readdir(folder);
    expect((await stat(join(folder, waiting))).mode & 0o7777).toBe(0o751);
    await staged.apply();
    await staged.clear();
    expect((await stat(join(folder, 'tool'))).mode & 0o7777).toBe(0o751);
  });

  test('are as they were when what follows fails', async () => {
    await put(now);
    const staged = await (await planPutBack(folder, shared, files)).stage();
    await staged.apply();
    await staged.undo();
    await staged.clear();
    expect(await found()).toEqual(now);
  });

  test('are as they were when one of them cannot be replaced', async () => {
    await put({ ...now, z: 'new z' });
    const staged = await (
      await planPutBack(folder, shared, [...files, changed('z', 'old z', 'new z')])
    ).stage();
    // What waits beside the last file is taken away: its replacement fails, after all the others.
    const texts = await found();
    const waiting = Object.keys(texts).find((name) => texts[name] === 'old z');
    await rm(join(folder, waiting ?? 'nothing waits'));
    await expect(staged.apply()).rejects.toThrow('ENOENT');
    await staged.clear();
    expect(await found()).toEqual({ ...now, z: 'new z' });
  });

  test('are as they were but for those that cannot be reached, whose content stays beside them for another try', async () => {
    await put(now);
    const staged = await (await planPutBack(folder, shared, files)).stage();
    await staged.apply();
    await rename(join(folder, 'b'), join(folder, 'moved'));
    await put({ b: 'in its place' });
    await expect(staged.undo()).rejects.toThrow(/b\/b \(\.service-/);
    await expect(staged.clear()).rejects.toThrow('b/b');
    const texts = await found();
    const kept = Object.keys(texts).find((name) => texts[name] === 'new b') ?? 'nothing is kept';
    expect(kept).toMatch(/^moved\//);
    expect(texts).toEqual({ a: 'new a', b: 'in its place', [kept]: 'new b' });
    await rm(join(folder, 'b'));
    await rename(join(folder, 'moved'), join(folder, 'b'));
    // Nor does who writes there take it for something left.
    await utimes(join(folder, 'b', basename(kept)), 0, 0);
    await removeLeftTemporaries((name) => join(folder, 'b', name));
    await staged.undo();
    await staged.clear();
    expect(await found()).toEqual(now);
  });

  test('that change between the look and the deed stop it', async () => {
    await put(now);
    const staged = await (await planPutBack(folder, shared, files)).stage();
    await writeFile(join(folder, 'b/b'), 'by somebody else');
    await expect(staged.apply()).rejects.toMatchObject({ name: 'FileMoved' });
    await staged.clear();
    expect(await found()).toEqual({ ...now, 'b/b': 'by somebody else' });
  });

  test('that change while those before them are put back stop it', async () => {
    const names = Array.from({ length: 50 }, (_, index) => `${index}`);
    await put(Object.fromEntries(names.map((name) => [name, 'new'])));
    const many = names.map((name) => changed(name, 'old', 'new'));
    const staged = await (await planPutBack(folder, shared, many)).stage();
    const applied = staged.apply();
    applied.catch(() => undefined);
    while (readFileSync(join(folder, '0'), 'utf8') === 'new') await setImmediate();
    writeFileSync(join(folder, '49'), 'by somebody else');
    await expect(applied).rejects.toMatchObject({ name: 'FileMoved' });
    await staged.clear();
    expect(await found()).toEqual({
      ...Object.fromEntries(names.map((name) => [name, 'new'])),
      49: 'by somebody else',
    });
  });

  test('are held together by one at a time, whichever of them each names first', async () => {
    await put(now);
    const plans = [files, files.toReversed()].map((some) => planPutBack(folder, shared, some));
    const staged = await Promise.all(plans.map(async (plan) => (await plan).stage()));
    const told: string[] = [];
    const work = async (who: string) => {
      told.push(`${who} begins`);
      await sleep(50);
      told.push(`${who} ends`);
    };
    const edited = await resolvePath('b/b', folder);
    await Promise.all([
      withFileLock(edited, () => work('an edit')),
      ...staged.map((one) => one.locked(() => work('putting back'))),
    ]);
    const inTurn = ['an edit', 'putting back', 'putting back'];
    expect(told).toEqual(inTurn.flatMap((who) => [`${who} begins`, `${who} ends`]));
    for (const one of staged) await one.clear();
    expect(await found()).toEqual(now);
  });

  test('are told apart by why they cannot come back', async () => {
    await put({ changed: 'by somebody else', kept: 'new', folder: 'new' });
    await rm(join(folder, 'folder'));
    await mkdir(join(folder, 'folder'));
    const plan = await planPutBack(folder, shared, [
      changed('changed', 'old', 'new'),
      changed('.git/hooks/pre-commit', 'old', null),
      changed('../elsewhere', 'old', null),
      changed('folder', 'old', 'new'),
      { ...changed('kept', 'old', 'new'), read: async () => null },
      changed('back already', null, 'new'),
    ]);
    expect(plan.conflicts).toEqual([
      { path: 'changed', reason: 'changed' },
      { path: '.git/hooks/pre-commit', reason: 'protected' },
      { path: '../elsewhere', reason: 'protected' },
      { path: 'folder', reason: 'not_a_file' },
      { path: 'kept', reason: 'not_kept' },
    ]);
    expect(plan.files.map(({ path }) => path)).toEqual(['kept']);
  });
});

describe('files of a workspace', () => {
  const here = async (wanted: readonly FileToPutBack[], changedIn: readonly (string | null)[]) => {
    requireFilesHere(await planPutBack(folder, shared, wanted), changedIn, 'here');
  };

  test.each<[string, readonly (string | null)[], object, boolean]>([
    ['that were changed elsewhere, and are not here', ['there', null], {}, true],
    ['that were changed elsewhere, and are here, as where a machine has another name', ['there'], now, false],
    ['of which another one is in a place', ['there'], { 'c/d/c': 'theirs' }, false],
    ['that were changed here and are gone', ['there', 'here'], {}, false],
    ['whose place nobody has named', [null], {}, false],
  ])('%s', async (_, changedIn, present, isRefused) => {
    await put({ ...present });
    const asked = here(files, changedIn);
    if (isRefused) await expect(asked).rejects.toMatchObject({ code: 'workspace_unavailable' });
    else await asked;
  });

  test('are not asked for where none was changed', async () => {
    await here([], ['there']);
  });
});
