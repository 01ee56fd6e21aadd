import knex from 'knex';
import { expect, it, onTestFinished } from 'vitest';
import { createLog } from '../log.ts';
import { openPostgres } from './postgres.ts';
import { openStore, type Store } from './store.ts';
import { startPostgres } from './test-postgres.ts';
import { twoRoles } from './test-roles.ts';
import { describeStore, newAccount } from './test-stores.ts';

const log = createLog('silent');

describeStore('postgresql', 'With DATABASE_MIGRATION_URL', (_store, engine) => {
  const open = async (url: string, migrationUrl?: string): Promise<Store> => {
    const store = await openStore(url, { clock: engine.clock, log, migrationUrl });
    onTestFinished(() => store.close());
    return store;
  };

  it('the role that serves owns nothing, and can neither change a table nor see past the policies', async () => {
    const { url, migrationUrl, service, admin } = await twoRoles();
    const store = await open(url, migrationUrl);
    const ada = await newAccount(store);
    const { session } = await store.sessions.create(ada, { title: 'Mine' });
    expect((await store.sessions.find(ada, session.id))?.session.title).toBe('Mine');
    expect((await store.searches.find(ada, { query: 'mine' }, {})).data).toMatchObject([{ kind: 'title' }]);
    const mallory = await newAccount(store, 'Mallory');
    expect((await store.searches.find(mallory, { query: 'mine' }, {})).data).toEqual([]);
    const { rows } = await admin.raw(
      `select count(*)::int as count from pg_shdepend join pg_roles on refobjid = pg_roles.oid
       where deptype = 'o' and rolname = ?`,
      [service],
    );
    expect(rows).toEqual([{ count: 0 }]);
    const sql = knex({ client: 'pg', connection: url, pool: { min: 0, max: 1 } });
    onTestFinished(() => sql.destroy());
    for (const statement of [
      'alter table sessions disable row level security',
      'alter table sessions no force row level security',
      'alter table sessions disable trigger all',
      'drop policy scope on sessions',
      'create policy mine on sessions using (true)',
      'drop table sessions',
      'truncate sessions',
      'create table notes (body text)',
      'update audit_entries set action = 1',
      'set row_security = off; select * from sessions',
      `set role ${service}_owner`,
      'set session_replication_role = replica',
    ])
      await expect(sql.raw(statement), statement).rejects.toThrow(
        /must be owner|permission denied|row-level security|does not exist/,
      );
    expect(await sql('sessions')).toEqual([]);
    await sql.raw('reset role');
    expect(await sql('sessions')).toEqual([]);
  });

  it('a node without it works where another has migrated, and refuses where nobody has', async () => {
    const { url, migrationUrl, admin } = await twoRoles();
    await expect(open(url)).rejects.toThrow(/permission denied|DATABASE_MIGRATION_URL/);
    await open(url, migrationUrl);
    const store = await open(url);
    await newAccount(store);
    const newest = await admin('schema_versions').orderBy('version', 'desc').first();
    await admin('schema_versions').where({ version: newest.version }).delete();
    await expect(open(url)).rejects.toThrow(/has to be migrated.*DATABASE_MIGRATION_URL/);
    await admin('schema_versions').insert([newest, { version: 99, name: 'later', applied_at: 0 }]);
    await expect(open(url)).rejects.toMatchObject({ name: 'NewerDatabase' });
  });

  it('is refused where it protects nothing: a role that owns the tables, or passes over the policies', async () => {
    const { url, migrationUrl, service, admin } = await twoRoles();
    await expect(open(engine.url(), migrationUrl)).rejects.toThrow(/passes over row-level security/);
    await open(url, migrationUrl);
    await expect(open(migrationUrl, migrationUrl)).rejects.toThrow(/owns the tables/);
    await admin.raw(`alter role ${service} bypassrls`);
    await expect(open(url, migrationUrl)).rejects.toThrow(/passes over row-level security/);
    await expect(open(url)).rejects.toThrow(/passes over row-level security/);
    await admin.raw(`alter role ${service} nobypassrls`);
    const other = await twoRoles();
    await expect(open(url, other.migrationUrl)).rejects.toThrow(/another database/);
  });

  it('is not needed by an owner that may make roles and is no superuser, as on hosted servers', {
    timeout: 60_000,
  }, async ({ skip }) => {
    // Of its own: where the role is there already, only a superuser or whoever made it can give it to others.
    const server = await startPostgres();
    if (!server) return skip();
    onTestFinished(() => server.stop());
    const root = knex({ client: 'pg', connection: server.url, pool: { min: 0, max: 1 } });
    await root.raw('create role hosted login createrole');
    await root.raw('create database hosted owner hosted');
    await root.destroy();
    const url = server.url.replace('postgres@', 'hosted@').replace(/postgres$/, 'hosted');
    await newAccount(await open(url));
    await newAccount(await open(url));
  });

  it('needs no role that every database of the server would share', async () => {
    const { url, migrationUrl } = await twoRoles();
    await open(url, migrationUrl);
    const database = openPostgres(url, log, null);
    onTestFinished(() => database.close());
    const { rows } = await database.read('installation', (sql) =>
      sql.raw(
        `select session_user = current_user as same, pg_has_role(current_user, oid, 'member') as member
         from pg_roles where rolname = 'service_app'`,
      ),
    );
    for (const row of rows) expect(row).toEqual({ same: true, member: false });
  });
});
