/** What the tests that kill the server have in common: chance that can be repeated, and what must hold after each kill. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import knex from 'knex';
import { expect } from 'vitest';
import type { Message, MetricsSnapshot, QueryResponse, Run, UsagePage } from './contract/api.ts';
import type { NumberedEvent } from './runtime/transcript.ts';
import { type ServerProcess, startServer } from './server-process.ts';
import { type Client, clientOf, type TestStream, textOf } from './test-client.ts';

/** Few in every run of the tests; a stress run asks for hundreds, and repeats one by its seed. */
export const kills = Number(process.env.CRASH_KILLS ?? 10);
/** Its starts are slower. */
export const killsOnPostgres = Number(process.env.CRASH_KILLS ?? 3);
export const seed = Number(process.env.CRASH_SEED ?? Math.trunc(Math.random() * 2 ** 31));
const leaseSeconds = 2;
/**
 * For several servers on one database: one that a busy machine lets stand still for as long as the lease loses its work to
 * another. That a process was killed is seen earlier.
 */
export const longLease = { SERVICE_LEASE_SECONDS: '6' };
/** E4 says lease + 5 s; the rest is for busy machines. */
const endBarMs = (leaseSeconds + 5 + 15) * 1000;

export async function startCrashing(
  folder: string,
  variables: Readonly<Record<string, string | undefined>> = {},
  through: readonly string[] = [],
): Promise<ServerProcess> {
  const server = await startServer({
    folder,
    through,
    variables: {
      SERVICE_LEASE_SECONDS: String(leaseSeconds),
      SERVICE_STRICT: 'true',
      ...variables,
    },
  });
  // A first start prints the operator's key before that counts, and answers nobody until it does: killed in between, it
  // has made no operator, and the next start prints another key.
  await clientOf(server).get('/health');
  return server;
}

/**
 * Stops one of several servers on a PostgreSQL database where it is, but not within a transaction: what that holds the
 * database would free after a minute.
 */
export async function standStill(server: ServerProcess, databaseUrl: string): Promise<void> {
  const sql = knex({ client: 'pg', connection: databaseUrl, pool: { min: 0, max: 1 } });
  try {
    for (;;) {
      server.signal('SIGSTOP');
      await sleep(500);
      // Those of a server at work are over sooner.
      const held = await sql('pg_stat_activity')
        .where({ datname: sql.raw('current_database()'), application_name: 'service' })
        .where({ state: 'idle in transaction' })
        .whereRaw("state_change < clock_timestamp() - interval '400 ms'");
      if (held.length === 0) return;
      server.signal('SIGCONT');
      await sleep(50);
    }
  } finally {
    await sql.destroy();
  }
}

/** mulberry32: the same numbers from the same seed, on every machine. */
export function randomFrom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The run once it is as asked for; E4 bounds how long that may take after a restart. */
export async function runThat(
  client: Client,
  runId: string,
  is: (run: Run) => boolean | Promise<boolean>,
  withinMs = endBarMs,
): Promise<Run> {
  const since = performance.now();
  for (;;) {
    const { status, body } = await client.get<Run>(`/api/v1/runs/${runId}`);
    expect(status, `the run ${runId}`).toBe(200);
    if (await is(body)) return body;
    expect(performance.now() - since, `${runId} is ${body.status}`).toBeLessThan(withinMs);
    await sleep(30);
  }
}

export const hasEnded = (run: Run): boolean => run.ended_at !== null;

/** The stored events: without a gap, ending in `done`, and the same that the client has received so far. */
export async function replay(
  client: Client,
  run: Run,
  received: readonly NumberedEvent[],
): Promise<readonly NumberedEvent[]> {
  const replayed = await client.stream(`/api/v1/runs/${run.id}/events?after=0&follow=false`);
  await replayed.ended;
  const { events } = replayed;
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.map(({ name }) => name).filter((name) => name === 'done' || name === 'error')).toEqual([
    'done',
  ]);
  expect(events.at(-1)).toMatchObject({ name: 'done', data: { status: run.status } });
  expect(run.last_event_id).toBe(events.length);
  expect(events.slice(0, received.length)).toEqual(received);
  return events;
}

/** What a client has received over several connections, without what has no number. */
export function numbered(...streams: readonly TestStream[]): readonly NumberedEvent[] {
  return streams.flatMap(({ events }) => events.filter(({ seq }) => !Number.isNaN(seq)));
}

/** E5: each message that was streamed is stored with exactly its text; the client has a prefix of it. */
export function expectText(
  messages: readonly Message[],
  events: readonly NumberedEvent[],
  received: readonly NumberedEvent[],
): void {
  const streamed = new Set(
    events.flatMap(({ name, data }) =>
      name === 'message' && data.type === 'text_delta' ? [data.message_id] : [],
    ),
  );
  for (const id of streamed) {
    const stored = textIn(messages.find((message) => message.id === id));
    expect(stored).toBe(textOf(events, id));
    expect(stored.startsWith(textOf(received, id))).toBe(true);
  }
}

/** What `done` says is what is stored. */
export function expectDone(messages: readonly Message[], events: readonly NumberedEvent[], run: Run): void {
  const done = events.at(-1)?.data as QueryResponse; // the last event is `done`, as was seen before
  const said = done.content.map((part) => part.text).join('');
  const last = messages.findLast(({ role }) => role === 'assistant');
  expect(said).toBe(textIn(last));
  if (run.status === 'completed') expect(done.id).toBe(last?.id);
  expect(messages.map(({ id }) => id)).toContain(done.id);
  const results = messages.flatMap(({ parts }) => parts.filter(({ type }) => type === 'tool_result'));
  expect(done.tool_results).toEqual(results);
  expect({ usage: done.usage, cost: done.cost }).toEqual({ usage: run.usage, cost: run.cost });
}

/** What was metered is what is stored, neither less nor more, and each run was one request, however often it was resumed. */
export async function expectMetered(client: Client): Promise<void> {
  const { body: metrics } = await client.get<MetricsSnapshot>('/api/v1/metrics');
  const { body: usage } = await client.get<UsagePage>('/api/v1/usage?group_by=user');
  const { input_tokens, output_tokens } = metrics.usage;
  const runs = Object.values(metrics.runs).reduce((sum, count) => sum + count);
  expect(usage.data).toMatchObject([{ requests: runs, usage: { input_tokens, output_tokens } }]);
  expect(input_tokens).toBeGreaterThan(0);
}

/** E9, seen by a reader of its own beside the running server. */
export async function expectSound(filename: string): Promise<void> {
  const sql = knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true });
  try {
    expect(await sql.raw('pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    expect(await sql.raw('pragma foreign_key_check')).toEqual([]);
  } finally {
    await sql.destroy();
  }
}

/** Asks the database of a server that is away, or beside one that is at work. */
export async function ask<T>(
  folder: string,
  question: (sql: ReturnType<typeof knex>) => PromiseLike<T>,
): Promise<T> {
  const filename = join(folder, 'data/service.db');
  const sql = knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true });
  try {
    return await question(sql);
  } finally {
    await sql.destroy();
  }
}

export async function messagesOf(client: Client, sessionId: string): Promise<readonly Message[]> {
  const { body } = await client.get<{ data: readonly Message[] }>(
    `/api/v1/sessions/${sessionId}/messages?limit=100`,
  );
  return body.data;
}

export function textIn(message: Message | undefined): string {
  return (message?.parts ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
}
