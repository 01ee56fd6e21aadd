/** Opens PostgreSQL: migrated by whoever owns the tables, and then as a role that has no rights but to their rows. */
import type { Knex } from 'knex';
import type { Log } from '../log.ts';
import { prepareVectors } from './chunk-vectors.ts';
import type { Database } from './database.ts';
import { type AppliedStep, refuseStrange, schemaVersion, versionOf } from './migrate.ts';
import { openAsOwner, openPostgres } from './postgres.ts';
import {
  type ConnectedRole,
  grantRows,
  prepareServiceRole,
  readRole,
  requireRestricted,
} from './postgres-roles.ts';

interface Opening {
  readonly url: string;
  /** The same database as the role that owns its tables; absent where that is the role of `url`. */
  readonly migrationUrl: string | undefined;
  readonly log: Log;
  /** How many each pool may have; absent, as usual. */
  readonly connections: number | undefined;
  /** Migrates as that role, and does `prepare` in the same transaction. */
  readonly migrate: (owner: Database, prepare: (sql: Knex.Transaction) => Promise<void>) => Promise<void>;
}

export async function openMigratedPostgres(opening: Opening): Promise<Database> {
  const { url, migrationUrl, log, connections, migrate } = opening;
  const role = await roleOf(url, log);
  if (migrationUrl !== undefined) {
    requireRestricted(role);
    if ((await roleOf(migrationUrl, log)).database !== role.database) throw otherDatabase();
    await connected(openAsOwner(migrationUrl, log), (owner) =>
      migrate(owner, (sql) => prepare(sql, (ready) => grantRows(ready, role.name))),
    );
    await requireTablesOfAnother(url, log);
    return openPostgres(url, log, null, connections);
  }
  if (role.hasTables && !role.owns) {
    requireRestricted(role);
    await connected(openPostgres(url, log, null), (database) => requireMigrated(database, role));
    return openPostgres(url, log, null, connections);
  }
  await connected(openAsOwner(url, log), (owner) =>
    migrate(owner, (sql) => prepare(sql, prepareServiceRole)),
  );
  return openPostgres(url, log, undefined, connections);
}

/** What there is besides the steps of the schema, before rights are given to all of it. */
async function prepare(
  sql: Knex.Transaction,
  giveRights: (sql: Knex.Transaction) => Promise<void>,
): Promise<void> {
  await prepareVectors(sql);
  await giveRights(sql);
}

function roleOf(url: string, log: Log): Promise<ConnectedRole> {
  return connected(openPostgres(url, log, null), (database) => database.read('installation', readRole));
}

/** By now there are tables, and it is known whose they are. Databases of two servers may have the same number. */
async function requireTablesOfAnother(url: string, log: Log): Promise<void> {
  const role = await roleOf(url, log);
  if (!role.hasTables) throw otherDatabase();
  requireRestricted(role);
}

function otherDatabase(): Error {
  return new Error('DATABASE_MIGRATION_URL leads to another database than DATABASE_URL: name the same one.');
}

/** A node that may not migrate works where another one has done so. */
async function requireMigrated(database: Database, { name }: ConnectedRole): Promise<void> {
  const steps = await database
    .read('installation', async (sql) => sql<AppliedStep>('schema_versions').select('version', 'name'))
    .catch((cause: unknown) => {
      throw new Error(`The role ${name} of DATABASE_URL may not read the tables: ${howToMigrate}`, { cause });
    });
  refuseStrange(steps);
  if (versionOf(steps) < schemaVersion)
    throw new Error(
      `The database has to be migrated, which the role ${name} of DATABASE_URL may not: ${howToMigrate}`,
    );
}

const howToMigrate = 'start one server with DATABASE_MIGRATION_URL, as the role that owns them.';

async function connected<T>(database: Database, work: (database: Database) => Promise<T>): Promise<T> {
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}
