/** PostgreSQL through knex and `pg`: time limits on everything, numbers that arrive as numbers, and row-level security. */
import type { Knex } from 'knex';
import pg from 'pg';
import type { Log } from '../log.ts';
import { connect, type Database, databaseOf, type Scope } from './database.ts';

const limits = {
  connectionTimeoutMillis: 5000,
  statement_timeout: 30_000,
  query_timeout: 35_000,
  lock_timeout: 10_000,
  idle_in_transaction_session_timeout: 60_000,
  keepAlive: true,
};

/** Neither owner of the tables nor superuser: the policies of the tables hold for it. */
const serviceRole = 'service_app';

/** With the rights of the one who connects: for migrations. */
export function openAsOwner(url: string, log: Log): Database {
  const pool = connect({ ...settingsOf(url), pool: { min: 0, max: 1 } }, log);
  return databaseOf('postgresql', { reader: pool, writer: pool });
}

/** As the role of the service, which has no rights but to the rows. The database was migrated before. */
export function openPostgres(url: string, log: Log): Database {
  const pool = (organizations: string) =>
    connect({ ...settingsOf(url), pool: { min: 0, max: 10, afterCreate: become(organizations) } }, log);
  const all = pool('*');
  return databaseOf('postgresql', { reader: all, writer: all, confined: { pool: pool(''), confine } });
}

function settingsOf(connectionString: string): Knex.Config {
  const connection = { connectionString, application_name: 'service', ...limits, types: { getTypeParser } };
  return { client: 'pg', connection };
}

/** Makes the role where it is missing, and gives it the rows of every table that there is by now. */
export async function prepareServiceRole(sql: Knex.Transaction): Promise<void> {
  // Roles belong to all databases of a server, of which two may be prepared at once.
  await sql.raw(
    `do $$ begin
       if not exists (select from pg_roles where rolname = '${serviceRole}') then
         create role ${serviceRole} nologin;
       end if;
     exception when duplicate_object or unique_violation then null;
     end $$`,
  );
  const { rows } = await sql.raw(`select pg_has_role(current_user, '${serviceRole}', 'member') as member`);
  if (!rows[0].member) await sql.raw(`grant ${serviceRole} to current_user`);
  await sql.raw(`grant usage on schema public to ${serviceRole}`);
  await sql.raw(`grant select, insert, update, delete on all tables in schema public to ${serviceRole}`);
  // What was recorded stays recorded, whoever gets hold of the service.
  await sql.raw(`revoke update, delete, truncate on audit_entries from ${serviceRole}`);
  await sql.raw(`revoke insert, delete, truncate on audit_head from ${serviceRole}`);
  await sql.raw(`grant usage, select on all sequences in schema public to ${serviceRole}`);
}

/** What the policies ask. The empty text stands for nobody, the star for all. */
function become(organizations: string) {
  return (connection: pg.Client, done: (error: Error | null, connection: pg.Client) => void): void => {
    connection
      .query(
        `set role ${serviceRole}; set service.organizations = '${organizations}'; set service.user_id = ''`,
      )
      .then(
        () => done(null, connection),
        (error: Error) => done(error, connection),
      );
  };
}

/** As `confine`, or back to all rows, for the rest of a transaction. */
export async function nameScope(sql: Knex.Transaction, scope: Scope): Promise<void> {
  await confine(sql, scope === 'installation' ? { userId: '', organizationIds: ['*'] } : scope);
}

async function confine(sql: Knex.Transaction, scope: Exclude<Scope, 'installation'>): Promise<void> {
  const { userId, organizationIds } = scope;
  await sql.raw(
    `select set_config('service.organizations', ?, true), set_config('service.user_id', ?, true)`,
    [organizationIds.join(','), userId],
  );
}

/** Counts, sums and times in milliseconds are far below 2^53, and SQLite gives numbers too. */
const asNumber = new Set<number>([pg.types.builtins.INT8, pg.types.builtins.NUMERIC]);

function getTypeParser(oid: number) {
  return asNumber.has(oid) ? Number : pg.types.getTypeParser(oid);
}
