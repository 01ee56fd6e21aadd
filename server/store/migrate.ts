/** Brings a database to the shape this program knows: forward only, all pending steps in one locked transaction. */
import type { Knex } from 'knex';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Database } from './database.ts';
import { accounts } from './migrations/0001-accounts.ts';
import { sessions } from './migrations/0002-sessions.ts';
import { history } from './migrations/0003-history.ts';
import { agents } from './migrations/0004-agents.ts';
import { workspaceEvents } from './migrations/0005-workspace-events.ts';
import { tenancy } from './migrations/0006-tenancy.ts';
import { organizations } from './migrations/0007-organizations.ts';
import { workspaces } from './migrations/0008-workspaces.ts';
import { passwords } from './migrations/0009-passwords.ts';
import { signIn } from './migrations/0010-sign-in.ts';
import { users } from './migrations/0011-users.ts';
import { audit } from './migrations/0012-audit.ts';
import { quotas } from './migrations/0013-quotas.ts';
import { idempotency } from './migrations/0014-idempotency.ts';
import { providerSettings } from './migrations/0015-provider-settings.ts';
import { providerModels } from './migrations/0016-provider-models.ts';
import { modelCatalogs } from './migrations/0017-model-catalogs.ts';
import { providerOauth } from './migrations/0018-provider-oauth.ts';
import { messageThreads } from './migrations/0019-message-threads.ts';
import { files } from './migrations/0021-files.ts';
import { storage } from './migrations/0022-storage.ts';
import { corpora } from './migrations/0023-corpora.ts';
import { chunks } from './migrations/0024-chunks.ts';
import { embedders } from './migrations/0025-embedders.ts';
import { memories } from './migrations/0026-memories.ts';
import { fileUploads } from './migrations/0027-file-uploads.ts';
import { scheduler } from './migrations/0028-scheduler.ts';
import { skills } from './migrations/0029-skills.ts';
import { mcpServers } from './migrations/0030-mcp-servers.ts';
import { webSearch } from './migrations/0031-web-search.ts';
import { chunkCells } from './migrations/0033-chunk-cells.ts';
import { skillRepositories } from './migrations/0034-skill-repositories.ts';
import { wordSearches } from './migrations/0035-word-searches.ts';
import { provedAddresses } from './migrations/0036-proved-addresses.ts';
import { devicePlaces } from './migrations/0037-device-places.ts';
import { jobSessions } from './migrations/0038-job-sessions.ts';
import { searchBacklog } from './migrations/0039-search-backlog.ts';
import { keptUsage } from './migrations/0040-kept-usage.ts';
import { shownLinks } from './migrations/0041-shown-links.ts';
import { storedBytes } from './migrations/0042-stored-bytes.ts';
import { deletedWorkspaces } from './migrations/0043-deleted-workspaces.ts';
import { vainAnswers } from './migrations/0044-vain-answers.ts';
import { refusedPassages } from './migrations/0045-refused-passages.ts';
import { begunByLogins } from './migrations/0046-begun-by-logins.ts';
import { takenAttempts } from './migrations/0047-taken-attempts.ts';
import { clearedCorpora } from './migrations/0048-cleared-corpora.ts';
import { rewrittenLists } from './migrations/0049-rewritten-lists.ts';
import { askedDimensions } from './migrations/0050-asked-dimensions.ts';

/** One step. Its number is its place in the list; a released step is never changed. */
export interface Migration {
  readonly name: string;
  up(sql: Knex.Transaction): Promise<void>;
}

/** A step as a database remembers it. */
export interface AppliedStep {
  readonly version: number;
  readonly name: string;
}

const migrations: readonly Migration[] = [
  ...[accounts, sessions, history, agents, workspaceEvents, tenancy],
  ...[organizations, workspaces, passwords, signIn, users, audit, quotas, idempotency, providerSettings],
  ...[
    providerModels,
    modelCatalogs,
    providerOauth,
    messageThreads,
    files,
    storage,
    corpora,
    chunks,
    embedders,
    memories,
    fileUploads,
    chunkCells,
    webSearch,
    mcpServers,
    scheduler,
    skills,
    skillRepositories,
    wordSearches,
    provedAddresses,
    devicePlaces,
    jobSessions,
    searchBacklog,
    keptUsage,
    shownLinks,
    storedBytes,
    deletedWorkspaces,
    vainAnswers,
    refusedPassages,
    begunByLogins,
    takenAttempts,
    clearedCorpora,
    rewrittenLists,
    askedDimensions,
  ],
];

/** The shape that this program brings a database to. */
export const schemaVersion = migrations.length;

/** The number that this service's nodes lock on while one of them migrates: any constant of our own. */
const lockNumber = 7_318_349_394_477;

interface MigrateOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** False where that is left to another: an older database is refused then. Absent, it is migrated. */
  readonly migrates?: boolean | undefined;
  /**
   * Copies a database that has something in it, before anything of it is changed. Answers with what takes the copy away
   * again.
   */
  readonly copy?: (version: number) => Promise<() => Promise<void>>;
  /** Done under the same lock, whether or not anything was migrated. */
  readonly prepare?: (sql: Knex.Transaction) => Promise<void>;
}

/**
 * Not the migrator of knex: that one leaves a lock row behind when it is killed, and the next start refuses. Here the
 * engine's own lock ends with the transaction, so that a database is either old or new, never between.
 */
export async function migrate(
  database: Database,
  { clock, log, migrates = true, copy, prepare }: MigrateOptions,
): Promise<void> {
  const applied = await database.write('installation', async (sql) => {
    // On SQLite the transaction itself holds the only write lock.
    if (database.dialect === 'postgresql') {
      await liftTimeLimits(sql);
      await sql.raw('select pg_advisory_xact_lock(?)', [lockNumber]);
    }
    const steps = await readSteps(sql);
    refuseStrange(steps);
    const version = versionOf(steps);
    if (!migrates && version < migrations.length)
      throw new Error(
        'The database has to be migrated, which a server does when it starts: start the server of this version first.',
      );
    const removeCopy = version > 0 && version < migrations.length ? await copy?.(version) : undefined;
    try {
      await applyAfter(version, sql, clock);
      await prepare?.(sql);
    } catch (error) {
      // Nothing will be committed: each start that a supervisor tries again would leave a copy of the same.
      await removeCopy?.();
      throw error;
    }
    return migrations.slice(version).map(({ name }) => name);
  });
  if (applied.length > 0) log.info({ migrations: applied }, 'the database was migrated');
}

async function applyAfter(version: number, sql: Knex.Transaction, clock: Clock): Promise<void> {
  for (const [index, migration] of migrations.entries()) {
    if (index < version) continue;
    await migration.up(sql);
    await sql('schema_versions').insert({
      version: index + 1,
      name: migration.name,
      applied_at: clock.now().getTime(),
    });
  }
}

/**
 * The time that a request is given is not enough here: while the database is copied the transaction is idle, a step
 * walks through whole tables, and the other nodes wait for the one that migrates.
 */
async function liftTimeLimits(sql: Knex.Transaction): Promise<void> {
  // Versions before 17 do not know the one for whole transactions.
  await sql.raw(
    `select set_config(name, '0', true) from pg_settings where name in
       ('idle_in_transaction_session_timeout', 'lock_timeout', 'statement_timeout', 'transaction_timeout')`,
  );
}

async function readSteps(sql: Knex.Transaction): Promise<AppliedStep[]> {
  if (!(await sql.schema.hasTable('schema_versions'))) {
    await sql.schema.createTable('schema_versions', (table) => {
      table.integer('version').primary();
      table.text('name').notNullable();
      table.bigInteger('applied_at').notNullable();
    });
  }
  return sql<AppliedStep>('schema_versions').orderBy('version').select('version', 'name');
}

/**
 * Throws where this program is not the one to open a database with these steps. One of another line of development, or
 * from before the first release, may have as many or more, and others: that it is newer would not be true.
 */
export function refuseStrange(applied: readonly AppliedStep[]): void {
  const strange = applied.find(
    ({ version, name }) => version <= migrations.length && migrations[version - 1]?.name !== name,
  );
  if (strange)
    throw new Error(
      `The database was written by another development of service: its step ${strange.version} is ${strange.name}, ` +
        `where this program has ${migrations[strange.version - 1]?.name}. Nothing leads from there to here: start the ` +
        'program that wrote it, or begin with another database or data directory.',
    );
  const newest = versionOf(applied);
  if (newest <= migrations.length) return;
  throw Object.assign(
    new Error(
      `The database was written by a newer version of service: its schema is ${newest}, this program knows ` +
        `${migrations.length}. Start that newer version, or restore a backup that was made before it.`,
    ),
    { name: 'NewerDatabase' },
  );
}

/** 0 where nothing was applied. */
export function versionOf(applied: readonly AppliedStep[]): number {
  return Math.max(0, ...applied.map(({ version }) => version));
}
