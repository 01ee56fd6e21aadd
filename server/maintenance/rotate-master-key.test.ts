/** Another master key, while real servers are at work: no request fails, and the old key is of no use afterwards. */
import { execFile } from 'node:child_process';
import { watch } from 'node:fs';
import { copyFile, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import knex from 'knex';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { withLock } from '../config/config.ts';
import { findExecutable } from '../runtime/processes/executable.ts';
import { startServer, temporaryFolder } from '../server-process.ts';
import { sealedColumns } from '../store/sealed-values.ts';
import { newDatabase, newMasterKey } from '../test-database.ts';
import { rotateMasterKey } from './maintenance.ts';

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null)(
    'two servers under load fail no request while the key changes, twice; the old key opens nothing any more',
    async () => {
      const folder = await temporaryFolder();
      const dataDirectory = join(folder, 'data');
      const databaseUrl = database === 'SQLite' ? null : await newDatabase();
      const masterKeyFile = databaseUrl && (await newMasterKey(folder));
      const keyFile = masterKeyFile ?? join(dataDirectory, 'master.key');
      const variables: Record<string, string> = databaseUrl
        ? { DATABASE_URL: databaseUrl, SERVICE_MASTER_KEY_FILE: keyFile }
        : {};
      const one = await startServer({ folder, variables });
      const other = await startServer({ folder, variables });
      await copyFile(keyFile, join(folder, 'old.key'));
      const oldKey = (await readFile(keyFile, 'utf8')).trim();
      const { mode } = await stat(keyFile);

      const statuses: number[] = [];
      let sent = 0;
      let working = true;
      const bodies = new Map<string, string>();
      // Each request seals its answer, and each repetition opens it, at the other server.
      const work = async (url: string, repeatAt: string) => {
        while (working) {
          sent += 1;
          const key = `load-${sent}`;
          const first = await post(url, one.key, key);
          bodies.set(key, first.text);
          const again = await post(repeatAt, one.key, key);
          expect(again.text).toBe(first.text);
          statuses.push(first.status, again.status);
        }
      };
      const load = Promise.all([work(one.url, other.url), work(other.url, one.url)]);
      await expect.poll(() => statuses.length).toBeGreaterThan(10);
      const settings = { databaseUrl, dataDirectory, masterKeyFile };
      const { resealed } = await rotateMasterKey(settings);
      expect(resealed).toBeGreaterThan(5);
      await rotateMasterKey(settings);
      const afterRotation = statuses.length;
      await expect.poll(() => statuses.length).toBeGreaterThan(afterRotation + 10);
      working = false;
      await load;
      expect(new Set(statuses)).toEqual(new Set([201]));

      const newKey = (await readFile(keyFile, 'utf8')).trim();
      expect(newKey).toMatch(/^[\w+/]{43}=$/);
      expect(newKey).not.toBe(oldKey);
      expect((await stat(keyFile)).mode).toBe(mode);
      // What was sealed before opens still, by the new key alone.
      const [key = '', text] = [...bodies][0] ?? [];
      expect((await post(one.url, one.key, key)).text).toBe(text);
      const sql = knex(
        databaseUrl
          ? { client: 'pg', connection: databaseUrl, pool: { min: 0, max: 1 } }
          : {
              client: 'sqlite3',
              connection: { filename: join(dataDirectory, 'service.db') },
              useNullAsDefault: true,
            },
      );
      onTestFinished(() => sql.destroy());
      const ids = new Set<string>();
      for (const { table, column } of sealedColumns)
        for (const value of await sql(table).whereNotNull(column).pluck(column)) ids.add(value.split('.')[1]);
      expect(ids.size).toBe(1);
      // Every sealed value of the database stands in one of these columns: another one would not be sealed anew.
      const known = new Set(sealedColumns.map(({ table, column }) => `${table}.${column}`));
      expect((await sealedPlaces(sql)).filter((place) => !known.has(place))).toEqual([]);

      await one.stop();
      await other.stop();
      await copyFile(join(folder, 'old.key'), keyFile);
      await expect(startServer({ folder, variables })).rejects.toThrow(/give it the master key/);
      await writeFile(keyFile, newKey);
      await startServer({ folder, variables });
    },
  );
});

test('rotations at once make one new key, which opens what any of them has sealed', async () => {
  const folder = await temporaryFolder();
  const settings = { databaseUrl: null, dataDirectory: join(folder, 'data'), masterKeyFile: null };
  const server = await startServer({ folder });
  const { text } = await post(server.url, server.key, 'before');
  await server.stop();
  const { dataDirectory } = settings;
  const keyFile = join(dataDirectory, 'master.key');
  const oldKey = await readFile(keyFile, 'utf8');
  const names = new Set<string | null>();
  const watcher = watch(dataDirectory, (_, name) => void names.add(name));
  onTestFinished(() => watcher.close());
  // Each asks for the lock again and again under another name, and touches the key only once it has it.
  const rotations = await withLock(dataDirectory, 'master.key', async () => {
    const some = Array.from({ length: 3 }, () => rotateMasterKey(settings));
    await vi.waitUntil(
      () => [...names].filter((name) => name?.startsWith('master.key.lock.')).length > 3,
      60_000,
    );
    expect(await readFile(keyFile, 'utf8')).toBe(oldKey);
    return { some };
  });
  await Promise.all(rotations.some);
  // One key is left, and no lock and no draft beside it.
  expect(await readFile(keyFile, 'utf8')).toMatch(/^[\w+/]{43}=\n$/);
  expect((await readdir(dataDirectory)).filter((name) => name.startsWith('master.key'))).toEqual([
    'master.key',
  ]);
  const again = await startServer({ folder });
  expect((await post(again.url, server.key, 'before')).text).toBe(text);
});

async function post(url: string, token: string, key: string) {
  const response = await fetch(`${url}/api/v1/sessions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'idempotency-key': key,
    },
    body: '{}',
  });
  return { status: response.status, text: await response.text() };
}

/** The columns in which something reads like a sealed value. */
async function sealedPlaces(sql: ReturnType<typeof knex>): Promise<string[]> {
  const places: string[] = [];
  const isSqlite = sql.client.config.client === 'sqlite3';
  const tables: string[] = isSqlite
    ? await sql('sqlite_master').where({ type: 'table' }).pluck('name')
    : await sql('pg_tables').where({ schemaname: 'public' }).pluck('tablename');
  for (const table of tables) {
    for (const row of await sql(table).limit(500))
      for (const [column, value] of Object.entries(row))
        if (typeof value === 'string' && /^v1\.[0-9a-f]{12}\./.test(value)) places.push(`${table}.${column}`);
  }
  return [...new Set(places)];
}

test.skipIf(!findExecutable('strace'))(
  'what is sealed anew in SQLite is on the disk before the old key goes',
  async () => {
    const folder = await temporaryFolder();
    const dataDirectory = join(folder, 'data');
    const server = await startServer({ folder });
    await post(server.url, server.key, 'sealed');
    const [trace, keyFile] = [join(folder, 'trace'), join(dataDirectory, 'master.key')];
    const script = `
      import { rotateMasterKey } from ${JSON.stringify(import.meta.resolve('./maintenance.ts'))};
      await rotateMasterKey(${JSON.stringify({ databaseUrl: null, dataDirectory, masterKeyFile: null })});`;
    await promisify(execFile)('strace', [
      ...['--follow-forks', '--decode-fds=path', '--string-limit=4096', '--output', trace],
      '--trace=pwrite64,write,fsync,fdatasync,rename,renameat,renameat2',
      ...[process.execPath, '--input-type=module-typescript', '--eval', script],
    ]);
    const log = `<${join(dataDirectory, 'service.db-wal')}>`;
    const events = (await readFile(trace, 'utf8')).split('\n').flatMap((line) => {
      if (/ rename\w*\(/.test(line)) return line.includes(`"${keyFile}"`) ? ['key'] : [];
      if (!line.includes(log)) return [];
      return / p?write(64)?\(/.test(line) ? ['written'] : ['synced'];
    });
    const [first, last] = [events.indexOf('key'), events.lastIndexOf('key')];
    expect(last).toBeGreaterThan(first);
    const between = events.slice(first, last);
    expect(between).toContain('written');
    expect(between.lastIndexOf('synced')).toBeGreaterThan(between.lastIndexOf('written'));
  },
);
