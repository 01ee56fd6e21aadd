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
