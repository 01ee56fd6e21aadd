/** Puts a copy of a database back, and its files: done whole, or not at all. */
import { randomBytes } from 'node:crypto';
import { chmod, copyFile, mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { pathToFileURL } from 'node:url';
import type { Knex } from 'knex';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { syncToDisk } from '../sync-to-disk.ts';
import { headOf } from './audit.ts';
import type { AuditHead, AuditRow } from './audit-chain.ts';
import { type ReplacedLog, recordedRestore } from './audit-replaced.ts';
import { draftOf, exists, filesOf, objectsIn, removeDrafts, withSqlite } from './backup.ts';
import { markRestore, othersOf, putFilesBack } from './backup-files.ts';
import { connect } from './database.ts';
import type { AppliedStep } from './migrate.ts';
import { nameScope, openAsOwner } from './postgres.ts';
import { rowsInDump, startProgram, variablesOf } from './postgres-programs.ts';

export interface RestoreOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Where heads of the audit log are written down. */
  readonly anchors: string;
  /** The folder of the files that people upload. */
  readonly files: string;
  /** Throws where this program is not the one to open a database with these steps. */
  readonly check: (steps: readonly AppliedStep[]) => void;
}

/**
 * Puts a copy in the place of the database at `url`, whose servers have stopped, and its files into the folder `files`:
 * before it, so that no row is without its bytes. Answers with how many files have none anywhere.
 */
export async function restore(url: string, copy: string, options: RestoreOptions): Promise<number> {
  const { files, log } = options;
  // What a server that is still at work has of files is its own; who starts one meanwhile is met by the second look.
  await requireUnused(url, log);
  // What is no sound copy is refused below, with its reason.
  const named = await objectsIn(url, copy, log).catch(() => null);
  const mark = named && (await markRestore(files));
  const others = named && (await othersOf(files, named));
  const put = named && (await putFilesBack(filesOf(copy), files, named));
  try {
    if (url.startsWith('sqlite:')) await restoreSqlite(url.slice('sqlite:'.length), copy, options);
    else await restorePostgres(url, copy, options);
  } catch (error) {
    await put?.undo();
    await mark?.remove();
    throw error;
  }
  await others?.remove();
  await mark?.removeAll();
  return put?.lost ?? 0;
}

async function requireUnused(url: string, log: Log): Promise<void> {
  if (!url.startsWith('sqlite:')) return requireNoServers(url, log);
  const file = url.slice('sqlite:'.length);
  if (await exists(file)) await closeForGood(file, log);
}

async function restoreSqlite(file: string, copy: string, options: RestoreOptions): Promise<void> {
  const { log, check } = options;
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await removeDrafts(dirname(file), log);
  const draft = draftOf(file);
  try {
    await copyFile(copy, draft);
    await chmod(draft, 0o600);
    check(await examineCopy(draft, copy, log));
    await recordInDraft(draft, file, options);
    await syncToDisk(draft);
    if (await exists(file)) await closeForGood(file, log);
    else await setAsideLogs(file, log);
    await rename(draft, file);
    await syncToDisk(dirname(file));
  } finally {
    await rm(draft, { force: true });
  }
}

async function recordInDraft(draft: string, file: string, options: RestoreOptions): Promise<void> {
  const replaced = (work: (sql: Knex) => Promise<ReplacedLog>) =>
    withSqlite(`${pathToFileURL(file).href}?mode=ro`, options.log, work);
  await withSqlite(pathToFileURL(draft).href, options.log, async (sql) => {
    if (!(await sql.schema.hasTable('audit_head'))) return;
    const head = await sql<AuditHead>('audit_head').first('sequence', 'created_at', 'hash');
    const entry = head && (await recordedRestore(head, (await exists(file)) ? replaced : null, options));
    if (!entry) return;
    await sql.transaction(async (transaction) => {
      await transaction('audit_entries').insert(entry);
      await transaction('audit_head').update(headOf(entry));
    });
  });
}

async function examineCopy(draft: string, copy: string, log: Log): Promise<AppliedStep[]> {
  try {
    return await withSqlite(pathToFileURL(draft).href, log, async (sql) => {
      const [found]: { integrity_check: string }[] = await sql.raw('pragma integrity_check(1)');
      const orphans: unknown[] = await sql.raw('pragma foreign_key_check');
      if (found?.integrity_check !== 'ok' || orphans.length > 0) throw new Error('it is damaged');
      return await sql<AppliedStep>('schema_versions').orderBy('version').select('version', 'name');
    });
  } catch (cause) {
    throw new Error(`${copy} is no sound backup of service: nothing was changed.`, { cause });
  }
}

/** Leaves the write-ahead log only where nobody else has the file open; then the file is all there is. */
async function closeForGood(file: string, log: Log): Promise<void> {
  try {
    await withSqlite(pathToFileURL(file).href, log, async (sql) => {
      const [found]: { journal_mode: string }[] = await sql.raw('pragma journal_mode = delete');
      if (found?.journal_mode !== 'delete') throw new Error('it is in use');
    });
  } catch (cause) {
    throw new Error(
      `${file} is in use, or damaged: stop its server first; where it is damaged, move it away, with the -wal and -shm beside it.`,
      { cause },
    );
  }
}

/**
 * SQLite plays a log into whatever lies beside it under its name, so one whose database was moved away would undo the
 * restore, or damage it.
 */
async function setAsideLogs(file: string, log: Log): Promise<void> {
  const ending = randomBytes(6).toString('hex');
  for (const left of [`${file}-wal`, `${file}-shm`, `${file}-journal`]) {
    if (!(await exists(left))) continue;
    await rename(left, `${left}.${ending}`);
    log.warn({ file: `${left}.${ending}` }, 'what was left of the database before is kept under this name');
  }
  await syncToDisk(dirname(file));
}

async function restorePostgres(url: string, copy: string, options: RestoreOptions): Promise<void> {
  options.check(await stepsInDump(copy));
  await requireNoServers(url, options.log);
  const [head] = await rowsInDump(copy, 'audit_head', ['sequence', 'created_at', 'hash']);
  const copied = head && {
    ...{ sequence: Number(head.sequence), created_at: Number(head.created_at), hash: head.hash },
  };
  const replaced = (work: (sql: Knex) => Promise<ReplacedLog>) => asOwner(url, options.log, work);
  await replaceRows(url, copy, copied ? sqlOf(await recordedRestore(copied, replaced, options)) : '');
}

async function asOwner<T>(url: string, log: Log, work: (sql: Knex) => Promise<T>): Promise<T> {
  const database = openAsOwner(url, log);
  try {
    return await database.write('installation', async (sql) => {
      await nameScope(sql, 'installation');
      return work(sql);
    });
  } finally {
    await database.close();
  }
}

/** As a text for psql. What was put back has policies and triggers by then, and has left the path to them empty. */
function sqlOf(entry: AuditRow): string {
  const quoted = (value: string | number | null) =>
    value === null ? 'null' : `'${String(value).replaceAll("'", "''")}'`;
  const [names, values] = [Object.keys(entry), Object.values(entry)];
  const head = Object.entries(headOf(entry)).map(([name, value]) => `${name} = ${quoted(value)}`);
  return `set local row_security = on; set local search_path = public;
    insert into audit_entries (${names.join(', ')}) values (${values.map(quoted).join(', ')});
    update audit_head set ${head.join(', ')};\n`;
}

async function requireNoServers(url: string, log: Log): Promise<void> {
  const users = connect({ client: 'pg', connection: url, pool: { min: 0, max: 1 } }, log);
  try {
    const { rows } = await users.raw(
      `select count(*)::int as others from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and application_name = 'service'`,
    );
    if (rows[0].others > 0) throw new Error('The database is in use by servers of service: stop them first.');
  } finally {
    await users.destroy();
  }
}

/**
 * One transaction, which ends well only by our own word: where one of the three programs dies, this one included, psql
 * reads to the end of what it was told, finds no `commit`, and the database is as it was. Nothing of the copy lies on
 * the disk in between.
 */
async function replaceRows(url: string, copy: string, last: string): Promise<void> {
  // Only the owner of an extension may comment on it, and that may be a superuser.
  const options = ['--no-owner', '--no-privileges', '--no-comments', '--file=-'];
  const reading = startProgram('pg_restore', [...options, copy], {});
  const writing = startProgram(
    'psql',
    ['--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', '--file=-'],
    variablesOf(url),
  );
  try {
    writing.input.write(`begin;\n${emptySchema};\n`);
    await Promise.all([
      // Where psql has gone, its own end says why.
      pipeline(reading.output, writing.input, { end: false }).catch(() => undefined),
      reading.ended,
    ]);
    writing.input.end(`${last}commit;\n`);
  } catch (error) {
    writing.input.destroy();
    // Where psql failed first, that is the reason.
    await writing.ended;
    throw error;
  }
  await writing.ended;
}

/** All that a service has made, tables that the copy does not know among them; what extensions brought stays. */
const emptySchema = `do $$ declare found record; begin
  for found in select oid::regclass as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
  loop execute 'drop table if exists ' || found.name || ' cascade'; end loop;
  for found in select oid::regprocedure as name from pg_proc
    where pronamespace = 'public'::regnamespace
      and not exists (select from pg_depend where objid = pg_proc.oid and deptype = 'e')
  loop execute 'drop function ' || found.name || ' cascade'; end loop;
end $$`;

async function stepsInDump(copy: string): Promise<AppliedStep[]> {
  const rows = await rowsInDump(copy, 'schema_versions', ['version', 'name']);
  if (rows.length === 0) throw new Error(`${copy} is no sound backup of service: nothing was changed.`);
  return rows.map(({ version, name }) => ({ version: Number(version), name }));
}
