/** The start of the server as people meet it: what it prints, whom it makes the operator, and what it refuses. */
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import knex from 'knex';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import type { TokenPair, User } from './contract/api.ts';
import { runToEnd, startServer, temporaryFolder, writeSettings } from './server-process.ts';
import { clientOf, textOf } from './test-client.ts';
import { newDatabase } from './test-database.ts';

const person = { email: 'ada@example.com', password: 'correct-horse-battery' };

/** The summary is the first that a server writes to its standard output. */
const killedAtItsSummary = {
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
    `process.stdout.write = () => process.kill(process.pid, 'SIGKILL')`,
  )}`,
};

describe('the first start on loopback', () => {
  test('prints a summary and, once, a key that acts for the operator', async () => {
    const folder = await temporaryFolder();
    const server = await startServer({ folder });
    expect(server.printed()).toMatch(/^service \d+\.\d+\.\d+ is listening on http:\/\/127\.0\.0\.1:\d+\n/);
    const rows = [...server.printed().matchAll(/^ {2}(\w+(?: \w+)?) {2,}\S/gm)].map(([, name]) => name);
    expect(rows).toEqual(
      expect.arrayContaining(['mode', 'registration', 'providers', 'sandbox', 'master key', 'database']),
    );
    const me = await clientOf(server, server.key).get<User>('/api/v1/users/me');
    expect(me).toMatchObject({ status: 200, body: { operator: true } });
    expect(server.log()).not.toContain(server.key);
    expect(await server.stop()).toBe(0);

    const again = await startServer({ folder });
    expect(again.printed()).not.toMatch(/sk-|token|curl/);
    expect(again.startedInMs).toBeLessThan(server.startedInMs + 5000);
    const still = await clientOf(again, server.key).get('/api/v1/users/me');
    expect(still.status).toBe(200);
  });

  test('says where the settings let commands reach the network', async () => {
    const folder = await temporaryFolder();
    await writeSettings(folder, { tools: { bash: { network: true } } });
    const server = await startServer({ folder });
    expect(server.printed()).toMatch(
      /^ {2}sandbox +(yes, bubblewrap; commands reach the network \(tools\.bash\.network\)|no: .+)$/m,
    );
  });

  test.each(['single', 'multi'])(
    'prints a curl that streams an answer as it stands, in the mode %s',
    async (mode) => {
      const server = await startServer({
        folder: await temporaryFolder(),
        variables: { SERVICE_MODE: mode },
      });
      const [, url, key, body] =
        /curl -N (\S+) \\\n\s+-H 'Authorization: Bearer (\S+)' \\\n\s+-H 'Content-Type: application\/json' \\\n\s+-d '(.+)'/.exec(
          server.printed(),
        ) ?? [];
      expect(url).toBe(`${server.url}/api/v1/query/stream`);
      const client = clientOf({ url: '' }, key);
      const stream = await client.stream(url ?? '', JSON.parse(body ?? ''));
      const asked = await stream.until(
        ({ name, data }) => name === 'runtime' && 'type' in data && data.type === 'permission_requested',
      );
      if (!('request' in asked.data)) throw new Error('The event holds no request.');
      const replied = await client.post(server.url + asked.data.request.reply_path, {
        decision: 'allow_once',
      });
      expect(replied.status).toBe(200);
      await stream.ended;
      expect(stream.events.at(-1)).toMatchObject({ name: 'done', data: { status: 'completed' } });
      expect(textOf(stream.events)).toContain('a script answers, not a model');
    },
  );

  test('does not lose the key where the port is taken: one sentence, and the next start prints it', async () => {
    const folder = await temporaryFolder();
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    onTestFinished(() => void other.close());
    const address = other.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    const refused = await runToEnd({ folder, args: ['--port', String(port)] });
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    const sentences = refused.stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
    expect(sentences).toEqual([
      expect.stringMatching(/^The port is taken: .+ Choose another with --port\.$/),
    ]);
    expect((await startServer({ folder })).key).toMatch(/^sk-/);
  });

  test('that is killed before it has printed the key has made nobody, and the next one prints another', async () => {
    const folder = await temporaryFolder();
    const killed = await runToEnd({ folder, args: ['--port', '0'], variables: killedAtItsSummary });
    expect(killed).toMatchObject({ code: null, stdout: '' });
    const server = await startServer({ folder });
    const me = await clientOf(server, server.key).get<User>('/api/v1/users/me');
    expect(me).toMatchObject({ status: 200, body: { operator: true } });
    await server.stop();
    expect((await startServer({ folder })).key).toBe('');
  });
});

describe('the first start beyond loopback', () => {
  const open = { args: ['--host', '0.0.0.0'] };

  test('prints a token; whoever registers with it first becomes the operator, and nobody else', async () => {
    const server = await startServer({ folder: await temporaryFolder(), ...open });
    expect(server.key).toBe('');
    expect(server.printed()).toMatch(/^ {2}registration {2,}by invitation/m);
    const token = tokenIn(server.printed());
    const client = clientOf(server);
    const without = await client.post('/api/v1/auth/register', person);
    expect(without).toMatchObject({ status: 403, body: { code: 'registration_refused' } });
    const first = await client.post<TokenPair>('/api/v1/auth/register', {
      ...person,
      bootstrap_token: token,
    });
    expect(first).toMatchObject({ status: 201, body: { user: { operator: true } } });
    const second = await client.post('/api/v1/auth/register', {
      ...person,
      email: 'grace@example.com',
      bootstrap_token: token,
    });
    expect(second).toMatchObject({ status: 403, body: { code: 'registration_refused' } });
  });

  test('makes one operator of fifty that use the token at once', async () => {
    const server = await startServer({ folder: await temporaryFolder(), ...open });
    const bootstrap_token = tokenIn(server.printed());
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        clientOf(server).post('/api/v1/auth/register', {
          ...person,
          email: `ada${index}@example.com`,
          bootstrap_token,
        }),
      ),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status !== 201).map(({ body }) => body.code)).toEqual(
      Array(49).fill('registration_refused'),
    );
  });

  test('prints a new token until there is an operator, and only the newest is good', async () => {
    const folder = await temporaryFolder();
    const first = await startServer({ folder, ...open });
    await first.stop();
    const second = await startServer({ folder, ...open });
    expect(tokenIn(second.printed())).not.toBe(tokenIn(first.printed()));
    const register = (token: string) =>
      clientOf(second).post('/api/v1/auth/register', { ...person, bootstrap_token: token });
    expect(await register(tokenIn(first.printed()))).toMatchObject({ status: 403 });
    expect(await register(tokenIn(second.printed()))).toMatchObject({ status: 201 });
    await second.stop();
    const third = await startServer({ folder, ...open });
    expect(third.printed()).not.toContain('bootstrap_token');
  });
});

describe('an operator from the settings', () => {
  test('is made at the first start, unattended, and logs in with that password', async () => {
    const folder = await temporaryFolder();
    const variables = { SERVICE_ADMIN_EMAIL: person.email, SERVICE_ADMIN_PASSWORD: person.password };
    const server = await startServer({ folder, variables, args: ['--host', '0.0.0.0'] });
    expect(server.printed()).toContain(`The operator ${person.email} was made`);
    expect(server.printed() + server.log()).not.toContain(person.password);
    const login = await clientOf(server).post<TokenPair>('/api/v1/auth/login', person);
    expect(login).toMatchObject({ status: 200, body: { user: { operator: true } } });
  });

  test('may have the password in a file', async () => {
    const folder = await temporaryFolder();
    const file = join(folder, 'password');
    await writeFile(file, `${person.password}\n`);
    const variables = { SERVICE_ADMIN_EMAIL: person.email, SERVICE_ADMIN_PASSWORD_FILE: file };
    const server = await startServer({ folder, variables });
    expect((await clientOf(server).post('/api/v1/auth/login', person)).status).toBe(200);
  });
});

describe('the settings of the process', () => {
  test('are all listed by --help with their values, secrets masked, and nothing starts', async () => {
    const folder = await temporaryFolder();
    const variables = {
      SERVICE_PORT: '1234',
      SERVICE_ADMIN_EMAIL: person.email,
      SERVICE_ADMIN_PASSWORD: 'canary-admin-password',
      DATABASE_URL: 'postgres://ada:canary-database-password@db.example.com/service',
    };
    const { code, stdout, stderr } = await runToEnd({ folder, variables, args: ['--help'] });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const listed = [...stdout.matchAll(/^ {2}(?:--[\w-]+, )?([A-Z_]+)$/gm)].map(([, name]) => name);
    const parts = join(import.meta.dirname, 'server-settings');
    const files = (await readdir(parts)).filter((name) => !name.endsWith('.test.ts'));
    const texts = files.map((name) => readFile(join(parts, name), 'utf8'));
    const source = (await Promise.all(texts)).join('\n');
    expect(listed.toSorted()).toEqual(
      [...source.matchAll(/^ +variable: '(\w+)',$/gm)].map(([, name]) => name).toSorted(),
    );
    expect(listed.length).toBeGreaterThan(15);
    // Each has a meaning and a value.
    expect(stdout.match(/^ {6}= \S/gm)).toHaveLength(listed.length);
    expect(stdout).toContain('= 1234 (from SERVICE_PORT)');
    expect(stdout).not.toContain('canary');
    expect(await readdir(folder)).toEqual([]);
  });

  test('that are wrong are named all at once, and nothing is created', async () => {
    const folder = await temporaryFolder();
    const variables = {
      SERVICE_LEASE_SECONDS: 'soon',
      SERVICE_MODE: 'many',
      SERVICE_ADMIN_EMAIL: 'ada@example.com',
    };
    const args = ['--port', 'http', '--colour', 'blue'];
    const { code, stdout, stderr } = await runToEnd({ folder, variables, args });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    for (const name of [
      '--port',
      'SERVICE_LEASE_SECONDS',
      'SERVICE_MODE',
      'SERVICE_ADMIN_PASSWORD',
      '--colour',
    ])
      expect(stderr).toContain(name);
    expect(stderr.trimEnd().split('\n')).toHaveLength(6);
    expect(await readdir(folder)).toEqual([]);
  });

  test('do not let the mode single listen to the world', async () => {
    const folder = await temporaryFolder();
    const { code, stderr } = await runToEnd({ folder, args: ['--host', '0.0.0.0', '--mode', 'single'] });
    expect(code).toBe(1);
    expect(stderr).toContain('single is for loopback only');
  });
});

describe('a global service.json that cannot be used', () => {
  test('stops the start with file, line, column and what to write, and nothing is created', async () => {
    const folder = await temporaryFolder();
    const file = await writeSettings(
      folder,
      '{\n  "providers": {\n    "mine": { "type": "openay" }\n  }\n}\n',
    );
    const { code, stdout, stderr } = await runToEnd({ folder });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(`${file}:3:`);
    expect(stderr).toContain('openai-compat');
    expect(stderr).not.toMatch(/\n\s+at /);
    expect(existsSync(join(folder, 'data'))).toBe(false);
  });

  test('of broken JSON is told of by its place, too', async () => {
    const folder = await temporaryFolder();
    const file = await writeSettings(folder, '{\n  "models": {\n');
    const { code, stderr } = await runToEnd({ folder });
    expect(code).toBe(1);
    expect(stderr).toMatch(new RegExp(`${file}:\\d+:\\d+`));
  });
});

test('a database of a newer version is left alone, and the message says what to do', async () => {
  const folder = await temporaryFolder();
  const server = await startServer({ folder });
  await server.stop();
  const sql = knex({
    client: 'sqlite3',
    connection: { filename: join(folder, 'data/service.db') },
    useNullAsDefault: true,
  });
  await sql('schema_versions').insert({ version: 999, name: 'later', applied_at: 0 });
  await sql.destroy();
  const { code, stderr } = await runToEnd({ folder });
  expect(code).toBe(1);
  expect(stderr).toContain('written by a newer version of service');
  expect(stderr).not.toMatch(/\n\s+at /);
});

test.skipIf(inject('postgresUrl') === null)(
  'PostgreSQL without a master key is refused before anything is changed in it',
  async () => {
    const url = await newDatabase('nothing');
    const refused = await runToEnd({ folder: await temporaryFolder(), variables: { DATABASE_URL: url } });
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('SERVICE_MASTER_KEY_FILE') });
    const sql = knex({ client: 'pg', connection: url });
    const tables = await sql('pg_tables').where({ schemaname: 'public' }).pluck('tablename');
    await sql.destroy();
    expect(tables).toEqual([]);
  },
);

test('a data directory that cannot be written is told of in one sentence', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'file'), '');
  const { code, stderr } = await runToEnd({ folder, args: ['--data-dir', join(folder, 'file/data')] });
  expect(code).toBe(1);
  expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  expect(stderr).toContain(join(folder, 'file/data'));
});

test('a start that fails after the port was opened ends the process all the same', async () => {
  const folder = await temporaryFolder();
  const variables = { SERVICE_ADMIN_EMAIL: 'x@example.com', SERVICE_ADMIN_PASSWORD: 'p'.repeat(2000) };
  const ended = await runToEnd({ folder, variables, args: ['--port', '0'] });
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain('SERVICE_ADMIN_PASSWORD');
});

function tokenIn(printed: string): string {
  const token = /^ {4}(\S{40,})$/m.exec(printed)?.[1];
  if (!token) throw new Error(`No token in:\n${printed}`);
  return token;
}
