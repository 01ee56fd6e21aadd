/** How a database is opened: migrated first, and copied before that. */
import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { backUp, removeDrafts } from './backup.ts';
import type { Database, Dialect } from './database.ts';
import { migrate } from './migrate.ts';
import { openMigratedPostgres } from './migrated-postgres.ts';
import { openSqlite } from './sqlite.ts';

export interface OpeningOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Where an older database is copied to before it is migrated; absent, it is not. */
  readonly backups?: string | undefined;
  /** False beside servers that may be of an older program: an older database is refused then. Absent, it is migrated. */
  readonly migrates?: boolean | undefined;
  /** The same PostgreSQL database as the role that owns its tables; absent where that is the role of the URL. */
  readonly migrationUrl?: string | undefined;
  /** How many connections each of the two pools to PostgreSQL may have; absent, as usual. */
  readonly connections?: number | undefined;
}

/** Which kind of database an address is of; throws for any other. */
export function dialectOf(url: string): Dialect {
  if (url.startsWith('sqlite:')) return 'sqlite';
  if (/^postgres(ql)?:\/\//.test(url)) return 'postgresql';
  throw new Error('The database is given as sqlite:<absolute file> or postgres://user:password@host/name.');
}

/** Opens `sqlite:<absolute file>` or `postgres://…`, brought to the newest version. */
export async function openMigrated(url: string, options: OpeningOptions): Promise<Database> {
  if (dialectOf(url) === 'sqlite') return openMigratedSqlite(url.slice('sqlite:'.length), options);
  const { migrationUrl, log, connections } = options;
  return openMigratedPostgres({
    url,
    migrationUrl,
    log,
    connections,
    migrate: (owner, prepare) =>
      migrate(owner, { ...migrationOptions(migrationUrl ?? url, options), prepare }),
  });
}

async function openMigratedSqlite(file: string, options: OpeningOptions): Promise<Database> {
  const database = openSqlite(file, options.log);
  try {
    await removeDrafts(dirname(file), options.log);
    await migrate(database, migrationOptions(`sqlite:${file}`, options));
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

function migrationOptions(url: string, { clock, log, migrates, backups }: OpeningOptions) {
  if (backups === undefined) return { clock, log, migrates };
  const copy = async (version: number): Promise<() => Promise<void>> => {
    const ending = url.startsWith('sqlite:') ? 'db' : 'dump';
    const moment = clock.now().toISOString().replaceAll(/[-:.]/g, '');
    const beginning = `before-migration-from-${version}-`;
    const file = join(backups, `${beginning}${moment}.${ending}`);
    const isEarlier = (name: string) =>
      name.startsWith(beginning) && name.endsWith(`.${ending}`) && name !== basename(file);
    // Whoever migrates is alone: nobody else will finish a draft, and what came of an earlier copy is over.
    await removeWhere((name) => name.startsWith('.before-migration-from-'), backups, log);
    await backUp(url, file, log).catch(refuseMigration);
    await removeWhere(isEarlier, backups, log);
    log.info({ file }, 'the database was copied before its migration');
    return () => removeWhere((name) => name === basename(file), backups, log);
  };
  return { clock, log, migrates, copy };
}

async function removeWhere(isMeant: (name: string) => boolean, folder: string, log: Log): Promise<void> {
  for (const name of (await readdir(folder).catch(() => [])).filter(isMeant)) {
    const path = join(folder, name);
    await rm(path, { recursive: true, force: true }).catch((error: unknown) =>
      log.warn({ err: error, path }, 'what an upgrade before has left could not be removed'),
    );
  }
}

function refuseMigration(cause: Error): never {
  throw new Error(
    `The database has to be migrated, and could not be copied before (${cause.message}): nothing was changed. Copy it yourself, and start with SERVICE_MIGRATION_BACKUP=false.`,
    { cause },
  );
}
