/** Backups of real installations, on both databases: taken while servers write, put back, and refused where they must be. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { findExecutable } from '../runtime/processes/executable.ts';
import { type ServerProcess, temporaryFolder } from '../server-process.ts';
import { backUp, openStore } from '../store/store.ts';
import type { Json } from '../test-app.ts';
import { clientOf } from '../test-client.ts';
import { createBackup, restoreBackup } from './maintenance.ts';
import { install, newestTable, undoNewestSteps, usePostgresPrograms } from './test-installation.ts';

/** Bytes that no row knows, as those of a file that came after the backup. */
async function uploadedNowhere(dataDirectory: string): Promise<void> {
  const folder = join(dataDirectory, 'files/objects/zz/zz');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'obj_01k9w6r3h2e7xv5q0c8m4bzzzz'), 'nobody knows me');
}

const bearer = ({ key }: ServerProcess) => ({ authorization: `Bearer ${key}` });

async function uploadTo(server: ServerProcess, content: string): Promise<string> {
  const body = new FormData();
  body.append('file', new Blob([content]), 'a.txt');
  const init = { method: 'POST', headers: bearer(server), body };
  const answer = await fetch(`${server.url}/api/v1/files`, init);
  expect(answer.status).toBe(201);
  const { id }: Json = await answer.json();
  return id;
}

const run = promisify(execFile);
const command = join(import.meta.dirname, '../../clients/terminal/start.mjs');

beforeAll(usePostgresPrograms);

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  const here = test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null);

  here(
    'a backup that is taken while a server writes holds all that was acknowledged before it, and is put back whole',
    async () => {
      const { folder, settings, start, ask } = await install(database);
      const server = await start();
      const client = clientOf(server, server.key);
      const made: string[] = [];
      let writing = true;
      const writer = (async () => {
        while (writing)
          made.push((await client.post('/api/v1/sessions', { title: `n ${made.length}` })).body.id);
      })();
      await expect.poll(() => made.length).toBeGreaterThan(10);
      const before = [...made];
      const file = await createBackup(settings, join(folder, 'copy'));
      const during = made.length;
      await expect.poll(() => made.length).toBeGreaterThan(during + 5);
      writing = false;
      await writer;
      expect((await stat(file)).mode & 0o777).toBe(0o600);
      await expect(restoreBackup(settings, file)).rejects.toThrow(/in use/);
      await server.stop();

      await restoreBackup(settings, file);
      const restored: string[] = await ask((sql) => sql('sessions').orderBy('id').pluck('id'));
      expect(restored).toEqual(expect.arrayContaining(before));
      expect(made.slice(0, restored.length).sort()).toEqual(restored);
      if (database === 'SQLite') {
        expect(await ask((sql) => sql.raw('pragma integrity_check'))).toEqual([{ integrity_check: 'ok' }]);
        expect(await ask((sql) => sql.raw('pragma foreign_key_check'))).toEqual([]);
      }
      // What was put back is an installation like any other: its keys open, its policies hold, it can be written to.
      const again = await start();
      const later = clientOf(again, server.key);
      expect((await later.get(`/api/v1/sessions/${before[0]}`)).status).toBe(200);
      expect((await later.post('/api/v1/sessions', { title: 'after' })).status).toBe(201);
    },
  );

  here(
    'a backup holds the files, whichever are deleted and uploaded meanwhile, and a restore has no others',
    async () => {
      const { folder, settings, start, ask } = await install(database);
      const server = await start();
      const made: string[] = [];
      let working = true;
      const worker = (async () => {
        while (working) {
          const id = await uploadTo(server, `file ${made.length}`);
          made.push(id);
          // Every other one is gone soon after it has come.
          if (made.length % 2 === 0)
            await fetch(`${server.url}/api/v1/files/${id}`, { method: 'DELETE', headers: bearer(server) });
        }
      })();
      await expect.poll(() => made.length).toBeGreaterThan(20);
      const file = await createBackup(settings, join(folder, 'copy'));
      working = false;
      await worker;
      const later = await uploadTo(server, 'came later');
      const objects = () => readdir(join(settings.dataDirectory, 'files/objects'), { recursive: true });
      expect((await stat(`${file}.files`)).isDirectory()).toBe(true);
      await server.stop();
      // As on a new disk: what a restore puts back comes from the backup.
      await rm(join(settings.dataDirectory, 'files/objects'), { recursive: true });
      await uploadedNowhere(settings.dataDirectory);

      expect(await restoreBackup(settings, file)).toBe(0);
      const kept: string[] = await ask((sql) => sql('stored_objects').where({ state: 'kept' }).pluck('key'));
      const underWay: string[] = await ask((sql) =>
        sql('stored_objects').where({ state: 'uploading' }).pluck('key'),
      );
      expect(kept.length).toBeGreaterThan(8);
      const there = (await objects()).filter((name) => name.includes('obj_')).map((name) => basename(name));
      expect(there).toEqual(expect.arrayContaining(kept));
      // What was under way when the copy was taken may have its bytes too, and nothing else has.
      expect(there.filter((key) => !kept.includes(key) && !underWay.includes(key))).toEqual([]);
      const again = await start();
      const headers = bearer(server);
      const ids: string[] = await ask((sql) => sql('files').pluck('id'));
      for (const id of ids) {
        const answer = await fetch(`${again.url}/api/v1/files/${id}/content`, { headers });
        expect(await answer.text()).toBe(`file ${made.indexOf(id)}`);
      }
      expect(ids).not.toContain(later);
      await again.stop();
      await rm(`${file}.files`, { recursive: true });
      await rm(join(settings.dataDirectory, 'files'), { recursive: true });
      expect(await restoreBackup(settings, file)).toBe(kept.length);
    },
  );

  here('nobody but its owner may read a copy, from its first moment', async () => {
    const { folder, settings, start } = await install(database);
    await (await start()).stop();
    const place = join(folder, 'copies');
    await mkdir(place, { mode: 0o755 });
    const seen = new Set<number>();
    let copying = true;
    const watcher = (async () => {
      while (copying) {
        for (const name of await readdir(place)) {
          // Gone again, it was not there for others either.
          const found = await stat(join(place, name)).catch(() => null);
          if (found?.isFile()) seen.add(found.mode & 0o777);
        }
      }
    })();
    await createBackup(settings, join(place, 'copy')).finally(() => {
      copying = false;
    });
    await watcher;
    expect([...seen]).toEqual([0o600]);
  });

  here('a copy of a newer program and a damaged one are refused, and nothing changes', async () => {
    const { folder, settings, start, ask } = await install(database);
    const server = await start();
    await clientOf(server, server.key).post('/api/v1/sessions', { title: 'kept' });
    await server.stop();
    await ask((sql) => sql('schema_versions').insert({ version: 9999, name: 'future', applied_at: 1 }));
    const newer = await createBackup(settings, join(folder, 'newer'));
    await ask((sql) => sql('schema_versions').where({ version: 9999 }).delete());
    await expect(restoreBackup(settings, newer)).rejects.toThrow(/newer version/);
    const damaged = join(folder, 'damaged');
    await writeFile(damaged, (await readFile(newer)).subarray(0, 5000));
    await expect(restoreBackup(settings, damaged)).rejects.toThrow();
    expect(await ask((sql) => sql('sessions').pluck('title'))).toEqual(['kept']);
  });

  here(
    'before an older database is migrated it is copied, and a newer one is refused untouched',
    async () => {
      const { folder, settings, start, ask } = await install(database);
      await (await start()).stop();
      const { dataDirectory, masterKeyFile } = settings;
      const masterKey = (await readFile(masterKeyFile ?? join(dataDirectory, 'master.key'), 'utf8')).trim();
      const backups = join(folder, 'backups');
      const newest = await ask((sql) => sql('schema_versions').orderBy('version', 'desc').first());
      await undoNewestSteps({ ask });
      const steps: number = (await ask((sql) => sql('schema_versions').pluck('version'))).length;
      const url = settings.databaseUrl ?? `sqlite:${join(settings.dataDirectory, 'service.db')}`;
      const open = async () =>
        (await openStore(url, { clock: systemClock, log: createLog('silent'), backups })).close();
      await open();
      const [name = '', ...others] = await readdir(backups);
      expect([name, ...others]).toEqual([expect.stringMatching(/^before-migration-from-/)]);
      const copy = join(backups, name);
      expect([(await stat(backups)).mode & 0o777, (await stat(copy)).mode & 0o777]).toEqual([0o700, 0o600]);
      // The key as it stands in its file, and as it is.
      for (const form of [masterKey, Buffer.from(masterKey, 'base64')])
        expect((await readFile(copy)).includes(form)).toBe(false);
      expect(await ask((sql) => sql(newestTable))).toEqual([]);
      await restoreBackup(settings, copy);
      expect(await ask((sql) => sql('schema_versions').pluck('version'))).toHaveLength(steps);
      expect(await ask((sql) => sql.schema.hasTable(newestTable))).toBe(false);
      await ask((sql) =>
        sql('schema_versions').insert({ version: newest.version + 1, name: 'future', applied_at: 1 }),
      );
      await expect(open()).rejects.toMatchObject({ name: 'NewerDatabase' });
      expect(await ask((sql) => sql.schema.hasTable(newestTable))).toBe(false);
    },
  );
});

const onPostgres = test.skipIf(inject('postgresUrl') === null);

onPostgres(
  'a copy may take longer than any request may, and so may the other nodes that wait for the one that migrates',
  async () => {
    const { folder, url, ask } = await install('PostgreSQL');
    const open = async (limits = '') => {
      const options = { clock: systemClock, log: createLog('silent'), backups: folder };
      return (await openStore(`${url}${limits}`, options)).close();
    };
    await open();
    await undoNewestSteps({ ask });
    // As an operator may have set it for a whole server.
    await ask((sql) =>
      sql.raw(`do $$ begin
        if current_setting('transaction_timeout', true) is not null then
          execute format('alter database %I set transaction_timeout = 2000', current_database());
        end if;
      end $$`),
    );
    await useDump(folder, `sleep 5; export PATH='${process.env.PATH}'; exec pg_dump "$@"`);
    const limits = ['idle_in_transaction_session', 'statement', 'lock', 'query'];
    const short = `?${limits.map((limit) => `${limit}_timeout=2000`).join('&')}`;
    await Promise.all([open(short), open(short)]);
    expect(await ask((sql) => sql(newestTable))).toEqual([]);
    const copies = (await readdir(folder)).filter((name) => name.startsWith('before-migration-from-'));
    expect(copies).toHaveLength(1);
  },
);

test.each([
  [
    '?sslmode=verify-full&sslrootcert=/keys/root%20ca.pem&sslcert=/keys/service.crt&sslkey=/keys/service.key',
    ['PGSSLCERT=/keys/service.crt', 'PGSSLKEY=/keys/service.key', 'PGSSLMODE=verify-full'],
    ['PGSSLROOTCERT=/keys/root ca.pem'],
  ],
  // A word of the driver, which the programs of PostgreSQL do not know.
  ['?sslmode=no-verify', ['PGSSLMODE=require'], []],
  ['?sslmode=no-verify&sslrootcert=/keys/ca.pem', ['PGSSLMODE=require'], []],
])(
  'a copy is taken with the keys and certificates that the URL of the database names: %s',
  async (parameters, ...settings) => {
    const folder = await temporaryFolder();
    await useDump(
      folder,
      'for word; do case $word in --file=*) env | grep ^PG > "$(echo "$word" | cut -c 8-)"; esac; done',
    );
    const file = join(folder, 'copy');
    await backUp(`postgres://ada:a%20secret@db.example:6543/service${parameters}`, file, createLog('silent'));
    expect((await readFile(file, 'utf8')).trim().split('\n').sort()).toEqual([
      ...['PGDATABASE=service', 'PGHOST=db.example', 'PGOPTIONS=-c service.organizations=*'],
      ...['PGPASSWORD=a secret', 'PGPORT=6543', ...settings.flat(), 'PGUSER=ada'],
    ]);
  },
);

test('a restore that is killed leaves the database old or new, and a backup that is killed leaves no file', async () => {
  const { folder, settings, start, ask, variables } = await install('SQLite');
  await (await start()).stop();
  const filler = Array.from({ length: 50 }, () => ({ name: 'x'.repeat(100_000) }));
  await ask((sql) => sql.schema.createTable('filler', (table) => table.text('name')));
  await ask((sql) => sql.batchInsert('filler', filler, 10));
  const old = await createBackup(settings, join(folder, 'with'));
  const other = async () => (await ask((sql) => sql.schema.hasTable('filler'))) === true;
  for (let round = 0; round < 6; round += 1) {
    await killed(['backup', join(folder, `cut-${round}`)], variables, round * 120);
    await killed(['restore', old], variables, 300 + round * 120);
    expect(await ask((sql) => sql.raw('pragma integrity_check'))).toEqual([{ integrity_check: 'ok' }]);
    expect(await other()).toBe(true);
  }
  const names = (await readdir(folder)).filter((name) => /^cut-\d$/.test(name));
  for (const name of names) await restoreBackup(settings, join(folder, name));
});

test('the commands say what a backup does not hold, and never take the place of a file', async () => {
  const { folder, start, variables } = await install('SQLite');
  await (await start()).stop();
  const env = { PATH: process.env.PATH, HOME: folder, ...variables };
  const { stdout, stderr } = await run(process.execPath, [command, 'backup'], { env, cwd: folder });
  expect(stdout.trim()).toMatch(/\/data\/backups\/service-\d{8}T\d{6}Z\.db$/);
  expect(stderr).toContain('neither the master key');
  expect(await readFile(stdout.trim(), 'latin1')).not.toContain(
    (await readFile(join(folder, 'data/master.key'), 'utf8')).trim(),
  );
  const twice = run(process.execPath, [command, 'backup', stdout.trim()], { env, cwd: folder });
  await expect(twice).rejects.toMatchObject({ stderr: expect.stringContaining('is there already') });
  const nowhere = run(process.execPath, [command, 'restore', join(folder, 'none')], { env, cwd: folder });
  await expect(nowhere).rejects.toMatchObject({ code: 1 });
});

const withLibraries = test.skipIf(process.platform !== 'linux' || findExecutable('cc') === null);

withLibraries(
  'a disk that knows no hard links holds backups too, and of one that fails nothing is left',
  async () => {
    const { folder, settings, start, variables } = await install('SQLite');
    const server = await start();
    const id = await uploadTo(server, 'on a disk without links');
    const library = join(folder, 'no-links.so');
    await run('cc', ['-shared', '-fPIC', '-o', library, join(import.meta.dirname, 'test-no-links.c')]);
    const place = join(folder, 'copies');
    const file = join(place, 'copy');
    const backup = (error: number) =>
      run(process.execPath, [command, 'backup', file], {
        cwd: folder,
        env: {
          ...{ PATH: process.env.PATH, HOME: folder, LD_PRELOAD: library, TEST_LINK_ERROR: `${error}` },
          ...variables,
        },
      });
    const { EIO, EPERM, ENOTSUP } = constants.errno;
    await expect(backup(EIO)).rejects.toMatchObject({ stderr: expect.stringContaining('EIO') });
    expect(await readdir(place)).toEqual([]);
    for (const error of [EPERM, ENOTSUP]) {
      await rm(place, { recursive: true });
      await backup(error);
      expect((await readdir(place)).sort()).toEqual(['copy', 'copy.files']);
      expect((await stat(file)).mode & 0o777).toBe(0o600);
    }
    await server.stop();
    await rm(join(settings.dataDirectory, 'files'), { recursive: true });
    expect(await restoreBackup(settings, file)).toBe(0);
    const again = await start();
    const answer = await fetch(`${again.url}/api/v1/files/${id}/content`, { headers: bearer(server) });
    expect(await answer.text()).toBe('on a disk without links');
  },
);

/** Until the test is over, pg_dump is a program of its own. */
async function useDump(folder: string, script: string): Promise<void> {
  const path = process.env.PATH;
  await mkdir(join(folder, 'bin'));
  await writeFile(join(folder, 'bin/pg_dump'), `#!/bin/sh\n${script}\n`, { mode: 0o700 });
  vi.stubEnv('PATH', `${join(folder, 'bin')}:${path}`);
  onTestFinished(() => void vi.stubEnv('PATH', path));
}

/** Runs a command, and kills it after so long if it is still there. */
async function killed(
  words: readonly string[],
  variables: Readonly<Record<string, string>>,
  afterMs: number,
): Promise<void> {
  const env = { PATH: process.env.PATH, HOME: variables.SERVICE_DATA_DIR, ...variables };
  const child = spawn(process.execPath, [command, ...words], { env, stdio: 'ignore' });
  const exited = once(child, 'exit');
  await Promise.race([exited, sleep(afterMs)]);
  child.kill('SIGKILL');
  await exited;
}
