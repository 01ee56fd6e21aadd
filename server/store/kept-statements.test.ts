/** Kept statements: compiled once, right after the tables change, gone when the connection closes. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import sqlite3 from 'sqlite3';
import { afterAll, expect, test } from 'vitest';
import { createLog } from '../log.ts';
import type { Database } from './database.ts';
import { type Connection, keepStatements } from './kept-statements.ts';
import { openSqlite } from './sqlite.ts';

const folder = mkdtempSync(join(tmpdir(), 'service-statements-'));
afterAll(() => rmSync(folder, { recursive: true }));

const open = (name: string): Database => openSqlite(join(folder, name), createLog('silent'));

/** A connection that tells how often it compiles. */
function counted() {
  // `as`: its own types say less of the callbacks than is so.
  const connection = new sqlite3.Database(':memory:') as unknown as Connection;
  let compiled = 0;
  const prepare = connection.prepare.bind(connection);
  connection.prepare = (sql, prepared) => {
    compiled += 1;
    return prepare(sql, prepared);
  };
  keepStatements(connection);
  const ask = (method: 'all' | 'run', sql: string, ...bindings: unknown[]) =>
    new Promise<{ rows: unknown; changes: number }>((resolve, reject) =>
      connection[method](sql, bindings, function (error, rows) {
        if (error) reject(error);
        else resolve({ rows, changes: (this as { changes: number }).changes }); // a statement
      }),
    );
  return { ask, compiled: () => compiled, close: promisify(connection.close.bind(connection)) };
}

test('a statement is compiled once, and answers each with its own', async () => {
  const { ask, compiled, close } = counted();
  await ask('all', 'create table words (word text unique)');
  for (const word of ['one', 'two', 'three'])
    expect((await ask('run', 'insert into words values (?)', word)).changes).toBe(1);
  expect(compiled()).toBe(1);
  const asked = ['one', 'two', 'four'].map((word) =>
    ask('all', 'select word from words where word = ?', word),
  );
  expect((await Promise.all(asked)).map(({ rows }) => rows)).toEqual([
    [{ word: 'one' }],
    [{ word: 'two' }],
    [],
  ]);
  const before = compiled();
  expect((await ask('all', 'select word from words where word = ?', 'three')).rows).toEqual([
    { word: 'three' },
  ]);
  expect(compiled()).toBe(before);
  await close();
});

test('one that failed is given up, and each that asks for what is no SQL is told', async () => {
  const { ask, compiled, close } = counted();
  await ask('all', 'create table words (word text unique)');
  await ask('run', 'insert into words values (?)', 'one');
  await expect(ask('run', 'insert into words values (?)', 'one')).rejects.toThrow('UNIQUE');
  await ask('run', 'insert into words values (?)', 'two');
  expect(compiled()).toBe(2);
  const wrong = await Promise.allSettled([
    ask('all', 'select nothing from'),
    ask('all', 'select nothing from'),
  ]);
  expect(wrong.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await close();
});

test('neither more than a number of them is kept, nor large values', async () => {
  const { ask, compiled, close } = counted();
  for (let turn = 0; turn < 2; turn += 1)
    for (let index = 0; index < 300; index += 1)
      expect((await ask('all', `select ${index} as given`)).rows).toEqual([{ given: index }]);
  expect(compiled()).toBe(600);
  for (let turn = 0; turn < 2; turn += 1) await ask('all', 'select length(?) as given', 'x'.repeat(20_000));
  expect(compiled()).toBe(600);
  await close();
});

test('tables that change are seen, whichever connection changes them', async () => {
  const database = open('changing.db');
  const rows = () => database.read('installation', (sql) => sql('words').select());
  const change = (text: string) => database.write('installation', async (sql) => void (await sql.raw(text)));
  await change('create table words (word text)');
  await change(`insert into words values ('one')`);
  // Each connection that reads has a statement of its own.
  const all = () => Promise.all(Array.from({ length: 8 }, rows));
  expect(await all()).toEqual(Array.from({ length: 8 }, () => [{ word: 'one' }]));
  await change('alter table words add column length integer default 3');
  expect(await all()).toEqual(Array.from({ length: 8 }, () => [{ word: 'one', length: 3 }]));
  await change('alter table words rename column word to name');
  expect(await all()).toEqual(Array.from({ length: 8 }, () => [{ name: 'one', length: 3 }]));
  await change('drop table words');
  await expect(rows()).rejects.toThrow();
  await database.close();
});

test('a transaction that failed holds nothing, and the file is let go at the end', async () => {
  const database = open('failing.db');
  const other = open('failing.db');
  const insert = (into: Database) =>
    into.write('installation', (sql) =>
      sql('words')
        .insert({ word: 'one' })
        .then(() => undefined),
    );
  await database.write(
    'installation',
    async (sql) => void (await sql.raw('create table words (word text unique)')),
  );
  await insert(database);
  for (const one of [database, other, database]) await expect(insert(one)).rejects.toThrow();
  await database.write('installation', (sql) => sql('words').delete());
  await insert(other);
  await Promise.all([database.close(), other.close()]);
  // SQLite refuses to close a connection whose statements are not given up, and keeps its log beside the file then.
  const again = open('failing.db');
  expect(await again.read('installation', (sql) => sql('words').pluck('word'))).toEqual(['one']);
  await again.close();
});
