/** Catalogues of models: who writes them, what they change, and what becomes of them when their URL gives nothing. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { ClientConfig } from '../contract/config.ts';
import { type Answer, type TestApp, testApp } from '../test-app.ts';

const path = '/api/v1/settings/providers/catalogs';
const house = { id: 'big', context_window: 1000 };
const gateway = { type: 'openai-compat' as const, base_url: 'http://127.0.0.1:9/v1' };

/** What is asked of the server of catalogues, and what it answers. */
const place = {
  url: '',
  asked: [] as (string | undefined)[],
  answer: (response: ServerResponse): unknown => json(response, { models: [] }),
};

function json(response: ServerResponse, document: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(document));
}

const server = createServer((request, response) => {
  place.asked.push(request.headers['if-none-match']);
  place.answer(response);
});

let app: TestApp;
let many: TestApp;
let now = Date.parse('2026-11-21T08:00:00.000Z');
const hour = 3_600_000;
const clock = { now: () => new Date(now) };

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  place.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/catalog.json`; // it listens on TCP
  // Of a provider of the settings' own only the models count that they list; `open` lists none.
  const providers = {
    house: { ...gateway, models: [house, { id: 'small' }] },
    open: { type: 'anthropic' as const, api_key: 'none', base_url: 'http://127.0.0.1:9' },
  } satisfies ClientConfig['providers'];
  const config: ClientConfig = { providers, models: { large: { provider: 'open', model: 'first' } } };
  app = await testApp({ config, clock });
  many = await testApp({ config, settings: { mode: 'multi' } });
});

afterAll(async () => {
  await app?.close();
  await many?.close();
  server.closeAllConnections();
  server.close();
});

beforeEach(async () => {
  place.asked.length = 0;
  place.answer = (response) => json(response, { models: [] });
  for (const { id } of (await ask('GET', path)).body.data) await ask('DELETE', `${path}/${id}`);
});

function ask(method: string, where: string, body?: unknown, headers = {}): Promise<Answer> {
  return app.request(method, where, { token: app.operatorKey, headers, ...(body !== undefined && { body }) });
}

/** The window and the longest answer of a model, as clients are told of them. */
async function facts(model: string, one = app): Promise<unknown[]> {
  const { body } = await one.request('GET', `/v1/models/${model}`, { token: one.operatorKey });
  return [body.max_input_tokens, body.max_tokens];
}

async function listed(): Promise<string[]> {
  const { body } = await ask('GET', '/v1/models');
  return body.data.map(({ id }: { id: string }) => id);
}

test('a catalogue is made, read, replaced with its ETag and deleted, and the audit log tells of it', async () => {
  const made = await ask('POST', path, { name: 'Ours', models: [{ provider: 'house', id: 'small' }] });
  expect(made).toMatchObject({ status: 201, body: { name: 'Ours', source: 'setting', url: null } });
  const one = made.headers.get('Location') ?? '';
  const etag = made.headers.get('ETag') ?? '';
  expect((await ask('GET', one, undefined, { 'If-None-Match': etag })).status).toBe(304);
  const { models: _models, ...summary } = made.body;
  expect((await ask('GET', path)).body.data).toEqual([summary]);

  const body = { name: 'Ours', models: [{ provider: 'house', id: 'small', context_window: 9 }] };
  const put = await ask('PUT', one, body, { 'If-Match': etag });
  expect(put).toMatchObject({ status: 200, body });
  expect((await ask('PUT', one, body, { 'If-Match': etag })).body.code).toBe('precondition_failed');
  expect((await ask('DELETE', one, undefined, { 'If-Match': etag })).body.code).toBe('precondition_failed');
  expect((await ask('DELETE', one)).status).toBe(204);
  expect((await ask('GET', one)).body.code).toBe('not_found');

  const { body: entries } = await ask('GET', '/api/v1/audit/logs?limit=20');
  const actions: string[] = entries.data.map(({ action }: { action: string }) => action);
  const told = actions.filter((action) => action.startsWith('catalog.')).toSorted();
  expect(told).toEqual(['catalog.create', 'catalog.delete', 'catalog.replace']);
});

test('nobody but the operator sees or writes a catalogue', async () => {
  const { token } = await many.register('ada');
  for (const [method, where, body] of [
    ['GET', path, undefined],
    ['POST', path, { name: 'Mine', models: [] }],
    ['GET', `${path}/cat_01k9w6r3h2e7xv5q0c8m4b1tza`, undefined],
    ['PUT', `${path}/cat_01k9w6r3h2e7xv5q0c8m4b1tza`, { name: 'Mine', models: [] }],
    ['DELETE', `${path}/cat_01k9w6r3h2e7xv5q0c8m4b1tza`, undefined],
  ] as const)
    expect((await many.request(method, where, { token, ...(body && { body }) })).body.code).toBe(
      'role_required',
    );
});

test.each([
  [{ name: 'Neither' }],
  [{ name: 'Both', models: [], url: 'https://example.com/catalog.json' }],
  [{ name: 'A secret', url: 'https://ada:secret@example.com/catalog.json' }],
  [{ name: 'No window', models: [{ provider: 'house', id: 'small', context_window: 0 }] }],
  [{ name: 'No model', models: [{ provider: 'a:b', id: 'small' }] }],
])('%j is refused', async (body) => {
  expect(await ask('POST', path, body)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
});

test('what the settings say counts before a catalogue, and of two catalogues the later one', async () => {
  const entry = { provider: 'house', id: 'big', context_window: 7, default_max_tokens: 70 };
  await ask('POST', path, { name: 'First', models: [entry, { ...entry, id: 'small' }] });
  expect(await facts('house:big')).toEqual([1000, 70]);
  expect(await facts('house:small')).toEqual([7, 70]);
  const { body } = await ask('POST', path, {
    name: 'Second',
    models: [{ provider: 'house', id: 'small', context_window: 8 }],
  });
  // What it does not say is left to the first one.
  expect(await facts('house:small')).toEqual([8, 70]);
  await ask('DELETE', `${path}/${body.id}`);
  expect(await facts('house:small')).toEqual([7, 70]);
});

test('a catalogue counts before the list that is part of the program, and is asked by name alone', async () => {
  expect(await facts('open:claude-sonnet-4-20250514')).toEqual([null, null]);
  await ask('POST', path, {
    name: 'Newer',
    models: [{ provider: 'open', id: 'of-tomorrow', context_window: 5_000_000 }],
  });
  expect(await facts('of-tomorrow')).toEqual([5_000_000, null]);
  expect(await listed()).toEqual(['house:big', 'house:small', 'open:first', 'open:of-tomorrow']);
});

test('no model is made up for a provider whose settings list theirs', async () => {
  await ask('POST', path, { name: 'More', models: [{ provider: 'house', id: 'made-up' }] });
  expect(await listed()).not.toContain('house:made-up');
});

test('a URL is fetched when it is written, and what it gives beyond the schema is left out', async () => {
  const model = { provider: 'house', id: 'small', context_window: 11 };
  place.answer = (response) => json(response, { models: [{ ...model, released: 2026 }], by: 'us' });
  const made = await ask('POST', path, { name: 'Far', url: place.url });
  expect(made).toMatchObject({
    status: 201,
    body: { url: place.url, models: [model], model_count: 1, fault: null },
  });
  expect(made.body.models).toEqual([model]);
  expect(await facts('house:small')).toEqual([11, null]);
});

const wrong: [string, (response: ServerResponse) => unknown, RegExp][] = [
  [
    'is no JSON',
    (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
    /not valid JSON/,
  ],
  [
    'is a page',
    (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('{}'),
    /else than JSON/,
  ],
  ['is not there', (response) => response.writeHead(404).end(), /status 404/],
  ['is no catalogue', (response) => json(response, { models: [{ id: 'x' }] }), /\/models\/0 must have/],
  ['is too large', (response) => json(response, 'x'.repeat(5 * 1024 * 1024)), /larger than 4 MB/],
  ['is cut', (response) => response.destroy(), /cut the connection/],
  [
    'leads to this machine by another name',
    (response) => response.writeHead(302, { location: place.url.replace('127.0.0.1', 'localhost') }).end(),
    /SERVICE_OUTBOUND_ALLOW/,
  ],
];

test.each(wrong)(
  'what %s is refused when it is written, and changes nothing',
  async (_what, answer, message) => {
    const { body: kept } = await ask('POST', path, { name: 'Kept', url: place.url });
    place.answer = answer;
    for (const [method, where] of [
      ['POST', path],
      ['PUT', `${path}/${kept.id}`],
    ] as const) {
      const refused = await ask(method, where, { name: 'Wrong', url: place.url });
      expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
      expect(refused.body.errors).toMatchObject([
        { pointer: '/url', message: expect.stringMatching(message) },
      ]);
    }
    expect((await ask('GET', path)).body.data).toMatchObject([{ id: kept.id, name: 'Kept' }]);
  },
);

test('where many share a server, the URL of an operator leads nowhere private', async () => {
  const refused = await many.request('POST', path, {
    token: many.operatorKey,
    body: { name: 'Near', url: place.url },
  });
  expect(refused.body.errors).toMatchObject([{ message: expect.stringContaining('not a public address') }]);
  expect(place.asked).toEqual([]);
});

test('a URL is asked again after hours, with the version that it gave; what came last counts while it gives nothing', async () => {
  const models = [{ provider: 'house', id: 'small', context_window: 21 }];
  place.answer = (response) => json(response, { models }, { etag: '"one"' });
  const { body: made } = await ask('POST', path, { name: 'Far', url: place.url });
  const read = async () => (await ask('GET', `${path}/${made.id}`)).body;
  const later = async (hours: number) => {
    now += hours * hour;
    await app.services.modelCatalogs.refresh();
    return read();
  };
  await later(1);
  expect(place.asked).toEqual([undefined]);

  place.answer = (response) => response.writeHead(304).end();
  const same = await later(6);
  expect(place.asked).toEqual([undefined, '"one"']);
  expect(same).toMatchObject({ models, fault: null, fetched_at: made.fetched_at });
  expect(same.checked_at > made.checked_at).toBe(true);

  place.answer = (response) => response.writeHead(503).end();
  expect(await later(7)).toMatchObject({ models, fault: 'The server answered with the status 503.' });
  expect(await facts('house:small')).toEqual([21, null]);

  // What gave nothing is asked again in a minute, not after hours.
  place.answer = (response) => json(response, { models: [{ ...models[0], context_window: 22 }] });
  expect(await later(2 / 60)).toMatchObject({ fault: null, model_count: 1 });
  expect(await facts('house:small')).toEqual([22, null]);
});

test('a change is held against what the operator wrote, not against what the URL has brought since', async () => {
  place.answer = (response) => json(response, { models: [] });
  const made = await ask('POST', path, { name: 'Far', url: place.url });
  const where = `${path}/${made.body.id}`;
  place.answer = (response) => json(response, { models: [{ provider: 'house', id: 'small' }] });
  now += 7 * hour;
  await app.services.modelCatalogs.refresh();
  const read = await ask('GET', where);
  expect(read.headers.get('ETag')).not.toBe(made.headers.get('ETag'));
  const headers = { 'If-Match': made.headers.get('ETag') ?? '' };
  expect((await ask('PUT', where, { name: 'Renamed', url: place.url }, headers)).status).toBe(200);
});

test('what a model costs follows the catalogue', async () => {
  const prices = { cost_per_1m_in: 2, cost_per_1m_out: 4 };
  await ask('POST', path, { name: 'Prices', models: [{ provider: 'house', id: 'small', ...prices }] });
  const { price } = await app.services.runtime.modelFacts('house:small');
  const count = { input_tokens: 1_000_000, output_tokens: 1_000_000, cached_input_tokens: 0 };
  expect(price(count)).toBe(6);
});

test('`SERVICE_CATALOG_URL` that is down keeps no server from starting; what it gives counts least, and nobody changes it here', async () => {
  // The server asks when it starts, and still waits when it is told to ask.
  place.answer = (response) => setTimeout(() => response.writeHead(500).end(), 300);
  const config = { providers: { house: { ...gateway, models: [house, { id: 'small' }] } } };
  const told = await testApp({ config, clock, settings: { catalogUrl: place.url } });
  try {
    const token = told.operatorKey;
    await told.services.modelCatalogs.refresh();
    const { body } = await told.request('GET', path, { token });
    expect(body.data).toMatchObject([
      { source: 'environment', model_count: 0, fault: 'The server answered with the status 500.' },
    ]);
    const where = `${path}/${body.data[0].id}`;
    const models = [{ provider: 'house', id: 'small', context_window: 31, default_max_tokens: 32 }];
    place.answer = (response) => json(response, { models });
    now += hour;
    await told.services.modelCatalogs.refresh();
    const own = { name: 'Own', models: [{ provider: 'house', id: 'small', context_window: 33 }] };
    expect((await told.request('POST', path, { token, body: own })).status).toBe(201);
    expect(await facts('house:small', told)).toEqual([33, 32]);
    expect((await told.request('PUT', where, { token, body: own })).body.code).toBe('set_by_environment');
    expect((await told.request('DELETE', where, { token })).body.code).toBe('set_by_environment');
  } finally {
    await told.close();
  }
});

test('`options.disable_provider_auto_update` fetches nothing by itself; a catalogue of the operator still counts', async () => {
  const models = [{ provider: 'house', id: 'small', context_window: 41 }];
  place.answer = (response) => json(response, { models });
  const config = {
    providers: { house: { ...gateway, models: [house, { id: 'small' }] } },
    options: { disable_provider_auto_update: true },
  };
  const still = await testApp({ config, clock, settings: { catalogUrl: place.url } });
  try {
    now += 24 * hour;
    await still.services.modelCatalogs.refresh();
    expect(place.asked).toEqual([]);
    const body = { name: 'Asked for', url: place.url };
    expect((await still.request('POST', path, { token: still.operatorKey, body })).status).toBe(201);
    expect(await facts('house:small', still)).toEqual([41, null]);
    now += 24 * hour;
    await still.services.modelCatalogs.refresh();
    expect(place.asked).toHaveLength(1);
  } finally {
    await still.close();
  }
});
