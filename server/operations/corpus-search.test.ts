/** Searching corpora over HTTP: what is found, where it stands, and what a stranger is told. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../ids.ts';
import { createPassageSearch, type EmbeddedCorpora } from '../knowledge/search.ts';
import { Problem } from '../problem.ts';
import type { Reach } from '../store/store.ts';
import { type Account, type Answer, coded, type Json, type TestApp, testApp } from '../test-app.ts';
import { type WrittenDocument, writeDocuments } from '../test-passages.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;
let corpus: string;
let texts: Map<string, string>;

const birds: WrittenDocument = {
  id: newId('document'),
  title: 'Birds 🐦',
  metadata: { kind: 'animal' },
  passages: [
    { text: 'Herons 🪶 wait in shallow water.\nThey eat fish.', headings: ['Birds', 'Herons'] },
    { text: 'Swifts sleep while they fly 😴.', headings: ['Birds', 'Swifts'] },
    { text: 'Ducks like water.', headings: ['Birds', 'Ducks'] },
  ],
};
const plants: WrittenDocument = {
  id: newId('document'),
  title: 'Plants',
  metadata: { kind: 'plant' },
  passages: [{ text: 'Water lilies float.' }],
};

async function newCorpus(name: string, token: string): Promise<string> {
  return (await app.request('POST', '/api/v1/corpora', { token, body: { name } })).body.id;
}

const search = (body: Json, id = corpus, { token }: Account = ada): Promise<Answer> =>
  app.request('POST', `/api/v1/corpora/${id}/search`, { token, body });

const chunks = (id: string, query = '', { token }: Account = ada): Promise<Answer> =>
  app.request('GET', `/api/v1/corpora/${corpus}/documents/${id}/chunks${query}`, { token });

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('Ada');
  mallory = await app.register('Mallory');
  corpus = await newCorpus('Nature', ada.token);
  texts = await writeDocuments(app.services, corpus, [birds, plants]);
});
afterAll(() => app.close());

/** As a client in any language cuts: by code points. */
function cut(hit: Json): string {
  return [...(texts.get(hit.document_id) ?? '')].slice(hit.citation.start, hit.citation.end).join('');
}

describe('a search', () => {
  test('finds passages by their words, with headings, and says where each stands', async () => {
    const { status, body } = await search({ query: 'Which herons like the water?', mode: 'keyword' });
    expect(status).toBe(200);
    expect(body).toMatchObject({ mode: 'keyword', notice: null });
    expect(body.data.map((hit: Json) => hit.text)).toEqual([
      birds.passages[0]?.text,
      birds.passages[2]?.text,
      plants.passages[0]?.text,
    ]);
    expect(body.data[0]).toMatchObject({
      corpus_id: corpus,
      document_id: birds.id,
      document_title: 'Birds 🐦',
      keyword_rank: 1,
      vector_rank: null,
      citation: { start: 0, page: null, line: 1, headings: ['Birds', 'Herons'] },
    });
    for (const hit of body.data) expect(cut(hit)).toBe(hit.text);
  });

  test('goes by words alone without an embedder, and says so with what helps', async () => {
    for (const mode of ['hybrid', 'vector', undefined]) {
      const { body } = await search({ query: 'swifts', ...(mode && { mode }) });
      expect(body.mode).toBe('keyword');
      expect(body.notice).toMatch(/^Searched by words alone: .*service embedder install/);
      expect(body.data.map((hit: Json) => hit.text)).toEqual([birds.passages[1]?.text]);
    }
  });

  test('keeps to as many as are wanted, to a least score, and to metadata', async () => {
    const found = async (more: Json) =>
      (await search({ query: 'water', mode: 'keyword', ...more })).body.data.map((hit: Json) => hit.text);
    const all = await search({ query: 'water', mode: 'keyword' });
    const [first, second] = all.body.data;
    expect(await found({ top_k: 1 })).toEqual([first.text]);
    expect(await found({ min_score: (first.score + second.score) / 2 })).toEqual([first.text]);
    expect(await found({ filter: { kind: 'plant' } })).toEqual([plants.passages[0]?.text]);
    expect(await found({ filter: { kind: 'plant', other: 'x' } })).toEqual([]);
    expect(await found({ query: 'of the and' })).toEqual([]);
  });

  test('goes through several corpora as if they were one, and through none that is not the caller’s', async () => {
    const other = await newCorpus('More', ada.token);
    const note = { id: newId('document'), title: 'Notes', passages: [{ text: 'Water, water, water.' }] };
    await writeDocuments(app.services, other, [note]);
    const together = (corpus_ids: string[], { token }: Account = ada) =>
      app.request('POST', '/api/v1/corpora/search', {
        token,
        body: { corpus_ids, query: 'water', mode: 'keyword' },
      });
    const { body } = await together([corpus, other]);
    expect(body.data[0]).toMatchObject({ corpus_id: other, document_id: note.id });
    expect(body.data).toHaveLength(4);
    const hers = await newCorpus('Hers', mallory.token);
    const refused = await together([corpus, hers]);
    expect(coded(refused)).toEqual([404, 'not_found']);
    expect(refused.body.detail).toContain('/corpus_ids/1,');
    expect(coded(await together([corpus, hers], mallory))).toEqual([404, 'not_found']);
  });

  test.each<[string, Json, number, string]>([
    ['no query', {}, 400, 'invalid_request'],
    ['an empty query', { query: '' }, 400, 'invalid_request'],
    ['an unknown mode', { query: 'x', mode: 'magic' }, 400, 'invalid_request'],
    ['too many hits', { query: 'x', top_k: 101 }, 400, 'invalid_request'],
    ['a filter that is no text', { query: 'x', filter: { kind: 1 } }, 400, 'invalid_request'],
  ])('with %s is refused', async (_, body, status, code) => {
    expect(coded(await search(body))).toEqual([status, code]);
  });

  test('of a stranger finds no corpus', async () => {
    expect(coded(await search({ query: 'water' }, corpus, mallory))).toEqual([404, 'not_found']);
    expect(coded(await search({ query: 'water' }, 'cor_none'))).toEqual([404, 'not_found']);
  });
});

describe('with an embedder', () => {
  /** East and north; a question that is of neither has no vector here. */
  const directions: Readonly<Record<string, readonly number[]>> = { east: [1, 0], north: [0, 1] };
  const refusals: Readonly<Record<string, Problem>> = {
    paid: new Problem('quota_exceeded', 'The limit of 100 tokens in a day is used up.'),
    crowded: new Problem('overloaded', 'This server embeds as many texts as it can hold.'),
  };
  const embedder = (identity: string) => ({
    identity,
    dimensions: 2,
    async embed(asked: readonly string[]) {
      return asked.map((text) => {
        const direction = directions[text];
        const refusal = refusals[text];
        if (refusal) throw refusal;
        if (!direction) throw new Error('The embedder is out of order.');
        return Float32Array.from(direction);
      });
    },
  });
  const compass: WrittenDocument = {
    id: newId('document'),
    title: 'Compass',
    passages: [
      { text: 'east', vector: [1, 0] },
      { text: 'north', vector: [0, 1] },
      { text: 'northeast', vector: [0.8, 0.6] },
    ],
  };
  let place: string;
  let failures: unknown[];
  let levels: string[];

  type Wishes = {
    readonly unreadable?: Error;
    readonly minScore?: number;
    readonly alsoIn?: EmbeddedCorpora;
  };

  async function searchWith(
    identity: string,
    query: string,
    mode: 'hybrid' | 'vector',
    { unreadable, minScore, alsoIn }: Wishes = {},
  ) {
    const owner = await app.services.store.principals.byUser(ada.user.id);
    if (!owner) throw new Error('Ada is gone.');
    const { memberships, workspaces } = owner;
    const organizationIds = memberships.map(({ organizationId }) => organizationId);
    failures = [];
    levels = [];
    const passages = createPassageSearch<Reach>({
      index: app.services.store.passages,
      async embedders() {
        if (unreadable) throw unreadable;
        const first = { corpusIds: [place], atHand: { embedder: embedder(identity) } };
        return alsoIn ? [first, alsoIn] : [first];
      },
      embeddingFailed: (error, level) => {
        failures.push(error);
        levels.push(level);
      },
    });
    const corpusIds = [place, ...(alsoIn?.corpusIds ?? [])];
    const question = { corpusIds, query, mode, topK: 10, minScore };
    const reach = { userId: ada.user.id, memberships, organizationIds, workspaces };
    return passages.search(reach, question, new AbortController().signal);
  }

  beforeAll(async () => {
    place = await newCorpus('Directions', ada.token);
    await writeDocuments(app.services, place, [compass]);
  });

  test('both rankings count alike, and what is first by both has the score 1', async () => {
    const { data, mode, notice } = await searchWith('test', 'east', 'hybrid');
    expect({ mode, notice }).toEqual({ mode: 'hybrid', notice: null });
    expect(data.map(({ text, keyword_rank, vector_rank }) => [text, keyword_rank, vector_rank])).toEqual([
      ['east', 1, 1],
      ['northeast', null, 2],
      ['north', null, 3],
    ]);
    const scores = data.map(({ score }) => score.toFixed(6));
    expect(scores).toEqual([1, 61 / 62 / 2, 61 / 63 / 2].map((score) => score.toFixed(6)));
    const near = await searchWith('test', 'north', 'vector');
    expect(near.data.map(({ text }) => text)).toEqual(['north', 'northeast', 'east']);
    expect(near.data[1]?.score).toBeCloseTo(0.6);
  });

  test('documents that another one has embedded are searched by words, and it says what to do', async () => {
    for (const mode of ['hybrid', 'vector'] as const) {
      // What cosines were to be held against says nothing about the weights of words.
      const answer = await searchWith('another', 'east', mode, { minScore: 1000 });
      expect(answer.mode).toBe('keyword');
      expect(answer.notice).toMatch(/index the corpus anew/);
      expect(answer.data.map(({ text }) => text)).toEqual(['east']);
    }
  });

  test('of several corpora those without vectors are told of, and the others are searched by meaning', async () => {
    const corpusIds = [await newCorpus('Bare', ada.token)];
    const alsoIn = { corpusIds, atHand: { embedder: null, reason: 'index their corpora anew.' } };
    const { data, mode, notice } = await searchWith('test', 'east', 'vector', { alsoIn });
    expect([mode, notice]).toEqual([
      'vector',
      'Some of these corpora are not searched by meaning: index their corpora anew.',
    ]);
    expect(data.map(({ text }) => text)).toEqual(['east', 'northeast', 'north']);
  });

  test('one that fails leaves the words, and its error to the log', async () => {
    const answer = await searchWith('test', 'northeast', 'hybrid');
    expect(answer).toMatchObject({ mode: 'keyword', notice: expect.stringMatching(/the embedder failed/) });
    expect(answer.data.map(({ text }) => text)).toEqual(['northeast']);
    expect(failures).toEqual([new Error('The embedder is out of order.')]);
    expect(levels).toEqual(['error']);
  });

  test('one that cannot be had leaves the words, too', async () => {
    const answer = await searchWith('test', 'east', 'hybrid', { unreadable: new Error('EMFILE') });
    expect(answer).toMatchObject({ mode: 'keyword', notice: expect.stringMatching(/the embedder failed/) });
    expect(answer.data.map(({ text }) => text)).toEqual(['east']);
    expect(failures).toEqual([new Error('EMFILE')]);
  });

  test('what is used up is told as that and is no fault, and a crowded one is no error', async () => {
    const paid = await searchWith('test', 'paid', 'hybrid');
    expect(paid.notice).toBe('Searched by words alone: The limit of 100 tokens in a day is used up.');
    expect(failures).toEqual([]);
    const crowded = await searchWith('test', 'crowded', 'hybrid');
    expect(crowded.notice).toContain('as many texts as it can hold');
    expect(levels).toEqual(['warn']);
  });
});

describe('the passages of a document', () => {
  test('are listed in their order, page by page', async () => {
    const first = (await chunks(birds.id, '?limit=2')).body;
    const rest = (await chunks(birds.id, `?limit=2&cursor=${first.next_cursor}`)).body;
    const all = [...first.data, ...rest.data];
    expect(all.map(({ text }: Json) => text)).toEqual(birds.passages.map(({ text }) => text));
    expect(all.map(({ ordinal }: Json) => ordinal)).toEqual([0, 1, 2]);
    for (const chunk of all) expect(cut({ ...chunk, document_id: birds.id })).toBe(chunk.text);
    expect(rest.next_cursor).toBeNull();
  });

  test('are not shown to strangers, nor from another corpus', async () => {
    expect(coded(await chunks(birds.id, '', mallory))).toEqual([404, 'not_found']);
    expect(coded(await chunks(newId('document')))).toEqual([404, 'not_found']);
  });
});
