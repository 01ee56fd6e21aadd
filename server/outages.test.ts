/** A full disk, a database that another process keeps locked, a provider that is down: refused as such, and over without a restart. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import knex from 'knex';
import { expect, test } from 'vitest';
import { lastingPort } from '../contract-tests/lasting-port.ts';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Message, QueryResponse, Run, Session } from './contract/api.ts';
import {
  expectDone,
  expectSound,
  expectText,
  hasEnded,
  messagesOf,
  replay,
  runThat,
  startCrashing,
  textIn,
} from './crash-checks.ts';
import { type ServerProcess, scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { type AnyBody, type Client, clientOf, type TestStream } from './test-client.ts';
import { fillDisk, keepLittleRoom, mountsOfItsOwn, seenBy, smallDisk } from './test-disk.ts';

const write = (file_path: string, content: string) => ({ name: 'write', arguments: { file_path, content } });
const said = 'A file is written, word by word, as models speak. ';

/** An answer that stops in the middle until it is let go, or is given whole when it is asked for again; a file; the end. */
const rules = [
  {
    when: { last_user: '^work', step: 0 },
    times: 1,
    reply: { text: said, hold_after_chunks: 3, tool_calls: [write('one.txt', 'first')] },
  },
  { when: { last_user: '^work', step: 0 }, reply: { text: said, tool_calls: [write('one.txt', 'first')] } },
  { when: { last_user: '^work', step: 1 }, reply: { text: 'All is done.' } },
  { reply: { text: 'Hello.' } },
];

async function withUpstream(work: (upstream: Upstream, folder: string) => Promise<void>): Promise<void> {
  const upstream = await startUpstream();
  try {
    const folder = await temporaryFolder();
    await writeSettings(folder, scriptedSettings(upstream.url));
    await upstream.script(rules);
    await work(upstream, folder);
  } finally {
    await upstream.stop();
  }
}

/** A run whose answer has begun, and waits in the middle. */
async function beginHeld(client: Client, upstream: Upstream): Promise<TestStream> {
  const stream = await client.stream('/api/v1/query/stream', {
    prompt: 'work',
    permission_mode: 'accept_edits',
  });
  await stream.until(({ name, data }) => name === 'message' && data.type === 'text_delta');
  await upstream.latest(({ outcome, chunks_written }) => outcome === 'open' && chunks_written === 3);
  return stream;
}

/** What callers see while nothing can be stored: reads go on, whatever writes is refused, and liveness is not touched. */
async function expectRefused(client: Client, refusal: { status: number; code: string }): Promise<string[]> {
  const made: string[] = [];
  // What was begun just before may still find room.
  await expect
    .poll(async () => {
      const { status, body } = await client.post('/api/v1/sessions', { title: 'kept' });
      if (status === 201) made.push(body.id);
      return { status, code: body.code };
    })
    .toEqual(refusal);
  const query = await client.post('/api/v1/query', { prompt: 'hello' });
  expect({ status: query.status, code: query.body.code }).toEqual(refusal);
  const streamed: Promise<unknown> = client.stream('/api/v1/query/stream', { prompt: 'hello' });
  await expect(streamed).rejects.toThrow(`answers ${refusal.status}`);
  expect((await client.get('/api/v1/sessions')).status).toBe(200);
  expect((await client.get('/health')).status).toBe(200);
  return made;
}

/** Everything works again in the same process, and what was acknowledged is all that is there. */
async function expectRecovered(
  client: Client,
  stream: TestStream,
  acknowledged: readonly string[],
): Promise<Run> {
  await expect.poll(async () => (await client.post('/api/v1/query', { prompt: 'hello' })).status).toBe(200);
  const run = await runThat(client, stream.runId, hasEnded);
  expect(run).toMatchObject({ status: 'completed', steps: 2 });
  await stream.ended;
  const events = await replay(client, run, []);
  expect(stream.events).toEqual(events);
  const messages = await messagesOf(client, run.session_id);
  expectText(messages, events, stream.events);
  expectDone(messages, events, run);
  expectSaidOnce(messages);
  const { body: sessions } = await client.get<{ readonly data: readonly Session[] }>(
    '/api/v1/sessions?limit=100',
  );
  const kept = sessions.data.filter(({ title }) => title === 'kept').map(({ id }) => id);
  expect(kept.toSorted()).toEqual([...acknowledged].toSorted());
  const { body: runs } = await client.get<{ readonly data: readonly Run[] }>('/api/v1/runs?limit=100');
  expect(runs.data.filter((each) => !hasEnded(each))).toEqual([]);
  // One was held, one has shown that all is well: those that were refused have left none.
  expect(runs.data.map(({ status }) => status)).toEqual(['completed', 'completed']);
  return run;
}

function expectSaidOnce(messages: readonly Message[]): void {
  const whole = messages.filter(({ stop_reason }) => stop_reason !== 'interrupted');
  expect(whole.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
  expect([textIn(whole[1]), textIn(whole[3])]).toEqual([said, 'All is done.']);
  for (const draft of messages.filter(({ stop_reason }) => stop_reason === 'interrupted'))
    expect(said.startsWith(textIn(draft))).toBe(true);
}

test.skipIf(mountsOfItsOwn === null)(
  'a full disk is answered 507, keeps what was stored, and a run at work goes on when there is room again',
  () =>
    withUpstream(async (upstream, folder) => {
      const data = join(folder, 'data');
      const server = await startOn(folder, data, '16m');
      const client = clientOf(server, server.key);
      const stream = await beginHeld(client, upstream);
      const free = await fillDisk(seenBy(server.pid, data));
      const acknowledged = await expectRefused(client, { status: 507, code: 'storage_full' });
      await upstream.release();
      await expect.poll(() => server.log()).toContain('a run could not be stored');
      expect(await runThat(client, stream.runId, () => true)).toMatchObject({ status: 'running' });
      await free();
      await expectRecovered(client, stream, acknowledged);
      await expectSound(join(seenBy(server.pid, data), 'service.db'));
      expect(await server.stop()).toBe(0);
    }),
);

test.skipIf(mountsOfItsOwn === null)(
  'a disk with room for small writes and for no answer ends a run after a few answers, which have to be paid for',
  () =>
    withUpstream(async (upstream, folder) => {
      const calls = [write('one.txt', 'x'.repeat(4_000_000))];
      await upstream.script([
        { times: 1, reply: { text: said, hold_after_chunks: 3, tool_calls: calls } },
        { reply: { text: said, tool_calls: calls } },
      ]);
      const data = join(folder, 'data');
      const server = await startOn(folder, data, '16m');
      const client = clientOf(server, server.key);
      const stream = await beginHeld(client, upstream);
      await fillDisk(seenBy(server.pid, data));
      await upstream.release();
      let refusals = 0;
      const ended = await runThat(
        client,
        stream.runId,
        async (run) => {
          const refused = [...server.log().matchAll(/SQLITE_FULL/g)].length;
          // Room that comes in the middle of a write would let the answer through, piece by piece, on a busy machine.
          if (refused > refusals) await keepLittleRoom(seenBy(server.pid, data));
          refusals = refused;
          return hasEnded(run) || run.resumptions > 5;
        },
        45_000,
      );
      expect(ended).toMatchObject({ status: 'failed', error: { code: 'storage_full' }, steps: 0 });
      expect(ended.error?.message).toContain('no room for what the model answers');
      expect(await upstream.requests()).toHaveLength(1 + ended.resumptions);
      expect(ended.resumptions).toBeLessThanOrEqual(2);
      expect(await server.stop()).toBe(0);
    }),
);

test.skipIf(mountsOfItsOwn === null)(
  'a full disk of the workspaces is told to the model; a file that could not be written stays as it was',
  () =>
    withUpstream(async (upstream, folder) => {
      await upstream.script([
        { when: { step: 0 }, reply: { tool_calls: [write('one.txt', 'first')] } },
        {
          when: { step: 1 },
          reply: { text: said, hold_after_chunks: 3, tool_calls: [write('one.txt', 'x'.repeat(100_000))] },
        },
        { when: { step: 2 }, reply: { text: 'It is full.' } },
      ]);
      const workspaces = join(folder, 'workspaces');
      const server = await startOn(folder, workspaces, '1m', { SERVICE_WORKSPACES_DIR: workspaces });
      const client = clientOf(server, server.key);
      const stream = await beginHeld(client, upstream);
      const free = await fillDisk(seenBy(server.pid, workspaces));
      await upstream.release();
      const run = await runThat(client, stream.runId, hasEnded, 30_000);
      expect(run.status).toBe('completed');
      const messages = await messagesOf(client, run.session_id);
      const results = messages.flatMap(({ parts }) => parts.filter((part) => part.type === 'tool_result'));
      expect(results.map(({ is_error }) => is_error)).toEqual([false, true]);
      expect(results[1]?.content).toMatch(/no space|full/i);
      const { body: session } = await client.get<Session>(`/api/v1/sessions/${run.session_id}`);
      const workspace = join(seenBy(server.pid, workspaces), session.workspace_id);
      expect(await readFile(join(workspace, 'one.txt'), 'utf8')).toBe('first');
      expect((await readdir(workspace)).filter((name) => name !== 'one.txt')).toEqual([]);
      await free();
    }),
);

test(
  'a database that another process keeps locked is answered 503, and a run at work goes on afterwards',
  () =>
    withUpstream(async (upstream, folder) => {
      const server = await startCrashing(folder);
      const client = clientOf(server, server.key);
      const stream = await beginHeld(client, upstream);
      const other = knex({
        client: 'sqlite3',
        connection: { filename: join(folder, 'data/service.db') },
        useNullAsDefault: true,
      });
      try {
        await other.raw('begin immediate');
        const released = upstream.release();
        const acknowledged = await expectRefused(client, { status: 503, code: 'database_unavailable' });
        await released;
        await other.raw('rollback');
        await upstream.release();
        await expectRecovered(client, stream, acknowledged);
      } finally {
        await other.destroy();
      }
      await expectSound(join(folder, 'data/service.db'));
      expect(server.log()).not.toMatch(/unhandled/i);
      expect(await server.stop()).toBe(0);
    }),
  90_000,
);

test('while the provider is down a query fails with a clear error, and the next one finds it again', async () => {
  const folder = await temporaryFolder();
  const port = String(await lastingPort());
  const first = await startUpstream('--port', port);
  await writeSettings(folder, {
    ...scriptedSettings(first.url),
    options: { limits: { max_attempts: 1 } },
  });
  const server = await startCrashing(folder);
  const client = clientOf(server, server.key);
  await first.stop();
  const refused = await client.post<AnyBody>('/api/v1/query', { prompt: 'hello' });
  expect(refused).toMatchObject({ status: 502, body: { code: 'provider_failed' } });
  const stream = await client.stream('/api/v1/query/stream', { prompt: 'hello' });
  await stream.ended;
  expect(stream.events.at(-1)).toMatchObject({ name: 'error' });
  const second = await startUpstream('--port', port);
  try {
    const answer = await client.post<QueryResponse>('/api/v1/query', { prompt: 'hello' });
    expect(answer).toMatchObject({ status: 200, body: { status: 'completed' } });
  } finally {
    await second.stop();
  }
});

/** A server for which this folder is a small disk. */
async function startOn(
  folder: string,
  disk: string,
  size: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<ServerProcess> {
  return startCrashing(folder, variables, await smallDisk(disk, size));
}
