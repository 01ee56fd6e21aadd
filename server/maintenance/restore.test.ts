/** Restores over what an operator may find: the leavings of a damaged database, roles with few rights, servers of any name. */
import { copyFile, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { temporaryFolder } from '../server-process.ts';
import { openStore, type Store } from '../store/store.ts';
import { twoRoles } from '../store/test-roles.ts';
import { newAccount } from '../store/test-stores.ts';
import type { Json } from '../test-app.ts';
import { createBackup, restoreBackup } from './maintenance.ts';
import { install, usePostgresPrograms } from './test-installation.ts';

beforeAll(usePostgresPrograms);

async function open(url: string, migrationUrl?: string): Promise<Store> {
  return openStore(url, { clock: systemClock, log: createLog('silent'), migrationUrl });
}

test('what is left beside a database that was moved away is kept, and changes nothing of what is restored', async () => {
  const { folder, settings, url } = await install('SQLite');
  const store = await open(url);
  await newAccount(store, 'Before');
  const copy = await createBackup(settings, join(folder, 'copy'));
  for (let nth = 0; nth < 20; nth += 1) await newAccount(store, `After ${nth}`);
  // As a server leaves it that is killed.
  const dataDirectory = join(folder, 'dead');
  await mkdir(dataDirectory, { mode: 0o700 });
  for (const ending of ['', '-wal', '-shm'])
    await copyFile(
      join(settings.dataDirectory, `service.db${ending}`),
      join(dataDirectory, `service.db${ending}`),
    );
  await store.close();
  await rm(join(dataDirectory, 'service.db'));

  await restoreBackup({ databaseUrl: null, dataDirectory }, copy);
  expect((await readdir(dataDirectory)).filter((name) => name.startsWith('service.db')).sort()).toEqual([
    'service.db',
    expect.stringMatching(/^service\.db-shm\.[0-9a-f]{12}$/),
    expect.stringMatching(/^service\.db-wal\.[0-9a-f]{12}$/),
  ]);
  const restored = await open(`sqlite:${join(dataDirectory, 'service.db')}`);
  onTestFinished(() => restored.close());
  expect(await restored.users.count()).toBe(1);
});

test.each(['SQLite', 'PostgreSQL'])(
  'a restore that is refused beneath a server at work on %s takes none of the files that come meanwhile',
  async (database) => {
    if (database === 'PostgreSQL' && inject('postgresUrl') === null) return;
    const { folder, settings, start } = await install(database);
    const server = await start();
    const headers = { authorization: `Bearer ${server.key}` };
    const made: string[] = [];
    const upload = async () => {
      const body = new FormData();
      body.append('file', new Blob([`file ${made.length}`]), 'a.txt');
      const answer = await fetch(`${server.url}/api/v1/files`, { method: 'POST', headers, body });
      const { id }: Json = await answer.json();
      made.push(id);
    };
    for (let nth = 0; nth < 5; nth += 1) await upload();
    const copy = await createBackup(settings, join(folder, 'copy'));
    let uploading = true;
    const uploads = (async () => {
      while (uploading) await upload();
    })();
    for (let round = 0; round < 3; round += 1) {
      const before = made.length;
      await expect.poll(() => made.length).toBeGreaterThan(before);
      await expect(restoreBackup(settings, copy)).rejects.toThrow(/in use/);
    }
    uploading = false;
    await uploads;
    for (const [nth, id] of made.entries()) {
      const answer = await fetch(`${server.url}/api/v1/files/${id}/content`, { headers });
      expect(await answer.text()).toBe(`file ${nth}`);
    }
  },
);

const onPostgres = test.skipIf(inject('postgresUrl') === null);

onPostgres(
  'the role that owns the tables restores them beside an extension that a superuser made',
  async () => {
    const { url, migrationUrl, admin } = await twoRoles();
    await admin.raw('create extension vector');
    const dataDirectory = await temporaryFolder();
    const settings = { databaseUrl: url, databaseMigrationUrl: migrationUrl, dataDirectory };
    const store = await open(url, migrationUrl);
    await newAccount(store, 'Before');
    const copy = await createBackup(settings, join(dataDirectory, 'copy'));
    await newAccount(store, 'After');
    await store.close();

    await restoreBackup(settings, copy);
    const restored = await open(url, migrationUrl);
    onTestFinished(() => restored.close());
    expect(await restored.users.count()).toBe(1);
  },
);

onPostgres('a database is not restored beneath a server whose URL gives its connections a name', async () => {
  const { folder, settings, url } = await install('PostgreSQL');
  const store = await open(`${url}?application_name=shop`);
  await newAccount(store, 'Before');
  const copy = await createBackup(settings, join(folder, 'copy'));
  await newAccount(store, 'After');
  await expect(restoreBackup(settings, copy)).rejects.toThrow(/in use by servers/);
  expect(await store.users.count()).toBe(2);
  await store.close();
  await restoreBackup(settings, copy);
});
