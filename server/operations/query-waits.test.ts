/** Queries whose caller loses their rights while the server waits for a model before the run begins. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '../ids.ts';
import { coded, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { writeDocuments } from '../test-passages.ts';
import { makePeople, type People } from '../test-people.ts';

let app: TestApp;
let embedder: Server;
/** Lets an embedding be answered that was asked for; null where none is kept waiting. */
let waiting: ((answer: () => void) => void) | null = null;

beforeAll(async () => {
  embedder = createServer(async (request, response) => {
    const { model } = (await json(request)) as Json;
    const numbers = Array.from({ length: 8 }, (_, index) => (index + 1) / 10);
    const data = [{ object: 'embedding', index: 0, embedding: numbers }];
    const answer = () =>
      response
        .setHeader('content-type', 'application/json')
        .end(JSON.stringify({ object: 'list', model, data, usage: { prompt_tokens: 1, total_tokens: 1 } }));
    if (waiting) waiting(answer);
    else answer();
  }).listen(0, '127.0.0.1');
  await once(embedder, 'listening');
  const local = {
    type: 'openai-compat' as const,
    base_url: `http://127.0.0.1:${(embedder.address() as AddressInfo).port}/v1`,
    api_key: 'k',
    models: [{ id: 'm' }],
  };
  app = await testApp({ config: { providers: { local } }, settings: { outboundAllow: ['127.0.0.1'] } });
  const { status } = await app.request('PATCH', '/api/v1/settings/embedder', {
    token: app.operatorKey,
    body: { provider: 'local', model: 'embedding' },
    headers: { ...mergePatch, 'if-match': '*' },
  });
  expect(status).toBe(200);
});
afterAll(async () => {
  await app.close();
  embedder.close();
  embedder.closeAllConnections();
});

const memberPath = ({ organizationId, member }: People) =>
  `/api/v1/organizations/${organizationId}/members/${member.user.id}`;

const ends: Record<string, (people: People, key: Json) => Promise<{ readonly status: number }>> = {
  removed: (people) => app.request('DELETE', memberPath(people), { token: people.owner.token }),
  'made a viewer': (people) =>
    app.request('PUT', memberPath(people), { token: people.owner.token, body: { role: 'viewer' } }),
  suspended: ({ owner, member }) =>
    app.request('PATCH', `/api/v1/users/${member.user.id}`, {
      ...{ token: owner.token, headers: mergePatch, body: { status: 'suspended' } },
    }),
  deleted: ({ owner, member }) =>
    app.request('DELETE', `/api/v1/users/${member.user.id}`, { token: owner.token }),
  'without their key': ({ member }, key) =>
    app.request('DELETE', `/api/v1/auth/api-keys/${key.api_key.id}`, { token: member.token }),
};

test.each(Object.entries(ends))(
  'whoever is %s before the search has ended begins no run, and leaves no session',
  async (name, end) => {
    const people = await makePeople(app, name.replaceAll(' ', '-'));
    const made = { token: people.owner.token, body: { name: 'Rules' } };
    const corpus = (await app.request('POST', '/api/v1/corpora', made)).body.id;
    await writeDocuments(app.services, corpus, [
      {
        id: newId('document'),
        title: 'Handbook',
        passages: [{ text: 'Everybody has 30 days of holidays.' }],
      },
    ]);
    const keys = { token: people.member.token, body: { name: 'k' } };
    const key = (await app.request('POST', '/api/v1/auth/api-keys', keys)).body;
    const asked = Promise.withResolvers<() => void>();
    waiting = asked.resolve;
    const answer = app.request('POST', '/api/v1/query', {
      token: key.key,
      body: { prompt: 'How many holidays?', corpus_id: corpus, model: 'demo:demo-1' },
    });
    const release = await asked.promise;
    expect((await end(people, key)).status).toBeLessThan(300);
    waiting = null;
    release();
    expect(coded(await answer)).toEqual([401, 'credential_invalid']);
    const sessions = await app.request('GET', '/api/v1/sessions', { token: people.owner.token });
    expect(sessions.body.data).toEqual([]);
  },
);
