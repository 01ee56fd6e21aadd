/** The audit log after a restore: it holds, says that it went back, and hides nothing that happened before or after. */
import { appendFile, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Knex } from 'knex';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { type Anchor, anchorFile, openStore, type Store, writeAnchor } from '../store/store.ts';
import { createBackup, restoreBackup, verifyAuditChain } from './maintenance.ts';
import { install, type TestInstallation, usePostgresPrograms } from './test-installation.ts';

beforeAll(usePostgresPrograms);

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  const here = test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null);

  here('it holds, and an entry names the head that was restored and the one before', async () => {
    const at = await installed(database);
    const { settings, copy, copied, lost } = await backedUp(at);
    await restoreBackup(settings, copy);
    expect((await verifyAuditChain(settings)).valid).toBe(true);
    const entry = await restoreIn(at);
    expect(entry).toMatchObject({ actor_type: 'system', target_type: 'audit_log', prev_hash: copied.hash });
    expect(JSON.parse(entry.before)).toEqual({ head: `${lost.sequence}:${lost.hash}` });
    expect(JSON.parse(entry.after)).toEqual({ head: `${copied.sequence}:${copied.hash}` });
    // Who has a head elsewhere is told that its entry is gone.
    expect((await verifyAuditChain(settings, [lost])).first_broken?.fault).toBe('truncated');
  });

  here('a server that starts then finds nothing amiss, and what is cut off later is missed', async () => {
    const at = await installed(database);
    const { settings, copy, copied, lost } = await backedUp(at);
    await restoreBackup(settings, copy);
    const server = await at.start();
    await server.stop();
    expect(server.log()).not.toContain('is not the one whose head was written down');
    await recordAndAnchor(at, 6);
    expect((await verifyAuditChain(settings)).valid).toBe(true);
    expect((await headIn(at)).sequence).toBeGreaterThan(lost.sequence);

    await cutOff(at, lost.sequence + 1);
    expect((await verifyAuditChain(settings)).first_broken?.fault).toBe('truncated');
    await cutOff(at, copied.sequence);
    expect((await verifyAuditChain(settings)).first_broken?.fault).toBe('truncated');
  });

  here('it holds after a second restore, of a copy that the first one had left behind', async () => {
    const at = await installed(database);
    const { settings, copy } = await backedUp(at);
    const second = await createBackup(settings, join(at.folder, 'second'));
    await recordAndAnchor(at, 1);
    await restoreBackup(settings, copy);
    await recordAndAnchor(at, 1);
    await restoreBackup(settings, second);
    await recordAndAnchor(at, 1);
    expect(await verifyAuditChain(settings)).toMatchObject({ valid: true, first_broken: null });
  });

  here('a log that was cut off before is no better for it', async () => {
    const at = await installed(database);
    const { settings, copy, copied } = await backedUp(at);
    await cutOff(at, copied.sequence + 1);
    await restoreBackup(settings, copy);
    expect((await verifyAuditChain(settings)).valid).toBe(false);
  });

  here('a restore that is said to have been counts neither by an entry nor by a line alone', async () => {
    const at = await installed(database);
    const { settings, copied } = await backedUp(at);
    await cutOff(at, copied.sequence);
    const { sequence, hash } = copied;
    await appendFile(anchorFile(settings.dataDirectory), `{"restored":"${sequence}:${hash}"}\n`);
    expect((await verifyAuditChain(settings)).first_broken?.fault).toBe('truncated');
    await record(at, 'audit.restore');
    expect((await verifyAuditChain(settings)).first_broken?.fault).toMatch(/truncated|rewritten/);
  });
});

test('it holds after its database was lost, and the entry names the last head that was written down', async () => {
  const at = await installed('SQLite');
  const { settings, copy, lost } = await backedUp(at);
  await rm(join(settings.dataDirectory, 'service.db'));
  await restoreBackup(settings, copy);
  expect((await verifyAuditChain(settings)).valid).toBe(true);
  const entry = await restoreIn(at);
  expect(JSON.parse(entry.before)).toEqual({ head: `${lost.sequence}:${lost.hash}` });
});

async function installed(database: string): Promise<TestInstallation> {
  const at = await install(database);
  await mkdir(at.settings.dataDirectory, { recursive: true });
  await recordAndAnchor(at, 2);
  return at;
}

/** A copy, its head, and the head of what came after it. */
async function backedUp(at: TestInstallation) {
  const copied = await headIn(at);
  const copy = await createBackup(at.settings, join(at.folder, 'copy'));
  await recordAndAnchor(at, 3);
  return { settings: at.settings, copy, copied, lost: await headIn(at) };
}

/** As a server does it, which writes the head down every hour. */
async function recordAndAnchor(at: TestInstallation, count: number): Promise<void> {
  for (let nth = 0; nth < count; nth += 1) await record(at, 'thing.change');
  await writeAnchor(anchorFile(at.settings.dataDirectory), await headIn(at), systemClock.now());
}

async function record(at: TestInstallation, action: 'thing.change' | 'audit.restore'): Promise<void> {
  await within(at, ({ auditLogs }) =>
    auditLogs.record(
      { userId: null },
      { action, target: { type: 'thing', id: null }, organizationId: null, after: { head: '1:x' } },
    ),
  );
}

/** The last entry, past the policies of PostgreSQL. */
async function restoreIn({ ask, settings }: TestInstallation) {
  return ask(async (sql) => {
    if (settings.databaseUrl) await sql.raw(`select set_config('service.organizations', '*', false)`);
    return sql('audit_entries').where({ action: 'audit.restore' }).first();
  });
}

function headIn(at: TestInstallation): Promise<Anchor> {
  return within(at, ({ auditLogs }) => auditLogs.head());
}

async function within<T>({ url }: TestInstallation, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(url, { clock: systemClock, log: createLog('silent') });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** As somebody does it who owns the database, and knows of the head. */
async function cutOff({ ask, settings }: TestInstallation, sequence: number): Promise<void> {
  await ask(async (sql) => {
    const putBack = await withoutTriggers(sql, settings.databaseUrl !== null);
    await sql('audit_entries').where('sequence', '>', sequence).delete();
    const last = await sql('audit_entries').where({ sequence }).first();
    await sql('audit_head').update({ sequence, hash: last.hash });
    await putBack();
  });
}

async function withoutTriggers(sql: Knex, onPostgres: boolean): Promise<() => Promise<void>> {
  if (onPostgres) {
    await sql.raw(`select set_config('service.organizations', '*', false)`);
    const all = async (what: string) => {
      for (const table of ['audit_entries', 'audit_head'])
        await sql.raw(`alter table ${table} ${what} trigger user`);
    };
    await all('disable');
    return () => all('enable');
  }
  const triggers = await sql('sqlite_master').where({ type: 'trigger' }).where('name', 'like', 'audit_%');
  for (const { name } of triggers) await sql.raw(`drop trigger ${name}`);
  return async () => {
    for (const { sql: statement } of triggers) await sql.raw(statement);
  };
}
