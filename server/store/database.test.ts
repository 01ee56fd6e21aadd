import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Knex } from 'knex';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { lastingPort } from '../../contract-tests/lasting-port.ts';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { createDatabase } from '../test-database.ts';
import { type Database, databaseLimits } from './database.ts';
import { schemaVersion } from './migrate.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';
import { openStore, type Reach } from './store.ts';
import { patiently } from './test-patience.ts';
import { describeStore, describeStores, newAccount, newSqliteFile } from './test-stores.ts';

const log = createLog('silent');

describeStores('The database', (store, engine) => {
  const openDatabase = (): Database =>
    engine.dialect === 'sqlite'
      ? openSqlite(engine.url().replace('sqlite:', ''), log)
      : openPostgres(engine.url(), log);

  it('says which one it is, and that it answers', async () => {
    expect(store().dialect).toBe(engine.dialect);
    await expect(store().ping()).resolves.toBeUndefined();
  });

  it('refuses writers beyond a bound, says how many there are, and stores what a run at work has all the same', async () => {
    const database = openDatabase();
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
    const count = (sql: Knex) => sql('users').count({ count: '*' });
    const writers = Array.from({ length: databaseLimits.writes }, () =>
      database.write('installation', async (sql) => {
        await held;
        return count(sql);
      }),
    );
    expect(database.load()).toEqual({ reads: 0, writes: databaseLimits.writes });
    await expect(database.write('installation', count)).rejects.toMatchObject({
      code: 'database_unavailable',
      headers: { 'Retry-After': '2' },
    });
    const ofRun = database.writeOfRun(count);
    letGo();
    await Promise.all([...writers, ofRun]);
    expect(database.load()).toEqual({ reads: 0, writes: 0 });
    await expect(database.write('installation', count)).resolves.toHaveLength(1);
    await database.close();
  });

  it('ends what is under way when it closes, and refuses at once what would begin', async () => {
    const database = openDatabase();
    const count = (sql: Knex) => sql('users').count({ count: '*' });
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
    const atWork = [database.read('installation', twice), database.write('installation', twice)];
    const closed = database.close();
    const begun = [
      database.read('installation', count),
      database.write('installation', count),
      database.writeOfRun(count),
      database.count(count),
    ];
    for (const refused of begun)
      await expect(refused).rejects.toMatchObject({ code: 'database_unavailable' });
    letGo();
    await expect(Promise.all(atWork)).resolves.toHaveLength(2);
    await closed;
    async function twice(sql: Knex): Promise<unknown> {
      await count(sql);
      await held;
      return count(sql);
    }
  });

  it('is the same after it was opened again', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, { title: 'kept' });
    const again = await engine.open();
    expect((await again.sessions.find(reach, session.id))?.session).toEqual(session);
  });

  it('is migrated once by many that open it at once', async () => {
    const isSqlite = engine.dialect === 'sqlite';
    const { url, remove } = isSqlite ? await newSqliteFile() : await createDatabase('nothing');
    onTestFinished(remove);
    const open = () => openStore(url, { clock: engine.clock, log });
    const stores = await Promise.all(Array.from({ length: 5 }, open));
    for (const one of stores) onTestFinished(() => one.close());
    for (const one of stores) await patiently(() => one.ping());
    const database = isSqlite ? openSqlite(url.replace('sqlite:', ''), log) : openPostgres(url, log);
    onTestFinished(() => database.close());
    const versions = await database.read('installation', (sql) =>
      sql('schema_versions').orderBy('version').pluck('name'),
    );
    expect(versions.slice(0, 2)).toEqual(['accounts', 'sessions']);
    expect(versions).toHaveLength(schemaVersion);
  });

  it('of a newer version is refused with a message that helps, and not touched', async () => {
    await engine.sql()('schema_versions').insert({ version: 99, name: 'later', applied_at: 0 });
    const refused = openStore(engine.url(), { clock: engine.clock, log });
    await expect(refused).rejects.toMatchObject({
      name: 'NewerDatabase',
      message: expect.stringMatching(
        RegExp(`newer version of service.*schema is 99.*knows ${schemaVersion}\\. Start that newer version`),
      ),
    });
    await engine.sql()('schema_versions').where({ version: 99 }).delete();
    await expect(engine.open()).resolves.toBeDefined();
  });

  it('of another line of development is refused by the step that differs, and not touched', async () => {
    const rename = (name: string) =>
      engine.sql()('schema_versions').where({ version: schemaVersion }).update({ name });
    const versions = () => engine.sql()('schema_versions').orderBy('version').pluck('name');
    const names = await versions();
    await rename('something-else');
    const refused = openStore(engine.url(), { clock: engine.clock, log });
    await expect(refused).rejects.toThrow(
      `another development of service: its step ${schemaVersion} is something-else`,
    );
    expect(await versions()).toEqual([...names.slice(0, -1), 'something-else']);
    await rename(names.at(-1) ?? '');
    await expect(engine.open()).resolves.toBeDefined();
  });

  it('has all that was acknowledged before a process was killed, and nothing half', async () => {
    const reach = await newAccount(store());
    const child = writeUntilKilled(engine.url(), reach);
    const acknowledged: string[] = [];
    for await (const id of createInterface({ input: child.stdout })) {
      acknowledged.push(id);
      if (acknowledged.length === 60) child.kill('SIGKILL');
    }
    const again = await engine.open();
    for (const id of acknowledged)
      expect((await again.sessions.find(reach, id))?.session.tags).toEqual(['a', 'b']);
    const [half] = await engine
      .sql()('sessions')
      .leftJoin('session_tags', 'session_tags.session_id', 'sessions.id')
      .where({ 'sessions.title': 'killed', 'session_tags.tag': null })
      .count({ count: '*' });
    expect(Number(half?.count)).toBe(0);
    expect(acknowledged.length).toBeGreaterThanOrEqual(60);
  });

  it('undoes a transaction that throws, also when it has written before', async () => {
    const database = openDatabase();
    const invitation = { kind: 'invitation', created_at: 0, expires_at: 0 };
    const insert = (sql: Knex) => sql('invitations').insert({ ...invitation, id: 'undone', hash: 'undone' });
    const failed = database.write('installation', async (sql) => {
      await insert(sql);
      throw new TypeError('after the write');
    });
    await expect(failed).rejects.toThrow(new TypeError('after the write'));
    const doubled = database.write('installation', async (sql) => {
      await insert(sql);
      await insert(sql);
    });
    await expect(doubled).rejects.toThrow(/unique/i);
    expect(await engine.sql()('invitations').where({ hash: 'undone' })).toEqual([]);
    await database.write('installation', insert);
    expect(await engine.sql()('invitations').where({ hash: 'undone' })).toHaveLength(1);
    await database.close();
  });

  it('quotes no bound value when a statement fails: it may be a secret', async () => {
    const database = openDatabase();
    const row = { id: 'i', hash: 'a-secret', kind: 'unknown kind', created_at: 0, expires_at: 0 };
    const failure = await database
      .write('installation', (sql) => sql('invitations').insert(row))
      .catch((error: Error) => error);
    expect(failure).toBeInstanceOf(Error);
    expect(String(failure)).toContain('insert into');
    expect(String(failure)).not.toContain('a-secret');
    await database.close();
  });

  it('keeps every reference whole', async () => {
    const reach = await newAccount(store());
    const row = { organization_id: 'org_none', user_id: reach.userId, role: 'owner', created_at: 0 };
    const database = openDatabase();
    await expect(
      database.write('installation', (sql) => sql('memberships').insert(row)),
    ).rejects.toMatchObject({ code: 'not_found', cause: { message: expect.stringMatching(/foreign key/i) } });
    // What others refer to is a mistake of ours to delete.
    await engine.sql().raw('create table owners (id text primary key)');
    await engine.sql().raw('create table owned (id text primary key references owners (id))');
    if (engine.dialect === 'postgresql') await engine.sql().raw('grant all on owners to public');
    await engine.sql()('owners').insert({ id: 'one' });
    await engine.sql()('owned').insert({ id: 'one' });
    const deleted = database.write('installation', (sql) => sql('owners').delete());
    await expect(deleted).rejects.toThrow(/foreign key/i);
    await engine.sql().raw('drop table owned');
    await engine.sql().raw('drop table owners');
    await database.close();
    if (engine.dialect !== 'sqlite') return;
    expect(await engine.sql().raw('pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    expect(await engine.sql().raw('pragma foreign_key_check')).toEqual([]);
  });
});

describe('SQLite', () => {
  const folder = mkdtempSync(join(tmpdir(), 'service-sqlite-'));
  const file = join(folder, 'new', 'service.db');
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('is made in a folder and a file that only their owner can read', async () => {
    const database = openSqlite(file, log);
    await database.write('installation', (sql) =>
      sql.schema.createTable('notes', (table) => table.text('body')),
    );
    expect(statSync(join(folder, 'new')).mode & 0o777).toBe(0o700);
    for (const name of [file, `${file}-wal`, `${file}-shm`]) expect(statSync(name).mode & 0o777).toBe(0o600);
    await database.close();
  });

  it('writes ahead and checks references on each connection', async () => {
    const database = openSqlite(file, log);
    const read = (sql: Knex) =>
      sql.raw('select * from pragma_journal_mode, pragma_foreign_keys, pragma_synchronous');
    const settings = [{ journal_mode: 'wal', foreign_keys: 1, synchronous: 1 }];
    expect(await database.read('installation', read)).toEqual(settings);
    expect(await database.write('installation', read)).toEqual(settings);
    await expect(
      database.read('installation', (sql) => sql('notes').insert({ body: 'by a reader' })),
    ).rejects.toMatchObject({
      code: 'database_unavailable',
    });
    await database.close();
  });

  it('is one whole file once it is closed', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'service-sqlite-'));
    for (let round = 0; round < 100; round++) {
      const database = openSqlite(join(folder, 'service.db'), log);
      await Promise.all([
        database.read('installation', (sql) => sql.raw('select 1')),
        database.write('installation', (sql) => sql.raw(`pragma user_version = ${round + 1}`)),
      ]);
      await database.close();
      expect(readdirSync(folder), `round ${round}`).toEqual(['service.db']);
    }
    rmSync(folder, { recursive: true });
  });

  it('is made once where many open it at the same moment', async () => {
    for (let round = 0; round < 10; round++) {
      const url = `sqlite:${join(folder, `round-${round}`, 'service.db')}`;
      const opened = await Promise.all(
        Array.from({ length: 8 }, () => openStore(url, { clock: systemClock, log })),
      );
      await Promise.all(opened.map((store) => store.close()));
    }
  });

  it('lets two processes that read before they write take turns', async () => {
    const [first, second] = [openSqlite(file, log), openSqlite(file, log)];
    await first.write('installation', (sql) => sql('notes').insert({ body: '0' }));
    const increment = (database: Database) =>
      database.write('installation', async (sql) => {
        const [{ body } = { body: '' }] = await sql<{ body: string }>('notes').select('body');
        await sql('notes').update({ body: String(Number(body) + 1) });
      });
    await Promise.all(Array.from({ length: 40 }, (_, index) => increment(index % 2 ? first : second)));
    expect(await first.read('installation', (sql) => sql('notes').pluck('body'))).toEqual(['40']);
    await Promise.all([first.close(), second.close()]);
  });

  it('reads on while somebody writes, and tells the writers that wait too long', async () => {
    const [holder, other] = [openSqlite(file, log), openSqlite(file, log)];
    const [locked, letGo] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = holder.write('installation', async (sql) => {
      await sql('notes').insert({ body: 'held' });
      locked.resolve();
      await letGo.promise;
    });
    await locked.promise;
    expect(await other.read('installation', (sql) => sql('notes').count({ count: '*' }))).toEqual([
      { count: 1 },
    ]);
    const since = performance.now();
    const blocked = await Promise.allSettled(
      Array.from({ length: 20 }, () =>
        other.write('installation', (sql) => sql('notes').insert({ body: 'blocked' })),
      ),
    );
    for (const { reason } of blocked as PromiseRejectedResult[]) // asked of it below: it has none if it was stored
      expect(reason).toMatchObject({ code: 'database_unavailable', headers: { 'Retry-After': '2' } });
    // Those behind the first one do not wait as long again, each of them.
    expect(performance.now() - since).toBeLessThan(15_000);
    letGo.resolve();
    await holding;
    await other.write('installation', (sql) => sql('notes').insert({ body: 'free again' }));
    await Promise.all([holder.close(), other.close()]);
  });

  it('says when the disk is full, and goes on when it is not', async () => {
    const database = openSqlite(file, log);
    const before = await database.read('installation', (sql) => sql('notes').count({ count: '*' }));
    const limit = (pages: number) =>
      database.write('installation', (sql) => sql.raw(`pragma max_page_count = ${pages}`));
    await limit(10);
    const big = database.write('installation', async (sql) => {
      for (let index = 0; index < 50; index += 1) await sql('notes').insert({ body: 'x'.repeat(4000) });
    });
    await expect(big).rejects.toMatchObject({ code: 'storage_full', status: 507 });
    expect(await database.read('installation', (sql) => sql('notes').count({ count: '*' }))).toEqual(before);
    await limit(1_000_000);
    await database.write('installation', (sql) => sql('notes').insert({ body: 'x'.repeat(40_000) }));
    await database.close();
  });

  it('is not made of a file that is something else', async () => {
    const other = join(folder, 'other.db');
    writeFileSync(other, 'This is no database, but a text that is long enough to look at.'.repeat(20));
    await expect(openStore(`sqlite:${other}`, { clock: { now: () => new Date() }, log })).rejects.toThrow(
      /not a database/,
    );
    await expect(openStore('mysql://x', { clock: { now: () => new Date() }, log })).rejects.toThrow(
      /sqlite:<absolute file> or postgres:/,
    );
  });
});

describeStore('postgresql', 'A server', (store, engine) => {
  it('that is away is told of in time, and works again when it is back', async () => {
    const relay = await relayTo(engine.url());
    const store = await openStore(relay.url, { clock: engine.clock, log });
    const reach = await newAccount(store);
    relay.silence();
    const begin = performance.now();
    await expect(store.ping()).rejects.toMatchObject({ code: 'database_unavailable' });
    expect(performance.now() - begin).toBeLessThan(20_000);
    await relay.cut();
    await expect(store.ping()).rejects.toMatchObject({ code: 'database_unavailable' });
    const cut = store.sessions.create(reach, {});
    await expect(cut).rejects.toMatchObject({
      code: 'database_unavailable',
      headers: { 'Retry-After': '2' },
    });
    await relay.restore();
    await patiently(() => store.ping());
    await expect(store.sessions.create(reach, {})).resolves.toBeDefined();
    await store.close();
    await relay.cut();
  });

  it('that has gone without a word is asked over new connections from the second query on', async () => {
    const relay = await relayTo(engine.url());
    const database = openPostgres(`${relay.url}?query_timeout=5000`, log);
    const ask = () => database.read('installation', (sql) => sql('users').count({ count: '*' }));
    const write = () => database.write('installation', (sql) => sql('users').where({ id: '-' }).delete());
    for (const work of [ask, write]) {
      await work();
      // Connections that come now are let through, as after another server has taken over.
      relay.silence();
      await expect(work()).rejects.toMatchObject({ code: 'database_unavailable' });
      await work();
    }
    await database.close();
    await relay.cut();
  });

  it('is given no more connections than it was said, and says so where too many wait for one', async () => {
    const connected = async () => {
      const own = "datname = current_database() and application_name = 'service'";
      const { rows } = await engine.sql().raw(`select count(*) as count from pg_stat_activity where ${own}`);
      return Number(rows[0].count);
    };
    const before = await connected();
    const few = await openStore(engine.url(), { clock: engine.clock, log, connections: 2 });
    const reach = await newAccount(few);
    const lists = Array.from({ length: 30 }, () => few.sessions.list(reach, {}));
    await Promise.all([...lists, ...Array.from({ length: 30 }, () => patiently(() => few.ping()))]);
    expect(await connected()).toBeLessThanOrEqual(before + 4);
    await few.close();
    const database = openPostgres(engine.url(), log, undefined, 2);
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
    const holding = [1, 2].map(() => database.write('installation', () => held));
    const refused = database.write('installation', async () => undefined);
    await expect(refused).rejects.toMatchObject({
      ...{ code: 'database_unavailable', status: 503, headers: { 'Retry-After': '2' } },
      message: 'Too many requests wait for a connection to the database; try again in a moment.',
      cause: { message: expect.stringContaining('SERVICE_DATABASE_CONNECTIONS') },
    });
    letGo();
    await Promise.all(holding);
    await database.write('installation', async () => undefined);
    await database.close();
  });

  it('that only reads by now is left for the one that took over', async () => {
    const database = openPostgres(engine.url(), log);
    const serverProcess = async () => {
      const { rows } = await database.read('installation', (sql) =>
        sql.raw('select pg_backend_pid() as pid'),
      );
      return rows[0].pid;
    };
    const before = await serverProcess();
    expect(await serverProcess()).toBe(before);
    const refused = database.write('installation', async (sql) => {
      await sql.raw('set local transaction_read_only = on');
      await sql('users').where({ id: '-' }).delete();
    });
    await expect(refused).rejects.toMatchObject({ code: 'database_unavailable' });
    expect(await serverProcess()).not.toBe(before);
    await database.close();
  });

  it('ends one of two transactions that wait for each other: what a run has to store is stored all the same', async () => {
    const database = openPostgres(engine.url(), log);
    const lock = (sql: Knex, id: string) => sql('users').where({ id }).forUpdate().first('id');
    const storeBoth = async () => {
      const [one, other] = [(await newAccount(store())).userId, (await newAccount(store())).userId];
      const reached = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
      let attempts = 0;
      const storing = [[one, other] as const, [other, one] as const].map(([first, second], index) =>
        database.writeOfRun(async (sql) => {
          attempts += 1;
          await lock(sql, first);
          reached[index]?.resolve();
          await Promise.all(reached.map(({ promise }) => promise));
          return lock(sql, second);
        }),
      );
      expect(await Promise.all(storing)).toEqual([{ id: other }, { id: one }]);
      return attempts;
    };
    // The one that was ended does not come in the way of the other again. One pair alone could be lucky.
    expect(await Promise.all([1, 2, 3, 4].map(storeBoth))).toEqual([3, 3, 3, 3]);
    await database.close();
  });

  it('tells of its limits: time, locks, space', async () => {
    const database = openPostgres(engine.url(), log);
    const raising = (code: string) =>
      database.write('installation', (sql) =>
        sql.raw(`do $$ begin raise exception 'full' using errcode = '${code}'; end $$`),
      );
    await expect(raising('53100')).rejects.toMatchObject({ code: 'storage_full' });
    for (const code of ['53300', '57P01', '40P01', '40001', '55P03', '08006', '25006'])
      await expect(raising(code), code).rejects.toMatchObject({ code: 'database_unavailable' });
    await expect(raising('22012')).rejects.not.toHaveProperty('status');
    const slow = database.write('installation', async (sql) => {
      await sql.raw("set local statement_timeout = '20ms'");
      await sql.raw('select pg_sleep(5)');
    });
    await expect(slow).rejects.toMatchObject({ code: 'database_unavailable' });
    const numbers = await database.read('installation', (sql) =>
      sql.raw(
        'select count(*) as count, sum(x) as sum, max(x) as max from (values (1::bigint), (2)) as t (x)',
      ),
    );
    expect(numbers.rows).toEqual([{ count: 2, sum: 3, max: 2 }]);
    await database.close();
  });
});

/** Another process, which makes sessions and writes the id of each as soon as it is stored. */
function writeUntilKilled(url: string, reach: Reach) {
  const program = `
    import { openStore } from ${JSON.stringify(import.meta.resolve('./store.ts'))};
    import { createLog } from ${JSON.stringify(import.meta.resolve('../log.ts'))};
    const options = { clock: { now: () => new Date() }, log: createLog('silent') };
    const store = await openStore(${JSON.stringify(url)}, options);
    for (;;) {
      const input = { title: 'killed', tags: ['a', 'b'] };
      const { session } = await store.sessions.create(${JSON.stringify(reach)}, input);
      console.log(session.id);
    }`;
  const flags = ['--input-type=module-typescript', '--eval', program];
  return spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] });
}

/** A way to a database that can fall silent, be cut, and come back on the same port. */
async function relayTo(url: string) {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let server: Server;
  const port = await lastingPort();
  const listen = async (): Promise<void> => {
    server = createServer((near) => {
      const far = connect(Number(target.port), target.hostname);
      for (const [socket, other] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(socket);
        socket.pipe(other);
        socket.on('close', () => other.destroy());
        // The other end is closed too; whoever used the way is told by that.
        socket.on('error', () => other.destroy());
      }
    });
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  };
  await listen();
  const way = new URL(url);
  way.port = String(port);
  return {
    url: way.href,
    silence: () => {
      for (const socket of sockets) socket.unpipe().pause();
    },
    cut: async () => {
      for (const socket of sockets) socket.destroy();
      sockets.clear();
      await new Promise((resolve) => server.close(resolve));
    },
    restore: listen,
  };
}
