/** What is remembered of a database: asked once, and again as soon as anybody has written anything but counts. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, expect, onTestFinished, test, vi } from 'vitest';
import { createLog } from '../log.ts';
import { preparing } from './asked-once.ts';
import { commitCounter } from './commit-counter.ts';
import type { Database } from './database.ts';
import { remembered } from './remembered.ts';
import { openSqlite } from './sqlite.ts';
import { Unchanged } from './unchanged.ts';

const folder = mkdtempSync(join(tmpdir(), 'service-remembered-'));
const endings: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const end of endings) await end();
  rmSync(folder, { recursive: true });
});
let files = 0;

/** Two on one file, as two processes have it; the first remembers. */
async function twoOnOneFile() {
  files += 1;
  const file = join(folder, `${files}.db`);
  const [own, other] = [openSqlite(file, createLog('silent')), openSqlite(file, createLog('silent'))];
  endings.push(own.close, other.close);
  await own.write('installation', async (sql) => {
    await sql.raw('create table facts (id integer primary key, value integer)');
    await sql.raw('create table counts (id integer primary key, value integer)');
    await sql('facts').insert({ id: 1, value: 0 });
    await sql('counts').insert({ id: 1, value: 0 });
  });
  let queries = 0;
  const value = remembered(own, String, (id: number) => {
    queries += 1;
    return own.read('installation', async (sql) => {
      const row = await sql('facts').where({ id }).first();
      return (row?.value ?? null) as number | null;
    });
  });
  return { file, own, other, value: () => value(1), absent: () => value(2), queries: () => queries };
}

const write = (database: Database, value: number) =>
  database.write('installation', (sql) => sql('facts').where({ id: 1 }).update({ value }));
const count = (database: Database) =>
  database.writeCounts(async (sql, counted) => {
    await sql('counts').increment('value');
    counted();
  });

test('an answer is asked for once, and counts of this process change nothing', async () => {
  const { own, value, queries } = await twoOnOneFile();
  await value();
  await value();
  // Nothing has shown yet that commits can be seen.
  expect([own.version(), queries()]).toEqual([null, 2]);
  await count(own);
  for (let turn = 0; turn < 3; turn += 1) {
    expect(await value()).toBe(0);
    await count(own);
  }
  expect(queries()).toBe(3);
});

test('whatever else is written is seen by the next question, by whoever it was', async () => {
  const { file, own, other, value, queries } = await twoOnOneFile();
  await count(own);
  await value();
  await write(own, 1);
  expect(await value()).toBe(1);
  await write(other, 2);
  expect(await value()).toBe(2);
  const script = `new (require('sqlite3').Database)(${JSON.stringify(file)}).run('update facts set value = 3')`;
  await promisify(execFile)(process.execPath, ['-e', script], { cwd: import.meta.dirname });
  expect(await value()).toBe(3);
  expect(queries()).toBe(4);
  // What another one counts cannot be told from what it changes.
  await count(other);
  expect([await value(), queries()]).toEqual([3, 5]);
});

test('what a run stores of itself changes nothing, and whatever else it stores does', async () => {
  const { own, value, queries } = await twoOnOneFile();
  await count(own);
  await value();
  await own.writeOfRun(async (sql, unremembered) => {
    await sql('counts').increment('value');
    unremembered();
  });
  expect([await value(), queries()]).toEqual([0, 1]);
  await own.writeOfRun((sql) => sql('facts').where({ id: 1 }).update({ value: 7 }));
  expect(await value()).toBe(7);
});

test('what is not there is asked for each time', async () => {
  const { own, absent, queries } = await twoOnOneFile();
  await count(own);
  expect([await absent(), await absent(), queries()]).toEqual([null, null, 2]);
});

test('where changes cannot be told, whoever prepares something asks once, and the next one again', async () => {
  const { other, value, absent, queries } = await twoOnOneFile();
  // However long a busy machine takes in between, no answer gets too old.
  const now = vi.spyOn(performance, 'now').mockReturnValue(0);
  onTestFinished(() => now.mockRestore());
  let later: Promise<number | null> | undefined;
  await preparing(async () => {
    expect([await value(), await preparing(value), queries()]).toEqual([0, 0, 1]);
    expect([await absent(), await absent(), queries()]).toEqual([null, null, 3]);
    await write(other, 1);
    expect(await value()).toBe(0);
    later = nextTurn().then(value);
  });
  // What goes on behind it is no part of it.
  expect(await later).toBe(1);
  await write(other, 2);
  expect(await preparing(value)).toBe(2);
});

test('whoever prepares something for long sees what was changed meanwhile', async () => {
  const { other, value } = await twoOnOneFile();
  await preparing(async () => {
    expect(await value()).toBe(0);
    await write(other, 1);
    await sleep(1100);
    expect(await value()).toBe(1);
  });
});

test('a count that fails, or writes nothing, hides no change', async () => {
  const { own, other, value, queries } = await twoOnOneFile();
  await count(own);
  await value();
  const failed = own.writeCounts(async (sql, counted) => {
    await sql('counts').increment('value');
    counted();
    throw new Error('as planned');
  });
  await expect(failed).rejects.toThrow('as planned');
  await own.writeCounts(async () => undefined);
  expect([await value(), queries()]).toEqual([0, 1]);
  await write(other, 1);
  await own.writeCounts(async () => undefined);
  expect(await value()).toBe(1);
});

test('amid counts, no answer is older than the last change of another process', async () => {
  const { own, other, value, queries } = await twoOnOneFile();
  let over = false;
  const counting = (async () => {
    while (!over) await count(own);
  })();
  for (let turn = 1; turn <= 30; turn += 1) {
    await write(other, turn);
    expect(await value()).toBe(turn);
    await count(own);
    expect(await value()).toBe(turn);
  }
  over = true;
  await counting;
  expect(queries()).toBeLessThan(60);
});

test('where commits do not show, nothing is remembered', async () => {
  let commits = 1;
  const unchanged = new Unchanged({ read: () => commits, close: () => undefined });
  const counted = (shows: boolean) => {
    unchanged.begin();
    const announced = unchanged.announce();
    if (shows) commits += 1;
    unchanged.end(announced, true);
    return unchanged.version();
  };
  expect([counted(true), counted(false), counted(true)]).toEqual([expect.any(Number), null, null]);
});

test('while a count commits, the next commit is nobody’s', async () => {
  let commits = 1;
  const unchanged = new Unchanged({ read: () => commits, close: () => undefined });
  unchanged.begin();
  const first = unchanged.announce();
  commits += 1;
  unchanged.end(first, true);
  const before = unchanged.version();
  unchanged.begin();
  const announced = unchanged.announce();
  expect(unchanged.version()).toBe(before);
  commits += 1;
  // Whoever asks in the same turn asked before.
  expect(unchanged.version()).toBe(before);
  await nextTurn();
  expect(unchanged.version()).toBeNull();
  // It has failed, and the commit was that of another.
  unchanged.end(announced, false);
  expect(unchanged.version()).not.toBe(before);
});

test('one that begins before another is told that it has committed takes nothing of it, and hides no change', () => {
  let commits = 1;
  const unchanged = new Unchanged({ read: () => commits, close: () => undefined });
  const begin = () => {
    unchanged.begin();
    return unchanged.announce();
  };
  const proof = begin();
  commits += 1;
  unchanged.end(proof, true);
  const early = begin();
  commits += 1;
  const late = begin();
  const between = unchanged.version();
  unchanged.end(early, true);
  expect(unchanged.version()).toBe(between);
  commits += 1;
  unchanged.end(late, true);
  expect(unchanged.version()).toBe(between);
  commits += 1;
  unchanged.end(null, true);
  expect(unchanged.version()).toBe((between ?? 0) + 1);
});

test('counts that begin while a run commits keep nobody from remembering', async () => {
  const { own, value, queries } = await twoOnOneFile();
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (let turn = 0; turn < 100; turn += 1) {
    const run = own.writeOfRun(async (sql, unremembered) => {
      await sql('counts').increment('value');
      unremembered();
    });
    let over = false;
    const counts: Promise<void>[] = [];
    void run.then(() => {
      over = true;
    });
    while (!over) {
      await nextTurn();
      // Its thread has committed by then, and it has not been told.
      Atomics.wait(pause, 0, 0, 1);
      counts.push(own.count((sql) => sql('counts').increment('value')));
    }
    await Promise.all(counts);
  }
  expect([await value(), await value(), queries()]).toEqual([0, 0, 1]);
});

test('what a run changes while a count waits for it is seen at once', async () => {
  const { own, value } = await twoOnOneFile();
  await count(own);
  expect(await value()).toBe(0);
  let waiting: Promise<void> | undefined;
  await own.writeOfRun(async (sql) => {
    waiting = own.count((other) => other('counts').increment('value'));
    await sql('facts').where({ id: 1 }).update({ value: 7 });
  });
  expect(await value()).toBe(7);
  await waiting;
});

test('an index that was made anew is read anew', async () => {
  const { file, own, other } = await twoOnOneFile();
  const counter = commitCounter(file);
  const early = counter.read();
  await write(own, 1);
  expect(counter.read()).toBe((early ?? 0) + 1);
  await own.close();
  await other.close();
  expect(counter.read()).toBeNull();
  const again = openSqlite(file, createLog('silent'));
  await write(again, 2);
  expect(counter.read()).toEqual(expect.any(Number));
  counter.close();
  await again.close();
});
