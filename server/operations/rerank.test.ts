/** Searches that a model puts into order, over HTTP: its scores, its failures, who may ask it, and who pays. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { createReranker } from '../knowledge/knowledge.ts';
import {
  type Account,
  type Answer,
  coded,
  type Json,
  mergePatch,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { databases, type LastingDatabase, lastingDatabase, newMasterKey } from '../test-database.ts';
import { makePeople, type People } from '../test-people.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const texts: Readonly<Record<string, string>> = {
  Herons: '# Herons\n\nWater, water: herons 🪶 wait in the water and eat fish.\n',
  Ducks: '# Ducks\n\nDucks 🦆 like the water of ponds.\n',
  Lilies: '# Lilies\n\nA lily floats where the water is still, as long as nobody disturbs it.\n',
  Bridges: '# Bridges\n\nOld bridges of stone stand in the water for hundreds of years, says the guide.\n',
};
const embedding = { when: { task: 'embedding' }, reply: {} };
const own = { when: { task: 'rerank' }, reply: { usage: { input: 9 } } };
/** What the model says of the first candidate, the second, and so on. */
const saying = (...scores: number[]) => ({
  results: scores.map((relevance_score, index) => ({ index, relevance_score })),
});
const script = (answer: object) =>
  upstream.script([embedding, { when: { task: 'rerank' }, reply: { text: JSON.stringify(answer) } }]);

describe.each(databases)('on %s', (database) => {
  let app: TestApp;
  let people: People;
  let folder: string;
  let kept: LastingDatabase;
  let corpus: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'service-rerank-'));
    kept = await lastingDatabase(database, folder);
    await upstream.script([embedding, own]);
    app = await testApp({
      config: {
        providers: {
          local: scriptedProvider(upstream, 'ranks'),
          claude: { ...scriptedProvider(upstream, 'opus'), type: 'anthropic' },
        },
      },
      settings: {
        ...{ databaseUrl: kept.url, masterKeyFile: await newMasterKey(folder), mode: 'multi' as const },
        outboundAllow: [new URL(upstream.url).origin],
      },
    });
    people = await makePeople(app);
    const change = { token: app.operatorKey, headers: { ...mergePatch, 'if-match': '*' } };
    const embedder = { ...change, body: { provider: 'local', model: 'vectors' } };
    expect((await app.request('PATCH', '/api/v1/settings/embedder', embedder)).status).toBe(200);
    corpus = (await send('POST', '/corpora', { name: 'Water' })).body.id;
    const documents = Object.entries(texts).map(([title, text]) => ({ title, text }));
    const { body: job } = await send('POST', `/corpora/${corpus}/documents`, { texts: documents });
    await vi.waitFor(
      async () =>
        expect((await send('GET', `/corpora/${corpus}/ingestion-jobs/${job.id}`)).body.status).toBe(
          'completed',
        ),
      { timeout: 60_000, interval: 50 },
    );
  });
  afterAll(async () => {
    await app.close();
    await kept.remove();
    await rm(folder, { recursive: true });
  });

  const send = (
    method: string,
    path: string,
    body?: Json,
    { token }: Pick<Account, 'token'> = people.owner,
  ) => app.request(method, `/api/v1${path}`, { token, ...(body !== undefined && { body }) });
  const search = (more: Json = {}, who?: Pick<Account, 'token'>): Promise<Answer> =>
    send('POST', `/corpora/${corpus}/search`, { query: 'water', mode: 'keyword', ...more }, who);
  const reranked = (more: Json = {}, rerank: Json = {}, who?: Pick<Account, 'token'>) =>
    search({ rerank: { model: 'local:ranks', ...rerank }, ...more }, who);
  const titles = ({ body }: Answer): string[] => body.data.map((hit: Json) => hit.document_title);
  const asked = async () => (await upstream.requests()).filter(({ path }) => path === '/v1/rerank');

  test.each(['keyword', 'vector', 'hybrid'])(
    'what %s finds is put into the order of the scores',
    async (mode) => {
      await script(saying(-2.5, 0.25, 0.5, 0.75));
      const before = titles(await search({ mode }));
      const answer = await reranked({ mode });
      expect(answer.body).toMatchObject({ mode, notice: null });
      expect(titles(answer)).toEqual(before.toReversed());
      expect(answer.body.data.map(({ score }: Json) => score)).toEqual([0.75, 0.5, 0.25, -2.5]);
      // As anybody cuts them out of what was sent.
      for (const { document_title, text, citation } of answer.body.data)
        expect([...(texts[document_title] ?? '')].slice(citation.start, citation.end).join('')).toBe(text);
      const [request] = await asked();
      expect(request?.headers).toMatchObject({ authorization: 'Bearer k' });
      expect(request?.body).toMatchObject({ model: 'ranks', query: 'water', top_n: 4 });
      expect(request?.body).toMatchObject({
        documents: expect.arrayContaining([expect.stringMatching(new RegExp(`^${before[0]}\n`))]),
      });
      const together = await send('POST', '/corpora/search', {
        ...{ corpus_ids: [corpus], query: 'water', mode, rerank: { model: 'local:ranks' } },
      });
      expect(together.body).toEqual(answer.body);
    },
  );

  test('a model that reads finds the answer that shares the most words', async () => {
    await upstream.script([embedding, own]);
    const answer = await reranked({ query: 'water, long nobody' });
    expect(titles(answer)[0]).toBe('Lilies');
    expect(answer.body.data.map(({ score }: Json) => score.toFixed(2))).toEqual([
      '1.00',
      '0.33',
      '0.33',
      '0.33',
    ]);
  });

  test('the first candidates alone are judged, then the least score counts, then how many are wanted', async () => {
    const before = titles(await search());
    await script(saying(0.1, 0.9));
    const two = await reranked({}, { candidates: 2 });
    expect(titles(two)).toEqual([before[1], before[0]]);
    await script(saying(0.1, 0.9, 0.7, 0.8));
    expect(titles(await reranked({ top_k: 2 }))).toEqual([before[1], before[3]]);
    expect(titles(await reranked({ min_score: 0.75 }))).toEqual([before[1], before[3]]);
    expect(titles(await reranked({ min_score: 0.75, top_k: 1 }))).toEqual([before[1]]);
  });

  test('where nothing was found no model is asked', async () => {
    await script(saying());
    expect((await reranked({ query: 'submarines' })).body).toEqual({
      data: [],
      mode: 'keyword',
      notice: null,
    });
    expect(await asked()).toEqual([]);
  });

  test('servers differ in what they call a score and in how they sort', async () => {
    const before = titles(await search());
    const scores = [0.2, 0.4, 0.1, 0.3].map((score, index) => ({ index, score }));
    await script({ results: [scores[2], scores[0], scores[3], scores[1]] });
    expect(titles(await reranked())).toEqual([1, 3, 0, 2].map((index) => before[index]));
  });

  test('a model that fails leaves the order of the search, and the notice says why', async () => {
    const { results } = saying(1, 2, 3, 4);
    const failing: Readonly<Record<string, object>> = {
      short: { results: results.slice(1) },
      twice: { results: [...results.slice(1), results[1]] },
      beyond: { results: results.map(({ index }) => ({ index: index + 1, relevance_score: 1 })) },
      wordy: { results: results.map(({ index }) => ({ index, relevance_score: 'high' })) },
      empty: { results: [null, null, null, null] },
      other: { data: results },
      bare: results,
    };
    await upstream.script([
      embedding,
      ...Object.entries(failing).map(([name, answer]) => ({
        when: { task: 'rerank', last_user: name },
        reply: { text: JSON.stringify(answer) },
      })),
      { when: { last_user: 'broken' }, fail: { kind: 'wrong_json' } },
      { when: { last_user: 'cut' }, fail: { kind: 'cut' } },
      { when: { last_user: 'refused' }, fail: { kind: 'status', status: 401 } },
    ]);
    const reasons = Object.fromEntries(Object.keys(failing).map((name) => [name, 'one score for each']));
    const all = {
      ...reasons,
      bare: 'one score for each',
      broken: 'failed',
      cut: 'failed',
      refused: 'API key',
    };
    await Promise.all(
      Object.entries(all).map(async ([name, reason]) => {
        const plain = await search({ query: `water ${name}` });
        // What it was to be held against are other scores than these.
        const answer = await reranked({ query: `water ${name}`, min_score: 1000 });
        expect([name, answer.status, answer.body.data]).toEqual([name, 200, plain.body.data]);
        expect(answer.body.notice).toMatch(
          /^Not reranked, and in the order of the search\. The model provider/,
        );
        expect(answer.body.notice).toContain(reason);
      }),
    );
  });

  test('a moment of the provider is waited for', async () => {
    const answer = { when: { task: 'rerank' }, reply: { text: JSON.stringify(saying(1, 2, 3, 4)) } };
    await upstream.script([embedding, { times: 1, fail: { kind: 'status', status: 429 } }, answer]);
    const before = titles(await search());
    const { body } = await reranked();
    expect(body.notice).toBeNull();
    expect(body.data[0].document_title).toBe(before[3]);
  });

  test('a model that says nothing is left when its time is over, and when nobody waits any more', async () => {
    await upstream.script([embedding, { when: { task: 'rerank' }, fail: { kind: 'hang' } }]);
    const asker = { userId: people.owner.user.id, workspaceId: people.workspaceId };
    const failures: unknown[] = [];
    const model = await app.services.runtime.reranking('local:ranks', asker);
    const order = (signal: AbortSignal, limitMs: number) =>
      createReranker({
        ...{ model, candidates: 5, limitMs },
        payer: { begin: async () => ({ spent: async () => undefined, end: async () => undefined }) },
        failed: (error) => failures.push(error),
      }).order('water', [{ text: 'Water.', score: 1 }], ({ text }) => text, signal);
    expect(await order(new AbortController().signal, 2000)).toEqual({
      found: null,
      notice: 'Not reranked, and in the order of the search. The model took longer than 2 s.',
    });
    expect(failures).toHaveLength(1);
    const gone = new AbortController();
    const given = expect(order(gone.signal, 100_000)).rejects.toThrow('gone');
    const outcomes = async () => (await asked()).map(({ outcome }) => outcome);
    await expect.poll(outcomes).toEqual(['aborted', 'open']);
    gone.abort(new Error('gone'));
    await given;
    await expect.poll(outcomes).toEqual(['aborted', 'aborted']);
  });

  test('a model that cannot, is not there or is somebody else’s is refused', async () => {
    await upstream.script([embedding, own]);
    const refusal = async (model: string, who?: Account) => coded(await reranked({}, { model }, who));
    expect(await refusal('claude:opus')).toEqual([422, 'reranker_unsuited']);
    expect(await refusal('demo:demo-1')).toEqual([422, 'reranker_unsuited']);
    expect(await refusal('nobody:ranks')).toEqual([404, 'model_not_found']);
    for (const bad of [{ candidates: 0 }, { candidates: 201 }, { model: '' }])
      expect(coded(await reranked({}, bad))).toEqual([400, 'invalid_request']);
    const setting = {
      ...{ scope: 'user', provider_id: 'hers', name: 'Hers', type: 'openai-compat' },
      ...{ base_url: `${upstream.url}/v1`, api_key: 'of-the-member', models: [{ id: 'any' }] },
    };
    expect((await send('POST', '/settings/providers', setting, people.member)).status).toBe(201);
    expect((await reranked({}, { model: 'hers:any' }, people.member)).body.notice).toBeNull();
    expect((await asked()).at(-1)?.headers).toMatchObject({ authorization: 'Bearer of-the-member' });
    expect(await refusal('hers:any')).toEqual([404, 'model_not_found']);
    const memories = { query: 'x', rerank: { model: 'hers:any' } };
    expect(coded(await send('POST', '/memories/search', memories))).toEqual([404, 'model_not_found']);
  });

  test('it needs the rights of a query, which a search alone does not', async () => {
    expect((await search({}, people.viewer)).status).toBe(200);
    expect(coded(await reranked({}, {}, people.viewer))).toEqual([403, 'role_required']);
    const made = await send('POST', '/auth/api-keys', { name: 'reads', scopes: ['corpora:read'] });
    const key = { token: made.body.key };
    expect((await search({}, key)).status).toBe(200);
    expect(coded(await reranked({}, {}, key))).toEqual([403, 'scope_required']);
  });

  test('what it uses counts for the caller and their key, and a used up quota is refused', async () => {
    await untilFarFromMidnight(20_000);
    await upstream.script([embedding, own]);
    const made = await send('POST', '/auth/api-keys', { name: 'asks', scopes: ['corpora:read', 'query'] });
    const { key: token, api_key } = made.body;
    const quota = { limits: { requests: { month: { hard: 1 } } } };
    expect((await send('PUT', `/quotas/api_key/${api_key.id}`, quota)).status).toBe(200);
    expect((await reranked({}, {}, { token })).body.notice).toBeNull();
    expect(coded(await reranked({}, {}, { token }))).toEqual([429, 'quota_exceeded']);
    expect((await search({}, { token })).status).toBe(200);
    const byKey = (await send('GET', '/usage?group_by=key')).body.data;
    expect(byKey).toContainEqual(
      expect.objectContaining({
        ...{ api_key_id: api_key.id, requests: 1 },
        usage: { input_tokens: 9, output_tokens: 0, cached_input_tokens: 0 },
      }),
    );
    const byModel = (await send('GET', '/usage?group_by=model')).body.data;
    expect(byModel).toContainEqual(expect.objectContaining({ model: 'local:ranks' }));
  });

  test('memories are put into order as well', async () => {
    await upstream.script([embedding, own]);
    for (const content of ['Deploys happen on Tuesdays.', 'Deploys need two people.', 'Deploys end at noon.'])
      expect((await send('POST', '/memories', { scope: 'user', content })).status).toBe(201);
    const find = async (more: Json = {}) => {
      const { body } = await send('POST', '/memories/search', { query: 'deploys', ...more });
      return { ...body, data: body.data.map(({ memory, score }: Json) => [memory.content, score]) };
    };
    const contents = ({ data }: Json): string[] => data.map(([content]: Json) => content);
    const rerank = { model: 'local:ranks' };
    const before = contents(await find());
    await script(saying(-1, 0.5, 0.75));
    const answer = await find({ rerank });
    expect(answer).toMatchObject({ mode: 'hybrid', notice: null });
    expect(answer.data).toEqual([
      [before[2], 0.75],
      [before[1], 0.5],
      [before[0], -1],
    ]);
    // Those that are judged are more than those that are answered.
    expect(contents(await find({ rerank, top_k: 1 }))).toEqual([before[2]]);
    expect((await asked()).at(-1)?.body).toMatchObject({ query: 'deploys', top_n: 3 });
    await script(saying(1, 2));
    expect(contents(await find({ rerank: { ...rerank, candidates: 2 } }))).toEqual([before[1], before[0]]);
    const failed = await find({ rerank, top_k: 2 });
    expect([contents(failed), failed.notice]).toEqual([
      before.slice(0, 2),
      expect.stringMatching(/^Not reranked/),
    ]);
  });
});
