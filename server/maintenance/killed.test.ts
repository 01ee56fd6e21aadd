/** Migrations, restores and changes of the master key that are killed half-way: the next one finds old or new, never between. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import knex from 'knex';
import { beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { nameOwner } from '../process-name.ts';
import { schemaVersion } from '../store/migrate.ts';
import { openStore } from '../store/store.ts';
import type { Json } from '../test-app.ts';
import { createBackup, restoreBackup, rotateMasterKey } from './maintenance.ts';
import {
  install,
  newestTable,
  type TestInstallation,
  undoNewestSteps,
  usePostgresPrograms,
} from './test-installation.ts';

const command = join(import.meta.dirname, '../../clients/terminal/start.mjs');

beforeAll(usePostgresPrograms);

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  const here = test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null);

  here(
    'a first start that is killed in its migration leaves nothing, and the next one does all of it',
    async () => {
      for (const step of [1, 7, schemaVersion]) {
        const installation = await install(database);
        expect(await openUntilKilled(installation, step)).toBe('SIGKILL');
        expect(await installation.ask((sql) => sql.schema.hasTable('schema_versions'))).toBe(false);
        expect(await installation.ask((sql) => sql.schema.hasTable('users'))).toBe(false);
        await openToEnd(installation);
        expect(await steps(installation)).toHaveLength(schemaVersion);
      }
    },
  );

  here(
    'an upgrade that is killed leaves the older database as it was, copied, and the next start does it',
    async () => {
      const installation = await install(database);
      await openToEnd(installation);
      const complete = await steps(installation);
      await undoNewestSteps(installation);
      const older = await steps(installation);
      // The time of the copy is asked for first, and that of the step when all of it is done.
      expect(await openUntilKilled(installation, 2)).toBe('SIGKILL');
      expect(await steps(installation)).toEqual(older);
      expect(await installation.ask((sql) => sql.schema.hasTable(newestTable))).toBe(false);
      await openToEnd(installation);
      expect(await steps(installation)).toEqual(complete);
      const copies = await readdir(join(installation.settings.dataDirectory, 'backups'));
      expect(copies.filter((name) => name.startsWith('before-migration-from-'))).toHaveLength(1);
      for (const name of copies)
        await restoreBackup(
          installation.settings,
          join(installation.settings.dataDirectory, 'backups', name),
        );
      expect(await steps(installation)).toEqual(older);
    },
  );

  here('upgrades that fail or are killed again and again leave one copy at most, and no draft', async () => {
    const installation = await install(database);
    const backups = join(installation.settings.dataDirectory, 'backups');
    const left = async () => {
      const names = await readdir(backups);
      const drafts = names.filter((name) => name.startsWith('.'));
      return { copies: names.length - drafts.length, drafts: drafts.length };
    };
    await openToEnd(installation);
    await undoNewestSteps(installation);
    for (const _ of [1, 2]) {
      expect(await openUntilKilled(installation, 'in the copy')).toBe('SIGKILL');
      expect((await left()).drafts).toBe(1);
      expect(await openUntilKilled(installation, 2)).toBe('SIGKILL');
      expect(await left()).toEqual({ copies: 1, drafts: 0 });
    }
    await installation.ask((sql) => sql.schema.createTable(newestTable, (table) => table.text('in_the_way')));
    await expect(openToEnd(installation)).rejects.toThrow();
    expect(await left()).toEqual({ copies: 0, drafts: 0 });
    await installation.ask((sql) => sql.schema.dropTable(newestTable));
    await openToEnd(installation);
    expect(await left()).toEqual({ copies: 1, drafts: 0 });
  });

  here(
    'what a restore that is killed leaves of files goes with the next sweep, or the next restore',
    async () => {
      const installation = await install(database);
      const { settings, folder, start, ask } = installation;
      const server = await start();
      const headers = { authorization: `Bearer ${server.key}` };
      const upload = async (text: string): Promise<string> => {
        const body = new FormData();
        body.append('file', new Blob([text]), 'a.txt');
        const answer = await fetch(`${server.url}/api/v1/files`, { method: 'POST', headers, body });
        const { id }: Json = await answer.json();
        return ask((sql) =>
          sql('files')
            .where({ id })
            .first('object_key')
            .then((row) => row.object_key),
        );
      };
      const old = await upload('in the copy alone');
      const copy = await createBackup(settings, join(folder, 'copy'));
      const [{ id }] = await ask((sql) => sql('files').select('id'));
      await fetch(`${server.url}/api/v1/files/${id}`, { method: 'DELETE', headers });
      const newer = await upload('in the database alone');
      await server.stop();

      expect(await restoreUntilKilled(installation, copy, 'before its database')).toBe('SIGKILL');
      expect(await left(installation)).toMatchObject({ objects: [old, newer].sort() });
      await sweepFiles(installation);
      expect(await left(installation)).toEqual({ objects: [newer], others: [] });
      expect(await restoreUntilKilled(installation, copy, 'behind its database')).toBe('SIGKILL');
      expect(await left(installation)).toMatchObject({ objects: [old, newer].sort() });
      await sweepFiles(installation);
      expect(await left(installation)).toEqual({ objects: [old], others: [] });

      expect(await restoreUntilKilled(installation, copy, 'before its database')).toBe('SIGKILL');
      await restoreBackup(settings, copy);
      expect(await left(installation)).toEqual({ objects: [old], others: [] });
    },
  );

  here('a change of the master key that is killed goes on later; both keys open meanwhile', async () => {
    const installation = await install(database);
    const { settings, start, variables } = installation;
    const keyFile = settings.masterKeyFile ?? join(settings.dataDirectory, 'master.key');
    const server = await start();
    const post = async (url: string, key: string) => {
      const headers = {
        authorization: `Bearer ${server.key}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      };
      const response = await fetch(`${url}/api/v1/sessions`, { method: 'POST', headers, body: '{}' });
      return `${response.status} ${await response.text()}`;
    };
    const before = await post(server.url, 'before');
    expect(before).toMatch(/^201 /);
    const keys = async () => (await readFile(keyFile, 'utf8')).trim().split('\n');
    const [oldKey] = await keys();

    const env = { PATH: process.env.PATH, HOME: installation.folder, ...variables };
    const rotation = spawn(process.execPath, [command, 'rotate-master-key'], { env, stdio: 'ignore' });
    const ended = once(rotation, 'exit');
    await expect.poll(async () => (await keys()).length, { interval: 5 }).toBe(2);
    rotation.kill('SIGKILL');
    expect((await ended)[1]).toBe('SIGKILL');

    const [newKey, other] = await keys();
    expect(other).toBe(oldKey);
    const second = await start();
    const between = await post(second.url, 'between');
    for (const { url } of [server, second]) {
      expect(await post(url, 'before')).toBe(before);
      expect(await post(url, 'between')).toBe(between);
    }
    await rotateMasterKey(settings);
    expect(await keys()).toEqual([newKey]);
    for (const { url } of [server, second]) {
      expect(await post(url, 'before')).toBe(before);
      expect(await post(url, 'between')).toBe(between);
    }
  });
});

test('what a backup that is killed leaves goes with the next one, and that of a backup at work stays', async () => {
  const installation = await install('SQLite');
  const { settings, url } = installation;
  await openToEnd(installation);
  const folder = join(settings.dataDirectory, 'backups');
  const files = join(settings.dataDirectory, 'files');
  const killed = await runUntilKilled(`
    ${killedInCopy}
    import { backUp } from ${JSON.stringify(import.meta.resolve('../store/store.ts'))};
    import { createLog } from ${JSON.stringify(import.meta.resolve('../log.ts'))};
    const target = ${JSON.stringify(join(folder, 'killed.db'))};
    await backUp(${JSON.stringify(url)}, target, createLog('silent'), ${JSON.stringify(files)});`);
  expect(killed).toBe('SIGKILL');
  const [draft = ''] = await readdir(folder);
  expect(draft).toMatch(/^\.killed\.db~/);
  await mkdir(join(folder, `${draft}.files`), { recursive: true });
  const atWork = `.other.db~${encodeURIComponent(nameOwner())}`;
  await writeFile(join(folder, atWork), '');
  await createBackup(settings, join(folder, 'whole.db'));
  expect((await readdir(folder)).sort()).toEqual([atWork, 'whole.db']);
});

test('a backup that is killed between its files and its copy is as if it had not been: the next one takes its name', async () => {
  const { settings, folder, start, url } = await install('SQLite');
  const server = await start();
  const body = new FormData();
  body.append('file', new Blob(['kept']), 'a.txt');
  const headers = { authorization: `Bearer ${server.key}` };
  await fetch(`${server.url}/api/v1/files`, { method: 'POST', headers, body });
  await server.stop();
  const place = join(folder, 'copies');
  const target = join(place, 'copy');
  const killed = await runUntilKilled(`
    import promises from 'node:fs/promises';
    import { syncBuiltinESMExports } from 'node:module';
    const { link } = promises;
    promises.link = (from, to) => to === ${JSON.stringify(target)} ? process.kill(process.pid, 'SIGKILL') : link(from, to);
    syncBuiltinESMExports();
    const { backUp } = await import(${JSON.stringify(import.meta.resolve('../store/store.ts'))});
    const { createLog } = await import(${JSON.stringify(import.meta.resolve('../log.ts'))});
    await backUp(${JSON.stringify(url)}, ${JSON.stringify(target)}, createLog('silent'), ${JSON.stringify(join(settings.dataDirectory, 'files'))});`);
  expect(killed).toBe('SIGKILL');
  expect(await readdir(place)).toContain('copy.files');
  // As an operator leaves it who has moved the copy away, and will move its files.
  await mkdir(join(place, 'moved.files'));
  await createBackup(settings, target);
  expect((await readdir(place)).sort()).toEqual(['copy', 'copy.files', 'moved.files']);
  expect(await readdir(join(place, 'copy.files'))).toEqual(['objects']);
  expect(await restoreBackup(settings, target)).toBe(0);
});

const onPostgres = test.skipIf(inject('postgresUrl') === null);

onPostgres('a restore that is killed leaves the database as it was, and the next one does it', async () => {
  const installation = await install('PostgreSQL');
  const { settings, folder, variables, ask } = installation;
  await openToEnd(installation);
  const copy = await createBackup(settings, join(folder, 'copy'));
  await ask((sql) => sql('invitations').insert(invitation('written since')));

  const holder = knex({ client: 'pg', connection: installation.url, pool: { min: 0, max: 1 } });
  onTestFinished(() => holder.destroy());
  const holding = await holder.transaction();
  // The restore has dropped other tables by the time it comes to this one, and waits there.
  await holding.raw('lock table workspaces in access share mode');
  const env = { PATH: process.env.PATH, HOME: folder, ...variables };
  const restoring = spawn(process.execPath, [command, 'restore', copy], { env, stdio: 'ignore' });
  const ended = once(restoring, 'exit');
  const waiting = () =>
    holding.raw(
      `select count(*)::int as count from pg_locks where not granted and relation = 'workspaces'::regclass`,
    );
  await expect.poll(async () => (await waiting()).rows[0].count).toBe(1);
  restoring.kill('SIGKILL');
  expect((await ended)[1]).toBe('SIGKILL');
  await holding.commit();
  const sessions = () =>
    ask((sql) =>
      sql('pg_stat_activity').where({ application_name: 'psql' }).whereRaw('datname = current_database()'),
    );
  await expect.poll(sessions).toEqual([]);

  expect(await ask((sql) => sql('invitations').pluck('hash'))).toEqual(['written since']);
  await openToEnd(installation);
  await restoreBackup(settings, copy);
  expect(await ask((sql) => sql('invitations'))).toEqual([]);
  await openToEnd(installation);
});

onPostgres('a restore that fails in the middle says why, and changes nothing', async () => {
  const installation = await install('PostgreSQL');
  const { settings, folder, ask } = installation;
  await openToEnd(installation);
  const copy = await createBackup(settings, join(folder, 'copy'));
  await ask((sql) => sql('invitations').insert(invitation('written since')));
  await ask((sql) =>
    sql.raw(`create schema elsewhere;
      create function elsewhere.fail() returns event_trigger language plpgsql as
        $$ begin raise exception 'there is no room for an index'; end $$;
      create event trigger fail on ddl_command_end when tag in ('CREATE INDEX') execute function elsewhere.fail()`),
  );
  await expect(restoreBackup(settings, copy)).rejects.toThrow(
    /psql failed: .*there is no room for an index/s,
  );
  const programs = process.env.PATH;
  onTestFinished(() => void vi.stubEnv('PATH', programs));
  vi.stubEnv('PATH', '/nowhere');
  await expect(restoreBackup(settings, copy)).rejects.toThrow(
    /pg_restore cannot be run: install the client programs of PostgreSQL/,
  );
  expect(await ask((sql) => sql('invitations').pluck('hash'))).toEqual(['written since']);
});

onPostgres(
  'without pg_dump an older database is not migrated, and the message says how to go on',
  async () => {
    const installation = await install('PostgreSQL');
    await openToEnd(installation);
    await undoNewestSteps(installation);
    const older = await steps(installation);
    const programs = process.env.PATH;
    vi.stubEnv('PATH', '/nowhere');
    onTestFinished(() => void vi.stubEnv('PATH', programs));
    await expect(openToEnd(installation)).rejects.toThrow(
      /could not be copied before \(pg_dump cannot be run: install the client programs of PostgreSQL.*SERVICE_MIGRATION_BACKUP=false/,
    );
    expect(await steps(installation)).toEqual(older);
  },
);

function invitation(hash: string) {
  return { id: `inv_${hash}`, hash, kind: 'invitation', created_at: 0, expires_at: 0 };
}

async function openToEnd({ url, settings }: TestInstallation): Promise<void> {
  const backups = join(settings.dataDirectory, 'backups');
  await (await openStore(url, { clock: systemClock, log: createLog('silent'), backups })).close();
}

/** A copy is made private once it is written, and before it is brought in place. */
const killedInCopy = `
  import promises from 'node:fs/promises';
  import { syncBuiltinESMExports } from 'node:module';
  promises.chmod = () => process.kill(process.pid, 'SIGKILL');
  syncBuiltinESMExports();`;

/** Another process, which kills itself when it asks for the time so often: once for each step, when all of it is done. */
async function openUntilKilled(
  { url, settings }: TestInstallation,
  asked: number | 'in the copy',
): Promise<string | null> {
  await mkdir(settings.dataDirectory, { recursive: true });
  return runUntilKilled(`
    ${asked === 'in the copy' ? killedInCopy : ''}
    import { openStore } from ${JSON.stringify(import.meta.resolve('../store/store.ts'))};
    import { createLog } from ${JSON.stringify(import.meta.resolve('../log.ts'))};
    let asked = 0;
    const now = () => {
      asked += 1;
      if (asked === ${Number(asked)}) process.kill(process.pid, 'SIGKILL');
      return new Date();
    };
    const backups = ${JSON.stringify(join(settings.dataDirectory, 'backups'))};
    await openStore(${JSON.stringify(url)}, { clock: { now }, log: createLog('silent'), backups });`);
}

async function restoreUntilKilled(
  { url, settings }: TestInstallation,
  copy: string,
  moment: 'before its database' | 'behind its database',
): Promise<string | null> {
  const places = {
    anchors: join(settings.dataDirectory, 'audit-anchors.jsonl'),
    files: join(settings.dataDirectory, 'files'),
  };
  // Once the database is in place, the first that goes is what it was brought in by, or a file that it does not name.
  return runUntilKilled(`
    import promises from 'node:fs/promises';
    import { syncBuiltinESMExports } from 'node:module';
    import { systemClock } from ${JSON.stringify(import.meta.resolve('../clock.ts'))};
    import { createLog } from ${JSON.stringify(import.meta.resolve('../log.ts'))};
    import { restore } from ${JSON.stringify(import.meta.resolve('../store/store.ts'))};
    const end = () => process.kill(process.pid, 'SIGKILL');
    const behind = ${moment === 'behind its database'};
    if (behind) promises.rm = end;
    syncBuiltinESMExports();
    const means = { clock: systemClock, log: createLog('silent'), check: behind ? () => undefined : end };
    await restore(${JSON.stringify(url)}, ${JSON.stringify(copy)}, { ...means, ...${JSON.stringify(places)} });`);
}

/** The objects on disk, and what else names a process that was at work. */
async function left({ settings: { dataDirectory } }: TestInstallation) {
  const names = (await readdir(dataDirectory, { recursive: true })).map((path) => basename(path));
  return {
    objects: names.filter((name) => name.startsWith('obj_')).sort(),
    others: names
      .filter((name) => name.includes('~'))
      .map((name) => name.split('~')[0])
      .sort(),
  };
}

/** As a server does it every hour. */
async function sweepFiles({ url, settings }: TestInstallation): Promise<void> {
  const storage = {
    directory: join(settings.dataDirectory, 'files'),
    means: () => Promise.reject(new Error('there is no bucket')),
  };
  const store = await openStore(url, { clock: systemClock, log: createLog('silent'), storage });
  await store.files.sweep(new Date());
  await store.close();
}

async function runUntilKilled(program: string): Promise<string | null> {
  const flags = ['--input-type=module-typescript', '--eval', program];
  const child = spawn(process.execPath, flags, { stdio: ['ignore', 'ignore', 'inherit'] });
  const [, signal] = await once(child, 'exit');
  return signal;
}

async function steps({ ask }: TestInstallation): Promise<string[]> {
  return ask((sql) => sql('schema_versions').orderBy('version').pluck('name'));
}
