/** Requests with an Idempotency-Key over real processes: one effect, whoever is killed and whoever is asked. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import { randomFrom, seed, startCrashing } from './crash-checks.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

interface Sent {
  readonly status: number;
  readonly body: { readonly id?: string; readonly run_id?: string; readonly data: readonly unknown[] };
}

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  const here = test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null);
  const variablesIn = async (folder: string) =>
    database === 'SQLite'
      ? {}
      : { DATABASE_URL: await newDatabase(), SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };

  here(
    'twenty tries over five kills make one session and begin one run',
    async () => {
      console.info(`idempotency test: CRASH_SEED=${seed}`);
      const random = randomFrom(seed);
      const upstream = await startUpstream();
      try {
        await upstream.script([{ reply: { text: 'Done, word by word. ', repeat: 5, chunk_delay_ms: 20 } }]);
        const folder = await temporaryFolder();
        const variables = await variablesIn(folder);
        await writeSettings(folder, scriptedSettings(upstream.url));
        let server = await startCrashing(folder, variables);
        const { key } = server;
        const seen = { sessions: new Set<string>(), runs: new Set<string>() };
        const tryAll = async () => {
          const session = await send(server.url, key, '/api/v1/sessions', { title: 'One', tags: ['one'] });
          if (session?.status === 201) seen.sessions.add(session.body.id ?? '');
          const query = await send(server.url, key, '/api/v1/query', { prompt: 'Once' });
          if (query?.status === 200) seen.runs.add(query.body.run_id ?? '');
          return [session?.status, query?.status];
        };
        for (let kill = 0; kill < 5; kill += 1) {
          const tries = Promise.all([tryAll(), tryAll(), tryAll()]);
          // From before the first transaction to the middle of the run.
          await sleep(random() * 150);
          await server.kill9();
          await tries;
          server = await startCrashing(folder, variables);
        }
        await expect.poll(tryAll, { interval: 200 }).toEqual([201, 200]);
        await tryAll();
        expect(seen.sessions.size).toBe(1);
        expect(seen.runs.size).toBe(1);
        const count = async (path: string) => (await send(server.url, key, path))?.body.data.length;
        expect(await count('/api/v1/sessions?tag=one')).toBe(1);
        expect(await count('/api/v1/runs')).toBe(1);
        // That of the run is the other one.
        expect(await count('/api/v1/sessions')).toBe(2);
      } finally {
        await upstream.stop();
      }
    },
    180_000,
  );

  here('a stream that a kill has cut is the stream of the same run when it is asked for again', async () => {
    const upstream = await startUpstream();
    try {
      await upstream.script([{ reply: { text: 'Word by word. ', repeat: 20, chunk_delay_ms: 20 } }]);
      const folder = await temporaryFolder();
      const variables = await variablesIn(folder);
      await writeSettings(folder, scriptedSettings(upstream.url));
      const server = await startCrashing(folder, variables);
      const { key } = server;
      const path = '/api/v1/query/stream';
      const cut = await ask(server.url, key, path, { prompt: 'Once' });
      expect(cut.status).toBe(200);
      // Some of it has been read when the server dies.
      await cut.body?.getReader().read();
      await server.kill9();
      const next = await startCrashing(folder, variables);
      const again = await ask(next.url, key, path, { prompt: 'Once' });
      expect(again.headers.get('x-run-id')).toBe(cut.headers.get('x-run-id'));
      const text = await again.text();
      expect(text.match(/^id: \d+$/m)?.[0]).toBe('id: 1');
      expect(text.match(/^event: (done|error)$/gm)).toEqual(['event: done']);
      expect((await ask(next.url, key, path, { prompt: 'Another' })).status).toBe(422);
      const runs = await send(next.url, key, '/api/v1/runs');
      expect(runs?.body.data).toHaveLength(1);
    } finally {
      await upstream.stop();
    }
  });

  here(
    'a call of /v1/messages that a kill has cut is made again, and answered from then on, by every process',
    async () => {
      const upstream = await startUpstream();
      try {
        await upstream.script([
          { times: 1, reply: { text: 'Never heard to its end.', hold_after_chunks: 1 } },
          { reply: { text: 'Done.' } },
        ]);
        const folder = await temporaryFolder();
        const variables = await variablesIn(folder);
        await writeSettings(folder, scriptedSettings(upstream.url));
        const server = await startCrashing(folder, variables);
        const { key } = server;
        const call = (content: string) => ({
          ...{ model: 'scripted:scripted-1', max_tokens: 9 },
          messages: [{ role: 'user', content }],
        });
        const cut = send(server.url, key, '/v1/messages', call('x'));
        await upstream.latest(() => true);
        await server.kill9();
        expect(await cut).toBeNull();
        const next = await startCrashing(folder, variables);
        const other = await startCrashing(folder, variables);
        const made = await send(next.url, key, '/v1/messages', call('x'));
        expect(made?.status).toBe(200);
        for (const node of [next, other])
          expect(await send(node.url, key, '/v1/messages', call('x'))).toEqual(made);
        const reused = await send(other.url, key, '/v1/messages', call('y'));
        expect([400, 422]).toContain(reused?.status);
        expect(await upstream.requests()).toHaveLength(2);
      } finally {
        await upstream.stop();
      }
    },
  );

  here('of requests to two processes at once one is done, and both give its answer', async () => {
    const folder = await temporaryFolder();
    const variables = await variablesIn(folder);
    const one = await startCrashing(folder, variables);
    const other = await startCrashing(folder, variables);
    for (let round = 0; round < 10; round += 1) {
      const title = `round ${round}`;
      const ask = (url: string) => send(url, one.key, '/api/v1/sessions', { title, tags: ['two'] }, title);
      const both = await Promise.all([ask(one.url), ask(other.url)]);
      for (const answer of both) expect([201, 409]).toContain(answer?.status);
      const later = await Promise.all([ask(one.url), ask(other.url)]);
      expect(later.map((answer) => answer?.status)).toEqual([201, 201]);
      expect(new Set(later.map((answer) => answer?.body.id)).size).toBe(1);
    }
    const listed = await send(one.url, one.key, '/api/v1/sessions?tag=two');
    expect(listed?.body.data).toHaveLength(10);
  });
});

function ask(url: string, token: string, path: string, body: object): Promise<Response> {
  return fetch(url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'idempotency-key': 'the-key-of-a-stream',
    },
    body: JSON.stringify(body),
  });
}

/** Null where the server was killed meanwhile. */
async function send(
  url: string,
  token: string,
  path: string,
  body?: object,
  key = `the key of ${path}`.replaceAll(' ', '-'),
): Promise<Sent | null> {
  try {
    const response = await fetch(url + path, {
      method: body ? 'POST' : 'GET',
      headers: {
        authorization: `Bearer ${token}`,
        ...(body && { 'content-type': 'application/json', 'idempotency-key': key.replaceAll(' ', '-') }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Sent['body'] };
  } catch (error) {
    // What fetch says of a connection that was refused or cut.
    if (error instanceof TypeError) return null;
    throw error;
  }
}
