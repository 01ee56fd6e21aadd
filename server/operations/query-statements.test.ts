/** What a plain query costs on PostgreSQL: each statement is a way to another machine and back, which nobody sees here. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { scriptedSettings } from '../server-process.ts';
import { type Account, type TestApp, testApp } from '../test-app.ts';
import { type LastingDatabase, lastingDatabase, newMasterKey } from '../test-database.ts';

describe.skipIf(inject('postgresUrl') === null)('on PostgreSQL', () => {
  let folder: string;
  let upstream: Upstream;
  let database: LastingDatabase;
  let counting: Counting;
  let app: TestApp;
  let ada: Account;

  beforeAll(async () => {
    upstream = await startUpstream();
    folder = await mkdtemp(join(tmpdir(), 'service-statements-'));
    database = await lastingDatabase('postgresql', folder);
    counting = await countStatements(database.url);
    const settings = { databaseUrl: counting.url, masterKeyFile: await newMasterKey(folder) };
    app = await testApp({ config: scriptedSettings(upstream.url), settings });
    ada = await app.register('ada');
    await upstream.script([{ reply: { text: 'Yes.' } }]);
    // What is read once, and connections that are there already.
    for (let turn = 0; turn < 2; turn += 1) await query();
  });
  afterAll(async () => {
    await app.close();
    counting.close();
    await database.remove();
    await upstream.stop();
    await rm(folder, { recursive: true });
  });

  /** How many statements there were before the headers, and in all until all was quiet. */
  async function query() {
    counting.begin();
    const sent = { token: ada.token, body: { prompt: 'hello' } };
    const response = await app.stream('POST', '/api/v1/query/stream', sent);
    const beforeHeaders = counting.statements().length;
    expect(await response.text()).toContain('event: done');
    await sleep(100);
    return { beforeHeaders, all: counting.statements() };
  }

  test('a plain query costs no more statements than it has to', async () => {
    const queries = [await query(), await query(), await query()];
    // A busy machine may renew the lease of the run meanwhile, which has its own price.
    const [all = []] = queries.map((one) => one.all).toSorted((one, other) => one.length - other.length);
    const beforeHeaders = Math.min(...queries.map((one) => one.beforeHeaders));
    // Another one is the price of something: whoever raises these numbers has looked for a way without it.
    expect(beforeHeaders).toBeLessThanOrEqual(26);
    expect(all.length, all.join('\n')).toBeLessThanOrEqual(62);
    // Else nothing was counted.
    expect(all.filter((statement) => statement.startsWith('insert into "runs"'))).toHaveLength(1);
  });

  /** Calls `/v1/messages` as most clients do: the body comes after the head. */
  async function message() {
    counting.begin();
    const body = JSON.stringify({
      model: 'scripted:scripted-1',
      max_tokens: 10,
      messages: [{ role: 'user', content: 'hello' }],
    });
    const headers = {
      Authorization: `Bearer ${ada.token}`,
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      Expect: '100-continue',
    };
    const sent = request(new URL('/v1/messages', app.url), { method: 'POST', headers });
    // The body is asked for once the credential was found good.
    sent.flushHeaders();
    await once(sent, 'continue');
    sent.end(body);
    const [answer] = await once(sent, 'response');
    expect(answer.statusCode).toBe(200);
    answer.resume();
    await sleep(100);
    return counting.statements();
  }

  test('nor does a call of the Messages surface, whose credential is looked for once', async () => {
    const calls = [await message(), await message(), await message()];
    // Of a machine that is busy the body may take a second, which has its own price.
    const [least = []] = calls.toSorted((one, other) => one.length - other.length);
    expect(least.length, least.join('\n')).toBeLessThanOrEqual(7);
    expect(least.filter((statement) => statement.includes('"logins"'))).toHaveLength(1);
  });
});

interface Counting {
  /** The database behind whoever counts. */
  readonly url: string;
  begin(): void;
  /** All since then but what the server asks by itself. */
  statements(): readonly string[];
  close(): void;
}

/** What is done every few seconds, whether or not anybody asks anything. */
const chores = [
  /"(job_runs|scheduled_jobs|ingestion_jobs|audit_\w+)"/,
  /^set role/,
  /count\(\*\) as "count" from "users"/,
];

async function countStatements(url: string): Promise<Counting> {
  const target = new URL(url);
  let statements: string[] = [];
  const server: Server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    const read = reader((statement) => statements.push(statement));
    client.on('data', (chunk: Buffer) => {
      read(chunk);
      upstream.write(chunk);
    });
    upstream.pipe(client);
    client.on('error', () => undefined).on('close', () => upstream.destroy());
    upstream.on('error', () => undefined).on('close', () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // It listens on a port.
  return {
    url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href,
    begin: () => {
      statements = [];
    },
    statements: () => statements.filter((statement) => !chores.some((chore) => chore.test(statement))),
    close: () => server.close(),
  };
}

/** Reads the messages of a client, of which Query and Parse hold statements: https://www.postgresql.org/docs/current/protocol-message-formats.html */
function reader(heard: (statement: string) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  let begun = false;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      // The first message has no type.
      const typed = begun ? 1 : 0;
      if (rest.length < typed + 4) return;
      const end = typed + rest.readUInt32BE(typed);
      if (rest.length < end) return;
      const type = begun ? String.fromCharCode(rest[0] ?? 0) : '';
      const texts = rest.toString('utf8', typed + 4, end).split('\0');
      if (type === 'Q') heard(texts[0]?.trim() ?? '');
      if (type === 'P') heard(texts[1]?.trim() ?? '');
      begun = true;
      rest = rest.subarray(end);
    }
  };
}
