/** Copies a database while it is in use, and puts a copy back: each of the two is done whole, or not at all. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, copyFile, link, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { pathToFileURL } from 'node:url';
import type { Knex } from 'knex';
import type { Log } from '../log.ts';
import { syncToDisk } from '../sync-to-disk.ts';
import { type FilesOfBackup, type NamedObjects, othersOf, putFilesBack, takeFiles } from './backup-files.ts';
import { connect } from './database.ts';
import type { AppliedStep } from './migrate.ts';

export interface RestoreOptions {
  readonly log: Log;
  /** The folder of the files that people upload. */
  readonly files: string;
  /** Throws where this program is not the one to open a database with these steps. */
  readonly check: (steps: readonly AppliedStep[]) => void;
}

/**
 * Writes a copy of the database at `url` to a new file, readable for its owner alone, and of the files in the folder
 * `files` to a folder beside it. What is there already stays.
 */
export async function backUp(url: string, target: string, log: Log, files?: string): Promise<FilesOfBackup> {
  for (const place of [target, filesOf(target)])
    if (await exists(place)) throw new Error(`${place} is there already; name another file.`);
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  const draft = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString('hex')}`);
  try {
    const taken =
      files === undefined
        ? await copyDatabase(url, draft, log).then(() => noFiles)
        : await takeFiles(files, filesOf(draft), async () => {
            await rm(draft, { force: true });
            await copyDatabase(url, draft, log);
            return objectsIn(url, draft, log);
          });
    await chmod(draft, 0o600);
    await syncToDisk(draft);
    if (await exists(filesOf(draft))) await rename(filesOf(draft), filesOf(target));
    // Unlike a rename, a link never takes the place of a file.
    await link(draft, target);
    await syncToDisk(dirname(target));
    return taken;
  } finally {
    await rm(draft, { force: true });
    await rm(filesOf(draft), { recursive: true, force: true });
  }
}

const noFiles = { copied: 0, inBuckets: 0, lost: 0 };

/** The folder with the files of a copy. */
export function filesOf(copy: string): string {
  return `${copy}.files`;
}

async function copyDatabase(url: string, draft: string, log: Log): Promise<void> {
  // Whoever opened the draft while it was written could read all of it later: both engines keep the mode of what is there.
  await (await open(draft, 'wx', 0o600)).close();
  if (url.startsWith('sqlite:')) return copySqlite(url.slice('sqlite:'.length), draft, log);
  await outputOf(
    'pg_dump',
    ['--format=custom', '--enable-row-security', '--no-owner', '--no-privileges', `--file=${draft}`],
    variablesOf(url),
  );
}

interface ObjectOfCopy {
  readonly key: string;
  readonly backend: string;
  readonly state: string;
}

/** What a copy says of objects; nothing where it is older than they are. */
async function objectsIn(url: string, copy: string, log: Log): Promise<NamedObjects> {
  const rows = url.startsWith('sqlite:')
    ? await withSqlite(`${pathToFileURL(copy).href}?mode=ro`, log, async (sql) =>
        (await sql.schema.hasTable('stored_objects'))
          ? sql<ObjectOfCopy>('stored_objects').select('key', 'backend', 'state')
          : [],
      )
    : await objectsInDump(copy);
  const onDisk = rows.filter(({ backend }) => backend === 'fs');
  return {
    kept: onDisk.filter(({ state }) => state === 'kept').map(({ key }) => key),
    others: onDisk.filter(({ state }) => state === 'uploading').map(({ key }) => key),
    inBuckets: rows.filter(({ backend, state }) => backend === 's3' && state === 'kept').length,
  };
}

async function objectsInDump(copy: string): Promise<ObjectOfCopy[]> {
  const text = await outputOf('pg_restore', ['--data-only', '--table=stored_objects', '--file=-', copy], {});
  const [, names = '', lines = ''] = /^COPY \S+ \(([^)]*)\) FROM stdin;\n(.*?)^\\\.$/ms.exec(text) ?? [];
  const columns = names.split(', ');
  return lines
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const values = line.split('\t');
      const value = (name: string) => values[columns.indexOf(name)] ?? '';
      return { key: value('key'), backend: value('backend'), state: value('state') };
    });
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
  const others = named && (await othersOf(files, named));
  const put = named && (await putFilesBack(filesOf(copy), files, named));
  try {
    if (url.startsWith('sqlite:')) await restoreSqlite(url.slice('sqlite:'.length), copy, options);
    else await restorePostgres(url, copy, options);
  } catch (error) {
    await put?.undo();
    throw error;
  }
  await others?.remove();
  return put?.lost ?? 0;
}

async function requireUnused(url: string, log: Log): Promise<void> {
  if (!url.startsWith('sqlite:')) return requireNoServers(url, log);
  const file = url.slice('sqlite:'.length);
  if (await exists(file)) await closeForGood(file, log);
}

/** One statement within one snapshot: whoever writes meanwhile neither waits nor has it begin anew. */
async function copySqlite(file: string, draft: string, log: Log): Promise<void> {
  await withSqlite(`${pathToFileURL(file).href}?mode=ro`, log, async (sql) => {
    await sql.raw('vacuum into ?', [draft]);
  });
}

async function restoreSqlite(file: string, copy: string, { log, check }: RestoreOptions): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    await copyFile(copy, draft);
    await chmod(draft, 0o600);
    check(await examineCopy(draft, copy, log));
    await syncToDisk(draft);
    if (await exists(file)) await closeForGood(file, log);
    else await setAsideLogs(file, log);
    await rename(draft, file);
    await syncToDisk(dirname(file));
  } finally {
    await rm(draft, { force: true });
  }
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

async function withSqlite<T>(filename: string, log: Log, work: (sql: Knex) => Promise<T>): Promise<T> {
  const settings = { client: 'sqlite3', connection: { filename, flags: ['OPEN_URI', 'OPEN_READWRITE'] } };
  const sql = connect({ ...settings, pool: { min: 0, max: 1 } }, log);
  try {
    return await work(sql);
  } finally {
    await sql.destroy();
  }
}

async function restorePostgres(url: string, copy: string, { log, check }: RestoreOptions): Promise<void> {
  check(await stepsInDump(copy));
  await requireNoServers(url, log);
  await replaceRows(url, copy);
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
async function replaceRows(url: string, copy: string): Promise<void> {
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
    writing.input.end('commit;\n');
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

/** Reads the rows of `schema_versions` out of the archive. */
async function stepsInDump(copy: string): Promise<AppliedStep[]> {
  const rows = await outputOf('pg_restore', ['--data-only', '--table=schema_versions', '--file=-', copy], {});
  const steps = [...rows.matchAll(/^(\d+)\t(\S+)\t\d+$/gm)].map(([, version, name]) => ({
    version: Number(version),
    name: String(name),
  }));
  if (steps.length === 0) throw new Error(`${copy} is no sound backup of service: nothing was changed.`);
  return steps;
}

/** The password goes by the environment: others on the machine see arguments. */
function variablesOf(url: string): NodeJS.ProcessEnv {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  const host = searchParams.get('host') ?? decodeURIComponent(hostname);
  return {
    ...(host && { PGHOST: host }),
    ...(port && { PGPORT: port }),
    ...(username && { PGUSER: decodeURIComponent(username) }),
    ...(password && { PGPASSWORD: decodeURIComponent(password) }),
    ...tlsVariablesOf(searchParams),
    PGDATABASE: decodeURIComponent(pathname.slice(1)),
    // The policies hold for the owner, too: it asks for the rows of all organizations.
    PGOPTIONS: '-c service.organizations=*',
  };
}

/**
 * That nothing is to be verified the driver says with a word of its own; to the programs it is `require`, but that
 * verifies as soon as they are given an authority.
 */
function tlsVariablesOf(parameters: URLSearchParams): NodeJS.ProcessEnv {
  const mode = parameters.get('sslmode');
  const authority = mode === 'no-verify' ? null : parameters.get('sslrootcert');
  const [certificate, key] = [parameters.get('sslcert'), parameters.get('sslkey')];
  return {
    ...(mode && { PGSSLMODE: mode === 'no-verify' ? 'require' : mode }),
    ...(authority && { PGSSLROOTCERT: authority }),
    ...(certificate && { PGSSLCERT: certificate }),
    ...(key && { PGSSLKEY: key }),
  };
}

interface Program {
  readonly input: Writable;
  readonly output: Readable;
  /** Rejects with what the program has to say where it fails. */
  readonly ended: Promise<void>;
}

function startProgram(program: string, args: readonly string[], variables: NodeJS.ProcessEnv): Program {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, LC_ALL: 'C', ...variables };
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], env });
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  // Whoever does not read what it is given has ended, and says itself why.
  child.stdin.on('error', () => undefined);
  child.once('error', (cause) => reject(new Error(`${program} cannot be run: ${installHint}`, { cause })));
  child.once('close', (code) =>
    code === 0 ? resolve() : reject(new Error(`${program} failed: ${reasonOf(said)}`)),
  );
  // Asked for later: until then it is nobody's fault that it failed.
  ended.catch(() => undefined);
  return { input: child.stdin, output: child.stdout, ended };
}

const installHint =
  'install the client programs of PostgreSQL in the version of your server, as postgresql-client-18.';

/** A program of an older version does not read a newer server. */
function reasonOf(said: string): string {
  return said.includes('server version mismatch') ? `${said.trim()}; ${installHint}` : said.trim();
}

async function outputOf(
  program: string,
  args: readonly string[],
  variables: NodeJS.ProcessEnv,
): Promise<string> {
  const { input, output, ended } = startProgram(program, args, variables);
  input.end();
  const [read] = await Promise.all([text(output), ended]);
  return read;
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );
}
