/** The programs of PostgreSQL that copy a database and put a copy back. */
import { spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';

/** The password goes by the environment: others on the machine see arguments. */
export function variablesOf(url: string): NodeJS.ProcessEnv {
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

export interface Program {
  readonly input: Writable;
  readonly output: Readable;
  /** Rejects with what the program has to say where it fails. */
  readonly ended: Promise<void>;
}

export function startProgram(
  program: string,
  args: readonly string[],
  variables: NodeJS.ProcessEnv,
): Program {
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

export async function outputOf(
  program: string,
  args: readonly string[],
  variables: NodeJS.ProcessEnv,
): Promise<string> {
  const { input, output, ended } = startProgram(program, args, variables);
  input.end();
  const [read] = await Promise.all([text(output), ended]);
  return read;
}

/** Columns of the rows that a copy has of a table; none where it has no such table. */
export async function rowsInDump<Column extends string>(
  copy: string,
  table: string,
  wanted: readonly Column[],
): Promise<Record<Column, string>[]> {
  const dumped = await outputOf('pg_restore', ['--data-only', `--table=${table}`, '--file=-', copy], {});
  const [, names = '', lines = ''] = /^COPY \S+ \(([^)]*)\) FROM stdin;\n(.*?)^\\\.$/ms.exec(dumped) ?? [];
  const columns = names.split(', ');
  return lines
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const values = line.split('\t');
      const cells = wanted.map((column) => [column, values[columns.indexOf(column)] ?? '']);
      return Object.fromEntries(cells) as Record<Column, string>; // one cell for each that is wanted
    });
}
