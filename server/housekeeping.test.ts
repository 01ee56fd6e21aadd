/** What a server forgets, and when, by a clock that the test turns, on both databases; and what it does every hour. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import knex, { type Knex } from 'knex';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { forgetTheOld } from './housekeeping.ts';
import { createFileLog, createLog } from './log.ts';
import { readServerSettings } from './server-settings/server-settings.ts';
import { type Account, type Json, type TestApp, testApp } from './test-app.ts';
import { lastingDatabase, newDatabase, newMasterKey } from './test-database.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  const here = test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null);

  here('events of a run are replayed for seven days after its end; its messages stay', async () => {
    const { app, clock, sweep } = await scene(database);
    const token = app.operatorKey;
    await app.request('POST', '/api/v1/query', { token, body: { prompt: 'hello' } });
    const [run] = (await app.request('GET', '/api/v1/runs', { token })).body.data;
    const replay = async () =>
      (await app.request('GET', `/api/v1/runs/${run.id}/events?follow=false`, { token })).status;
    clock.set(Date.parse(run.ended_at) + 7 * dayMs - hourMs);
    await sweep();
    expect(await replay()).toBe(200);
    clock.set(Date.parse(run.ended_at) + 7 * dayMs + hourMs);
    await sweep('--retention-events-days', '8');
    expect(await replay()).toBe(200);
    await sweep();
    expect(await replay()).toBe(410);
    const messages = await app.request('GET', `/api/v1/sessions/${run.session_id}/messages`, { token });
    expect(messages.body.data.length).toBeGreaterThan(1);
  });

  here('a process that never lives for an hour forgets what is old, too', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'service-house-'));
    const kept = await lastingDatabase(database === 'SQLite' ? 'sqlite' : 'postgresql', folder);
    const settings = { databaseUrl: kept.url, masterKeyFile: await newMasterKey(folder) };
    const opened: TestApp[] = [];
    let ahead = 0;
    const clock = { now: () => new Date(Date.now() + ahead) };
    const start = async () => {
      const app = await testApp({ clock, settings });
      opened.push(app);
      return app;
    };
    onTestFinished(async () => {
      for (const app of opened) await app.close();
      await kept.remove();
      await rm(folder, { recursive: true });
    });
    const first = await start();
    const token = first.operatorKey;
    await first.request('POST', '/api/v1/query', { token, body: { prompt: 'hello' } });
    const [run] = (await first.request('GET', '/api/v1/runs', { token })).body.data;
    const events = `/api/v1/runs/${run.id}/events?follow=false`;
    expect((await first.request('GET', events, { token })).status).toBe(200);
    await opened.pop()?.close();
    ahead = 8 * dayMs;
    const second = await start();
    await expect.poll(async () => (await second.request('GET', events, { token })).status).toBe(410);
  });

  here('the folders of deleted workspaces go, also where they could not at first', async () => {
    const { app, sweep, sql } = await scene(database);
    const { workspaceFolders, settings } = app.services;
    const headers = { 'if-match': '*' };
    const [ada, grace, mallory] = [
      await app.register('ada'),
      await app.register('grace'),
      await app.register('mallory'),
    ];
    const workspacesOf = async ({ token }: Account): Promise<Json[]> =>
      (await app.request('GET', '/api/v1/workspaces', { token })).body.data;
    const [home] = await workspacesOf(ada);
    const { body: more } = await app.request('POST', '/api/v1/workspaces', {
      ...{ token: ada.token, body: { name: 'More' } },
    });
    const kept = [home, ...(await workspacesOf(mallory))].map(({ id }) => id);
    const [hers] = await workspacesOf(grace);
    for (const id of [...kept, more.id, hers.id]) await workspaceFolders.open(id);
    const { remove } = workspaceFolders;
    const away = vi.spyOn(workspaceFolders, 'remove').mockRejectedValue(new Error('stale file handle'));
    for (const [path, token] of [
      [`/api/v1/workspaces/${more.id}`, ada.token],
      [`/api/v1/users/${grace.user.id}`, app.operatorKey],
    ] as const)
      expect(await app.request('DELETE', path, { token, headers })).toMatchObject({ status: 204 });
    expect(away).toHaveBeenCalledTimes(2);
    const folders = async () => (await readdir(settings.workspacesDirectory)).sort();
    expect(await folders()).toEqual([...kept, more.id, hers.id].sort());
    // More than are looked at together stay, and come before the others.
    const stuck = Array.from({ length: 1000 }, (_, index) => ({
      id: `0-${index}`,
      organization_id: 'org_0',
    }));
    await sql.batchInsert('deleted_workspaces', stuck, 100);
    away.mockImplementation(async (id) => {
      if (id.startsWith('0-')) throw new Error('stale file handle');
      await remove(id);
    });
    await sweep();
    expect(await folders()).toEqual(kept.sort());
    expect(await sql('deleted_workspaces')).toHaveLength(stuck.length);
    away.mockRestore();
    await sweep();
    expect(await sql('deleted_workspaces')).toEqual([]);
  });

  here('each thing is kept as long as its setting says, and no longer', async () => {
    const { app, clock, sweep, sql } = await scene(database);
    const headers = { 'idempotency-key': 'once' };
    const token = app.operatorKey;
    await app.request('POST', '/api/v1/query', { token, headers, body: { prompt: 'hello' } });
    const { user } = await app.register('ada');
    const { store } = app.services;
    await store.loginAddresses.remember(user.id, '192.0.2.7');
    const expiresAt = new Date(clock.now().getTime() + dayMs);
    await store.invitations.add({ kind: 'invitation', hash: 'h', expiresAt });
    const kept: readonly (readonly [string, string, number, number?])[] = [
      ['kept_requests', 'created_at', 1],
      ['logins', 'expires_at', 30],
      ['invitations', 'expires_at', 30],
      ['login_addresses', 'last_used_at', 90],
      ['audit_entries', 'created_at', 400],
      ['usage_days', 'day', 731, dayMs],
      ['usage_counters', 'day', 731, dayMs],
    ];
    const due: { readonly table: string; readonly at: number }[] = [];
    for (const [table, column, days, unit = 1] of kept) {
      const times = await sql(table).pluck(column);
      expect(times.length, table).toBeGreaterThan(0);
      due.push({ table, at: Math.max(...times.map(Number)) * unit + days * dayMs });
    }
    const count = async (table: string) => Number((await sql(table).count({ count: '*' }))[0]?.count);
    const before = await count('audit_entries');
    const together = [...Map.groupBy(due, ({ at }) => at)].toSorted(([one], [other]) => one - other);
    for (const [at, tables] of together) {
      clock.set(at - hourMs);
      await sweep();
      for (const { table } of tables) expect(await count(table), `${table} is kept`).toBeGreaterThan(0);
      // Days end later than any hour of them.
      clock.set(at + dayMs + hourMs);
      await sweep();
      for (const { table } of tables)
        if (table !== 'audit_entries') expect(await count(table), `${table} is gone`).toBe(0);
    }
    expect(await count('refresh_tokens')).toBe(0);
    // What is left says that the others went.
    const entries: { action: string }[] = await sql('audit_entries').orderBy('sequence');
    expect(entries.length).toBeLessThan(before);
    expect(entries.at(-1)?.action).toBe('audit.prune');
    expect(await store.auditLogs.verify('installation', [])).toMatchObject({ valid: true });
  });

  here('the audit log is kept for good where its setting is 0', async () => {
    const { clock, sweep, sql } = await scene(database);
    const entries = await sql('audit_entries');
    expect(entries.length).toBeGreaterThan(0);
    clock.set(clock.now().getTime() + 1500 * dayMs);
    await sweep('--retention-audit-days', '0');
    expect(await sql('audit_entries')).toEqual(entries);
  });
});

test('each hour the head of the audit log is written to the log, and what is old goes', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'service-house-'));
  const file = join(folder, 'server.log');
  const timers = vi.spyOn(globalThis, 'setInterval');
  const app = await testApp({ log: createFileLog(file) });
  const hourly = timers.mock.calls.flatMap(([callback, ms]) => (ms === hourMs ? [callback] : []));
  timers.mockRestore();
  onTestFinished(async () => {
    await app.close();
    await rm(folder, { recursive: true });
  });
  const lines = async (text: string) =>
    (await readFile(file, 'utf8')).split('\n').filter((line) => line.includes(text));
  const heads = () => lines('the head of the audit log');
  expect(await heads()).toHaveLength(1);
  await app.register('ada');
  const expiresAt = new Date(Date.now() - 31 * dayMs);
  await app.services.store.invitations.add({ kind: 'invitation', hash: 'h', expiresAt });
  const { sequence, hash } = await app.services.store.auditLogs.head();
  expect(hourly).toHaveLength(1);
  hourly[0]?.();
  await expect.poll(heads).toHaveLength(2);
  expect((await heads())[1]).toContain(`"sequence":${sequence},"hash":"${hash}"`);
  await expect.poll(() => lines('"forgotten":{"invitations":1}')).toHaveLength(1);
});

test('what takes longer than an hour is not begun once more beside itself', async () => {
  const timers = vi.spyOn(globalThis, 'setInterval');
  const app = await testApp({ log: createLog('silent') });
  const [hourly] = timers.mock.calls.flatMap(([callback, ms]) => (ms === hourMs ? [callback] : []));
  timers.mockRestore();
  onTestFinished(() => app.close());
  const held = Promise.withResolvers<number>();
  const prune = vi.spyOn(app.services.store.runs, 'pruneEvents').mockReturnValueOnce(held.promise);
  hourly?.();
  hourly?.();
  // What it did at its start may still be under way, and be the one that is held.
  await expect.poll(() => prune.mock.calls.length).toBe(1);
  held.resolve(0);
  await expect.poll(() => prune.mock.calls.length).toBeGreaterThan(1);
});

interface Scene {
  readonly app: TestApp;
  readonly clock: { now(): Date; set(milliseconds: number): void };
  readonly sql: Knex;
  /** With the settings that these flags say. */
  readonly sweep: (...flags: string[]) => Promise<void>;
}

async function scene(database: string): Promise<Scene> {
  const folder = await mkdtemp(join(tmpdir(), 'service-house-'));
  // The database lets nothing of the audit log go that is young by its own clock: this one begins long ago.
  let now = Date.now() - 2000 * dayMs;
  const clock = {
    now: () => new Date(now),
    set: (milliseconds: number) => {
      now = milliseconds;
    },
  };
  const databaseUrl = database === 'PostgreSQL' ? await newDatabase() : null;
  const shared = databaseUrl && { databaseUrl, masterKeyFile: await newMasterKey(folder) };
  const app = await testApp({ clock, log: createLog('silent'), settings: { ...shared } });
  const sql = knex(
    databaseUrl
      ? { client: 'pg', connection: databaseUrl, pool: { min: 0, max: 1 } }
      : {
          client: 'sqlite3',
          connection: { filename: join(app.services.settings.dataDirectory, 'service.db') },
          useNullAsDefault: true,
        },
  );
  onTestFinished(async () => {
    await sql.destroy();
    await app.close();
    await rm(folder, { recursive: true });
  });
  const sweep = (...flags: string[]) =>
    forgetTheOld(app.services, readServerSettings(flags, { HOME: folder }).settings);
  return { app, clock, sql, sweep };
}
