/** Searches of memories whose embedder does not answer: the words are left, and people are told what it was. */
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createMemorySearches } from './memory-search.ts';
import { Problem } from './problem.ts';
import type { Reach } from './store/store.ts';
import { type Account, type TestApp, testApp } from './test-app.ts';

let app: TestApp;
let ada: Account;

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('Ada');
  const body = { scope: 'user', content: 'She likes owls.' };
  await app.request('POST', '/api/v1/memories', { token: ada.token, body });
});
afterAll(() => app.close());

async function reachOfAda(): Promise<Reach> {
  const person = await app.services.store.principals.byUser(ada.user.id);
  if (!person) throw new Error('Ada is gone.');
  const { memberships, workspaces } = person;
  const organizationIds = memberships.map(({ organizationId }) => organizationId);
  return { userId: ada.user.id, memberships, workspaces, organizationIds };
}

async function searchWhere(embed: () => Promise<never>, current = embed) {
  const levels: string[] = [];
  const lines = new Writable({
    write(line, _encoding, done) {
      levels.push(pino.levels.labels[JSON.parse(line.toString()).level] ?? '');
      done();
    },
  });
  const embedder = { identity: 'test', dimensions: 2, embed };
  const payer = { begin: async () => ({ spent: async () => undefined, end: async () => undefined }) };
  const searches = createMemorySearches({
    store: app.services.store,
    embedders: { current: current === embed ? async () => ({ embedder }) : current },
    payers: { searcher: () => payer, run: () => payer },
    log: pino({ level: 'info' }, lines),
  });
  const found = await searches.find(
    { ...(await reachOfAda()), apiKeyId: null, place: null },
    { query: 'owls', top_k: 10 },
    new AbortController().signal,
  );
  expect(found.data.map(({ memory }) => memory.content)).toEqual(['She likes owls.']);
  return { notice: found.notice, levels };
}

const failing = (error: Error) => () => Promise.reject(error);

test('a quota that is used up is told as that, and is no fault for the log', async () => {
  const used = new Problem('quota_exceeded', 'The limit of 100 tokens in a day is used up.');
  expect(await searchWhere(failing(used))).toEqual({
    notice: 'Memories were searched by their words alone. The limit of 100 tokens in a day is used up.',
    levels: [],
  });
});

test('an embedder that is overloaded is a warning, one that is broken or cannot be had an error', async () => {
  const crowded = new Problem('overloaded', 'This server embeds as many texts as it can hold.');
  expect(await searchWhere(failing(crowded))).toEqual({
    notice: expect.stringContaining('as many texts as it can hold'),
    levels: ['warn'],
  });
  const broken = { notice: expect.stringContaining('the log says why'), levels: ['error'] };
  expect(await searchWhere(failing(new Error('It is broken.')))).toEqual(broken);
  const away = failing(new Error('EMFILE'));
  expect(await searchWhere(failing(new Error('unused')), away)).toEqual(broken);
});
