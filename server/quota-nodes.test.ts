/** Quotas and rates over real processes: fifty runs at once on two nodes spend what one limit allows, and little more. */
import { describe, expect, inject, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Problem, QuotaUse, UsagePage } from './contract/api.ts';
import {
  type ServerProcess,
  scriptedSettings,
  startServer,
  temporaryFolder,
  writeSettings,
} from './server-process.ts';
import { untilFarFromMidnight } from './test-clock.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const together = 50;
/** What one answer of the scripted model uses. */
const tokens = 120;

interface Sent<Body> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  const here = test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null);

  /** One process on SQLite, two on PostgreSQL; with the operator, whose requests go to them by turns. */
  async function startNodes(answer: object, variables: Record<string, string> = {}) {
    await untilFarFromMidnight(60_000);
    const upstream = await startUpstream();
    await upstream.script([{ reply: { ...answer, usage: { input: 100, output: 20 } } }]);
    const folder = await temporaryFolder();
    await writeSettings(folder, scriptedSettings(upstream.url));
    const shared =
      database === 'SQLite'
        ? {}
        : { DATABASE_URL: await newDatabase(), SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };
    const start = () => startServer({ folder, variables: { ...shared, ...variables } });
    const first = await start();
    const nodes: ServerProcess[] = database === 'SQLite' ? [first] : [first, await start()];
    let asked = 0;
    const send = async <Body>(method: string, path: string, body?: object): Promise<Sent<Body>> => {
      asked += 1;
      const response = await fetch((nodes[asked % nodes.length] ?? first).url + path, {
        method,
        headers: {
          authorization: `Bearer ${first.key}`,
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify(body) }),
      });
      // What the caller asked for decides what comes.
      return { status: response.status, headers: response.headers, body: (await response.json()) as Body };
    };
    const { body: me } = await send<{ id: string }>('GET', '/api/v1/users/me');
    const limit = async (limits: object) =>
      expect((await send('PUT', `/api/v1/quotas/user/${me.id}`, { limits })).status).toBe(200);
    const queries = (heard: (answer: Sent<unknown>) => void = () => undefined) =>
      Promise.all(
        Array.from({ length: together }, async (_, index) => {
          const body = { prompt: `x ${index}` };
          const answer = await send<Problem & { stop_reason: string }>('POST', '/api/v1/query', body);
          heard(answer);
          return answer;
        }),
      );
    const sessionless = () =>
      send<Problem>('POST', '/v1/messages', {
        ...{ model: 'scripted:scripted-1', max_tokens: 9 },
        messages: [{ role: 'user', content: 'x' }],
      });
    const use = async (resource: string) =>
      (await send<{ data: QuotaUse[] }>('GET', '/api/v1/quotas')).body.data.find(
        (one) => one.resource === resource,
      );
    return { upstream, send, limit, queries, sessionless, use };
  }

  here(
    'of fifty queries at once as many begin as the limit of requests says',
    async () => {
      const { upstream, limit, queries, use, sessionless } = await startNodes({ text: 'Done.' });
      try {
        await limit({ requests: { day: { hard: 10 } } });
        const answers = await queries();
        const refused = answers.filter(({ status }) => status === 429);
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
        expect(refused).toHaveLength(together - 10);
        expect(await use('requests')).toMatchObject({ used: 10, hard: 10, window: 'day' });
        const [one] = refused;
        expect(one?.body).toMatchObject({
          code: 'quota_exceeded',
          quota: { subject_type: 'user', resource: 'requests', hard: 10, used: 10 },
        });
        const resetsIn = (Date.parse(one?.body.quota?.resets_at ?? '') - Date.now()) / 1000;
        expect(Number(one?.headers.get('retry-after'))).toBeGreaterThan(resetsIn - 60);
        expect(Number(one?.headers.get('retry-after'))).toBeLessThan(resetsIn + 60);
        expect((await sessionless()).status).toBe(429);
      } finally {
        await upstream.stop();
      }
    },
    180_000,
  );

  here(
    'of fifty runs at once none takes another step once the limit of tokens is passed',
    async () => {
      const listing = { tool_calls: [{ name: 'ls', arguments: {} }] };
      const { upstream, send, limit, queries, use } = await startNodes(listing);
      try {
        const hard = 20 * tokens;
        await limit({ tokens: { day: { hard } } });
        const answers = await queries();
        // Whoever began ends for it, and whoever came later was refused.
        for (const { status, body } of answers) expect([200, 429], JSON.stringify(body)).toContain(status);
        const began = answers.filter(({ status }) => status === 200);
        for (const { body } of began) expect(body.stop_reason).toBe('quota_exceeded');
        const used = (await use('tokens'))?.used ?? 0;
        expect(used).toBeGreaterThanOrEqual(hard);
        // Each run may have been at one step when the limit was met, and its title is a call, too.
        expect(used).toBeLessThanOrEqual(hard + 2 * began.length * tokens);
        const { body: usage } = await send<UsagePage>('GET', '/api/v1/usage?group_by=user');
        const [total] = usage.data;
        expect((total?.usage.input_tokens ?? 0) + (total?.usage.output_tokens ?? 0)).toBe(used);
      } finally {
        await upstream.stop();
      }
    },
    180_000,
  );

  here(
    'never more runs and calls are at work than the limit of both together',
    async () => {
      const { upstream, limit, queries, use, sessionless } = await startNodes({
        ...{ text: 'Slow and steady.', hold_after_chunks: 1 },
      });
      try {
        await limit({ concurrent_runs: { hard: 5 } });
        const calls = Promise.all([sessionless(), sessionless()]);
        await expect.poll(async () => (await use('concurrent_runs'))?.used).toBe(2);
        let refused = 0;
        const asked = queries(({ status }) => {
          if (status === 429) refused += 1;
        });
        // Only then may one end: its place would be free for the next.
        await expect.poll(() => refused).toBe(together - 3);
        expect(await use('concurrent_runs')).toMatchObject({
          used: 5,
          hard: 5,
          window: null,
          resets_at: null,
        });
        expect((await sessionless()).status).toBe(429);
        const releasing = setInterval(() => void upstream.release(), 100);
        const answers = await asked.finally(() => clearInterval(releasing));
        expect((await calls).map(({ status }) => status)).toEqual([200, 200]);
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
        expect(answers.filter(({ status }) => status === 429)).toHaveLength(together - 3);
        await expect.poll(async () => (await use('concurrent_runs'))?.used).toBe(0);
      } finally {
        await upstream.stop();
      }
    },
    180_000,
  );

  here(
    'of fifty requests of a class as many are let through as it allows',
    async () => {
      const { upstream, queries } = await startNodes(
        { text: 'Done.' },
        { SERVICE_RATE_LIMITS: 'run=10/600' },
      );
      try {
        const answers = await queries();
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
        const refused = answers.filter(({ status }) => status === 429);
        expect(refused).toHaveLength(together - 10);
        for (const { body, headers } of refused) {
          expect(body.code).toBe('rate_limited');
          expect(headers.get('ratelimit')).toMatch(/^"run";r=0;t=\d+$/);
          expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
        }
      } finally {
        await upstream.stop();
      }
    },
    180_000,
  );
});
