/** Databases for tests, those of PostgreSQL on the server that the run has started. */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import knex, { type Knex } from 'knex';
import { inject, onTestFinished } from 'vitest';
import { systemClock } from './clock.ts';
import { createLog } from './log.ts';
import { openMigrated } from './store/open-migrated.ts';

/** What a PostgreSQL database holds before a server opens it: the tables, all of them empty, or nothing. */
type Content = 'tables' | 'nothing';

/** A PostgreSQL database of the test's own, gone after it; gives its URL. */
export async function newDatabase(content?: Content): Promise<string> {
  const { url, remove } = await createDatabase(content);
  onTestFinished(remove);
  return url;
}

/** The file of a master key, which nodes share. */
export async function newMasterKey(folder: string): Promise<string> {
  const key = join(folder, 'master.key');
  await writeFile(key, randomBytes(32).toString('base64'), { mode: 0o600 });
  return key;
}

/** A database for all tests of a file. Whoever asked for it removes it. */
export interface LastingDatabase {
  readonly url: string;
  remove(): Promise<void>;
}

/** One with no rows. That of SQLite lies in the folder. */
export async function lastingDatabase(
  dialect: 'sqlite' | 'postgresql',
  folder: string,
): Promise<LastingDatabase> {
  if (dialect === 'postgresql') return createDatabase();
  return { url: `sqlite:${join(folder, 'shared.db')}`, remove: async () => undefined };
}

/** The engines that there are here. */
export const databases = [
  'sqlite',
  ...(inject('postgresUrl') === null ? [] : (['postgresql'] as const)),
] as const;

/** On PostgreSQL. Tables are copied from a database that was migrated once: to migrate each costs six times as much. */
export async function createDatabase(content: Content = 'tables'): Promise<LastingDatabase> {
  const server = inject('postgresUrl');
  if (server === null) throw new Error('There is no PostgreSQL in .venv: make python installs it.');
  const name = `test_${randomBytes(6).toString('hex')}`;
  // One connection, and never closed meanwhile, so that what it locks stays locked from one statement to the next.
  const admin = knex({ client: 'pg', connection: server, pool: { min: 1, max: 1 } });
  const template = content === 'tables' ? await migratedTemplate(admin, server) : 'template1';
  await admin.raw('create database ?? template ??', [name, template]);
  return {
    url: urlOf(server, name),
    async remove() {
      await admin.raw('drop database if exists ?? with (force)', [name]);
      await admin.destroy();
    },
  };
}

/** Any number that the service itself does not lock on. */
const lockNumber = 6_021_023_990_118;

/** The first test that wants one makes it, and those beside it wait. Its name is of this run, whose migrations it has. */
async function migratedTemplate(admin: Knex, server: string): Promise<string> {
  const name = inject('postgresTemplate');
  await admin.raw('select pg_advisory_lock(?)', [lockNumber]);
  const { rows } = await admin.raw('select from pg_database where datname = ?', [name]);
  if (rows.length === 0) {
    const draft = `${name}_draft`;
    await admin.raw('create database ??', [draft]);
    const database = await openMigrated(urlOf(server, draft), {
      clock: systemClock,
      log: createLog('silent'),
    });
    await database.close();
    // Only what is whole bears the name.
    await admin.raw('alter database ?? rename to ??', [draft, name]);
  }
  await admin.raw('select pg_advisory_unlock(?)', [lockNumber]);
  return name;
}

function urlOf(server: string, name: string): string {
  return Object.assign(new URL(server), { pathname: `/${name}` }).href;
}
