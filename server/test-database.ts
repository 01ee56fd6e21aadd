/** Databases for tests that start the server as a process. */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import knex from 'knex';
import { inject, onTestFinished } from 'vitest';

/** An empty PostgreSQL database of the test's own, gone after it. */
export async function newDatabase(): Promise<string> {
  const postgresUrl = inject('postgresUrl') ?? '';
  const name = `process_${randomBytes(6).toString('hex')}`;
  const admin = knex({ client: 'pg', connection: postgresUrl, pool: { min: 0, max: 1 } });
  await admin.raw('create database ??', [name]);
  onTestFinished(async () => {
    await admin.raw('drop database if exists ?? with (force)', [name]);
    await admin.destroy();
  });
  const url = new URL(postgresUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** The file of a master key, which nodes share. */
export async function newMasterKey(folder: string): Promise<string> {
  const key = join(folder, 'master.key');
  await writeFile(key, randomBytes(32).toString('base64'), { mode: 0o600 });
  return key;
}

/** A database for all tests of a file. */
export interface LastingDatabase {
  readonly url: string;
  remove(): Promise<void>;
}

/** An empty one, which whoever asked for it removes. That of SQLite lies in the folder. */
export async function lastingDatabase(
  dialect: 'sqlite' | 'postgresql',
  folder: string,
): Promise<LastingDatabase> {
  if (dialect === 'sqlite')
    return { url: `sqlite:${join(folder, 'shared.db')}`, remove: async () => undefined };
  const server = inject('postgresUrl') ?? '';
  const name = `lasting_${randomBytes(6).toString('hex')}`;
  const sql = knex({ client: 'pg', connection: server, pool: { min: 0, max: 1 } });
  await sql.raw('create database ??', [name]);
  return {
    url: Object.assign(new URL(server), { pathname: `/${name}` }).href,
    async remove() {
      await sql.raw('drop database ?? with (force)', [name]);
      await sql.destroy();
    },
  };
}

/** The engines that there are here. */
export const databases = [
  'sqlite',
  ...(inject('postgresUrl') === null ? [] : (['postgresql'] as const)),
] as const;
