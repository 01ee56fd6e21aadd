/** Databases for servers that the tests start. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';

declare module 'vitest' {
  interface ProvidedContext {
    /** A PostgreSQL server where tests may make databases; null if there is none here. */
    postgresUrl: string | null;
  }
}

export interface NewDatabase {
  readonly url: string;
  remove(): Promise<void>;
}

/** An empty database of its own on a PostgreSQL server. */
export async function newDatabase(server: string): Promise<NewDatabase> {
  const name = `contract_${randomBytes(6).toString('hex')}`;
  await tell(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, remove: () => tell(server, `drop database ${name} with (force)`) };
}

async function tell(server: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
