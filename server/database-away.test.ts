/** PostgreSQL behind the server: the start, and what callers see while the database is away, silent, and back. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { createServiceClient } from '../clients/typescript/client.ts';
import { streamRunEvents } from '../clients/typescript/stream.ts';
import { lastingPort } from '../contract-tests/lasting-port.ts';
import type { Message, QueryResponse, Run } from './contract/api.ts';
import { runToEnd, startServer, temporaryFolder } from './server-process.ts';
import {
  type Answer,
  type AnyBody,
  type Client,
  clientOf,
  errorOf,
  type TestStream,
  textOf,
} from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const postgresUrl = inject('postgresUrl');

describe.skipIf(postgresUrl === null)('on PostgreSQL', () => {
  test('the server starts and answers a query', async () => {
    const { folder, variables } = await installation(await newDatabase());
    const server = await startServer({ folder, variables });
    expect(server.printed()).toMatch(/^ {2}database {2,}PostgreSQL$/m);
    const answer = await clientOf(server, server.key).post<QueryResponse>('/api/v1/query', {
      prompt: 'hello',
    });
    expect(answer).toMatchObject({ status: 200, body: { status: 'completed' } });
    expect(await server.stop()).toBe(0);
    const again = await startServer({ folder, variables });
    expect((await clientOf(again, server.key).get('/api/v1/users/me')).status).toBe(200);
  });

  test('it demands a master key that all nodes share, and says how to make one', async () => {
    const folder = await temporaryFolder();
    const { code, stderr } = await runToEnd({ folder, variables: { DATABASE_URL: await newDatabase() } });
    expect(code).toBe(1);
    expect(stderr).toContain('SERVICE_MASTER_KEY_FILE');
    expect(stderr).toContain('/dev/urandom');
  });

  test('two nodes share sessions and streams', async () => {
    const { folder, variables } = await installation(await newDatabase());
    const first = await startServer({ folder, variables });
    const second = await startServer({ folder, variables });
    const stream = await clientOf(first, first.key).stream('/api/v1/query/stream', { prompt: 'hello' });
    const elsewhere = await clientOf(second, first.key).stream(`/api/v1/runs/${stream.runId}/events`);
    await Promise.all([stream.ended, elsewhere.ended]);
    expect(elsewhere.events).toEqual(stream.events);
    expect(stream.events.at(-1)?.name).toBe('done');
  });

  test('a stop tells each of 100 streams whose run waits to connect again', async () => {
    const { folder, variables } = await installation(await newDatabase());
    const server = await startServer({ folder, variables: { ...variables, SERVICE_DRAIN_SECONDS: '0' } });
    const client = clientOf(server, server.key);
    const prompt = 'Write a file named hello.txt';
    const streams: TestStream[] = [];
    // By turns: where all of them wait for a connection at once, a busy machine refuses some.
    for (let turn = 0; turn < 5; turn += 1) {
      const some = Array.from({ length: 20 }, () => client.stream('/api/v1/query/stream', { prompt }));
      streams.push(...(await Promise.all(some)));
    }
    await Promise.all(
      streams.map((stream) =>
        stream.until(({ data }) => 'type' in data && data.type === 'permission_requested'),
      ),
    );
    expect(await server.stop()).toBe(0);
    await Promise.all(streams.map(({ ended }) => ended));
    for (const { events } of streams)
      expect(events.at(-1)).toMatchObject({ name: 'error', data: { error: /^draining: / } });
  });

  test('a database that nobody reaches stops the start in one sentence, without its password', async () => {
    const { folder, variables } = await installation('postgres://ada:canary-password@127.0.0.1:1/service');
    const { code, stdout, stderr } = await runToEnd({ folder, variables });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).not.toContain('canary');
    expect(
      stderr
        .trimEnd()
        .split('\n')
        .filter((line) => !line.startsWith('{')),
    ).toHaveLength(1);
    expect(stderr).toMatch(/database/i);
  });

  for (const [how, leave] of [
    ['refuses connections', (proxy: Proxy) => proxy.refuse()],
    ['says nothing any more', (proxy: Proxy) => proxy.silence()],
  ] as const)
    test(`while the database ${how} the server lives, is not ready, and refuses; then all is well again`, async () => {
      const proxy = await startProxy(await newDatabase());
      const { folder, variables } = await installation(proxy.url);
      const server = await startServer({ folder, variables });
      const client = clientOf(server, server.key);
      expect((await client.get('/ready')).status).toBe(200);

      leave(proxy);
      const refused = await within(5000, async () => (await client.get('/ready')).status === 503);
      expect(refused, 'not ready within 5 s').toBe(true);
      // Two seconds are promised where it says nothing. More than once, since a busy machine takes its time; but every look
      // takes five where it has no limit of its own, and waits for a connection as whatever else does.
      const soon = await within(30_000, async () => {
        const asked = performance.now();
        const answer = await client.get('/ready');
        expect(answer).toMatchObject({ status: 503, body: { code: 'database_unavailable' } });
        return performance.now() - asked < 4000;
      });
      expect(soon, 'refused within 4 s').toBe(true);
      const took: number[] = [];
      for (let time = 0; time < 5; time += 1) {
        const asked = performance.now();
        expect(await client.get('/health')).toMatchObject({ status: 200 });
        took.push(performance.now() - asked);
      }
      // None of them would be faster than the look at a silent database if it waited for one.
      expect(Math.min(...took)).toBeLessThan(1000);
      const answers = await timed(20_000, callAll(client));
      for (const { status, body } of answers)
        expect({ status, code: body.code }).toEqual({ status: 503, code: 'database_unavailable' });
      for (const { headers } of answers) expect(headers.get('retry-after')).toMatch(/^\d+$/);

      proxy.restore();
      expect(await within(15_000, async () => (await client.get('/ready')).status === 200)).toBe(true);
      const answer = await client.post<QueryResponse>('/api/v1/query', { prompt: 'hello' });
      expect(answer).toMatchObject({ status: 200, body: { status: 'completed' } });
      expect(server.log()).not.toMatch(/unhandled|\n\s+at /i);
      expect(await server.stop()).toBe(0);
    }, 90_000);

  for (const [which, words, awayMs, end] of [
    ['outlives an absence of the database goes on', 180, 1000, { status: 'completed', reason: null }],
    [
      'ends while the database is away goes on when it is back',
      60,
      4000,
      { status: 'completed', reason: null },
    ],
  ] as const)
    test(`a run that ${which}, and what it said is stored without a gap`, async () => {
      const proxy = await startProxy(await newDatabase());
      const { folder, variables } = await installation(proxy.url);
      const server = await startServer({ folder, variables: { ...variables, SERVICE_LEASE_SECONDS: '2' } });
      const client = clientOf(server, server.key);
      const stream = await client.stream('/api/v1/query/stream', { prompt: `say ${'word '.repeat(words)}` });
      await stream.until(({ name }) => name === 'message');
      proxy.refuse();
      await sleep(awayMs);
      proxy.restore();
      await stream.ended;
      // A reader who keeps up may not notice a short absence. Else the last event says so, and a client resumes behind it.
      if (stream.events.at(-1)?.name !== 'done') expect(errorOf(stream)).toMatch(/^database_unavailable: /);
      const run = await endOf(client, stream.runId);
      expect({ status: run.status, reason: run.interrupt_reason }).toEqual(end);
      const replayed = await client.stream(`/api/v1/runs/${run.id}/events?follow=false`);
      await replayed.ended;
      expect(replayed.events.map(({ seq }) => seq)).toEqual(replayed.events.map((_, index) => index + 1));
      const received = stream.events.slice(0, -1);
      expect(replayed.events.slice(0, received.length)).toEqual(received);
      expect(replayed.events.at(-1)).toMatchObject({ name: 'done', data: { status: end.status } });
      const { body } = await client.get<{ data: readonly Message[] }>(
        `/api/v1/sessions/${run.session_id}/messages?role=assistant`,
      );
      // What could not be stored is written again, as another message.
      for (const { id, parts } of body.data)
        expect(parts).toEqual([{ type: 'text', text: textOf(replayed.events, id) }]);
      expect(body.data.at(-1)).toMatchObject({ stop_reason: 'end_turn' });
      expect(await server.stop()).toBe(0);
    });

  test('the client reads a run to its end where the database was away until every stream had ended', async () => {
    const proxy = await startProxy(await newDatabase());
    const { folder, variables } = await installation(proxy.url);
    const server = await startServer({ folder, variables: { ...variables, SERVICE_LEASE_SECONDS: '2' } });
    const prompt = `say ${'word '.repeat(180)}`;
    const stream = await clientOf(server, server.key).stream('/api/v1/query/stream', { prompt });
    const client = createServiceClient({ baseUrl: server.url, token: server.key });
    const reading = Array.fromAsync(streamRunEvents(client, stream.runId));
    await stream.until(({ name }) => name === 'message');
    proxy.refuse();
    await stream.ended;
    expect(errorOf(stream)).toMatch(/^database_unavailable: /);
    proxy.restore();
    const events = await reading;
    const stored = events.flatMap(({ id }) => id ?? []);
    expect(stored).toEqual(stored.map((_, index) => index + 1));
    expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'completed' } });
    expect(await server.stop()).toBe(0);
  });
});

/** One of each kind: reads, writes, runs, logins. */
function callAll(client: Client): Promise<Answer<AnyBody>[]> {
  return Promise.all([
    client.get('/api/v1/users/me'),
    client.get('/api/v1/sessions'),
    client.post('/api/v1/sessions', { title: 'a session' }),
    client.post('/api/v1/query', { prompt: 'hello' }),
    client.post('/api/v1/auth/login', { email: 'ada@example.com', password: 'correct-horse-battery' }),
  ]);
}

async function endOf(client: Client, runId: string): Promise<Run> {
  for (;;) {
    const { status, body } = await client.get<Run>(`/api/v1/runs/${runId}`);
    if (status === 200 && body.ended_at !== null) return body;
    await sleep(100);
  }
}

async function installation(databaseUrl: string) {
  const folder = await temporaryFolder();
  return {
    folder,
    variables: { DATABASE_URL: databaseUrl, SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) },
  };
}

/** Stands between server and database, and can be taken away as a broken network is. */
interface Proxy {
  readonly url: string;
  /** Breaks every connection and takes no new one. */
  refuse(): void;
  /** Keeps every connection, and carries nothing any more. */
  silence(): void;
  restore(): void;
}

async function startProxy(databaseUrl: string): Promise<Proxy> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let silent = false;
  const carry = (from: Socket, to: Socket) => {
    sockets.add(from);
    from.on('data', (bytes) => {
      if (!silent) to.write(bytes);
    });
    from.on('error', () => to.destroy());
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
  };
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    carry(near, far);
    carry(far, near);
  });
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const port = await lastingPort();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    cut();
    server.close();
  });
  const url = new URL(databaseUrl);
  url.port = String(port);
  return {
    url: url.href,
    refuse() {
      server.close();
      cut();
    },
    silence() {
      silent = true;
    },
    restore() {
      silent = false;
      // What was swallowed cannot be made up for: as after a broken network, connections begin anew.
      cut();
      if (!server.listening) server.listen(port, '127.0.0.1');
    },
  };
}

async function within(limitMs: number, holds: () => Promise<boolean>): Promise<boolean> {
  const until = performance.now() + limitMs;
  while (performance.now() < until) {
    if (await holds()) return true;
    await sleep(50);
  }
  return false;
}

/** Fails where the answer takes longer. */
async function timed<T>(limitMs: number, answer: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no answer within ${limitMs} ms`)), limitMs);
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
