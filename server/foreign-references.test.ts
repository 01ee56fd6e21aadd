/**
 * What belongs to somebody else stays theirs by every other way than the id of a path: named in a body, a query or a
 * header, hung below a parent of one's own, listed, searched, counted, or pointed at by a cursor.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type IdPlace, idPlacesIn, withIdIn } from '../contract-tests/id-places.ts';
import { type Route, routes } from './contract/routes.ts';
import { type Account, type Answer, type Json, type TestApp, testApp } from './test-app.ts';
import {
  type Belongings,
  exampleOf,
  makeBelongings,
  missingId,
  operationAt,
  pathWith,
  resolved,
} from './test-belongings.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;
let ofAda: Belongings;
let ofMallory: Belongings;

beforeAll(async () => {
  app = await testApp({ settings: { outboundAllow: ['127.0.0.1'] } });
  [ada, mallory] = [await app.register('countess'), await app.register('mallory')];
  ofAda = await makeBelongings(app, ada, 'Lovelace');
  ofMallory = await makeBelongings(app, mallory, 'Moriarty');
});
afterAll(() => app.close());

// The first: later the audit log tells each of them what the other has tried.
test('nothing that can be read without an id, and no search, tells one account of another', async () => {
  const words = ['Lovelace', ada.email, ...Object.values(ofAda).filter((id) => id.includes('_'))];
  const readable = routes.filter(
    ({ method, path, operationId }) =>
      method === 'get' && !path.includes('{') && !operationId.startsWith('stream'),
  );
  const paths = readable.flatMap(({ path, method }) => {
    const names = operationAt(path, method).parameters.map((one: Json) => resolved(one).name);
    return names.includes('limit') ? [`${path}?limit=100`] : [path];
  });
  const told = async (token: string) => {
    const answers = [
      ...paths.map((path) => app.request('GET', path, { token })),
      ...['Lovelace', 'better', 'file'].map((query) =>
        app.request('POST', '/api/v1/sessions/search', { token, body: { query } }),
      ),
    ];
    return JSON.stringify((await Promise.all(answers)).map(({ body, headers }) => [body, [...headers]]));
  };
  const [own, foreign] = [await told(ada.token), await told(mallory.token)];
  // So that what is looked for could be found: all but what the lists of a session and of a corpus tell, and uploads, of
  // which there is no list.
  const unlisted = /^(prm|prq|doc|upl)_/;
  expect(words.filter((word) => !own.includes(word)).filter((word) => !unlisted.test(word))).toEqual([]);
  expect(words.filter((word) => foreign.includes(word))).toEqual([]);
});

/** What tells two answers apart that ought to be the same. */
const plain = ({ status, body }: Answer) => ({
  status,
  body: body !== null && typeof body === 'object' ? { ...body, instance: '', request_id: '' } : body,
});

/** A place in a request, beside the path, that takes the id of something. */
interface Reference extends IdPlace {
  readonly place: 'body' | 'query' | 'header';
}

function referencesOf({ path, method }: Route): Reference[] {
  const { parameters, requestBody } = operationAt(path, method);
  const [media] = Object.values<Json>(requestBody?.content ?? {});
  const named: Json[] = parameters.map(resolved).filter((one: Json) => one.in !== 'path');
  return [
    ...named.flatMap(({ in: place, name, schema }) =>
      idPlacesIn(schema, resolved).map(({ steps, prefix }) => ({ place, steps: [name, ...steps], prefix })),
    ),
    ...idPlacesIn(media?.schema, resolved).map((one) => ({ place: 'body' as const, ...one })),
  ];
}

function nameOf({ operationId }: Route, { steps }: Reference): string {
  return `${operationId} ${steps.join('/')}`;
}

/** What is imported gets ids of its own, whatever it had where it comes from. */
const unread = ['importSession session/id', 'importSession messages/[]/id'];

/** Where the contract's example does not go with the id; contract-tests/access asks there for what does. */
const refusedAnyway: ReadonlySet<string> = new Set([
  'updateUser organization_id',
  'deleteUser transfer_to',
  'createProviderSetting workspace_id',
  'createProviderSetting organization_id',
  'getDefaultModels workspace_id',
  'getDefaultModels organization_id',
  'putDefaultModels workspace_id',
  'putDefaultModels organization_id',
  'uploadFile workspace_id',
  'createMemory session_id',
  'createMemory source/message_id',
  'importMemories workspace_id',
  'purgeMemories session_id',
  'createSkill workspace_id',
  'createJob session_id',
  'updateJob session_id',
  'createMcpServer workspace_id',
  'createMcpServer organization_id',
]);

/** A stream that waits for what may come has no end to compare; its tests stand beside it. */
const references = routes
  .filter(({ access, operationId }) => /principal|login/.test(access.allow) && operationId !== 'streamEvents')
  .flatMap((route) => referencesOf(route).map((reference) => ({ route, reference })))
  .filter(({ route, reference }) => !unread.includes(nameOf(route, reference)));

/** What is wrong with the request may hold the id that was sent. */
function withoutId(answer: Answer, id: string): unknown {
  return JSON.parse(JSON.stringify(plain(answer)).replaceAll(id, ''));
}

/** The same request but for the id that is in this place. */
function askWith({ path, method }: Route, { place, steps }: Reference, id: string): Promise<Answer> {
  const { body, headers } = exampleOf({ path, method });
  const [name = ''] = steps;
  const target = pathWith(ofMallory, path);
  return app.request(method.toUpperCase(), place === 'query' ? `${target}?${name}=${id}` : target, {
    token: mallory.token,
    ...(body !== undefined && { body: place === 'body' ? withIdIn(body, steps, id) : body }),
    headers: { ...headers, ...(place === 'header' && { [name]: id }) },
  });
}

test.each(
  references.map(
    ({ route, reference }) => [route.operationId, reference.steps.join('/'), route, reference] as const,
  ),
)(
  '%s with the %s of somebody else is answered as with one that there is not',
  async (_id, _name, route, reference) => {
    const id = Object.values(ofAda).find((one) => one.startsWith(`${reference.prefix}_`));
    if (id === undefined) throw new Error(`makeBelongings makes no ${reference.prefix}_`);
    const foreign = await askWith(route, reference, id);
    const missing = await askWith(route, reference, missingId(id));
    expect(withoutId(foreign, id)).toEqual(withoutId(missing, missingId(id)));
    // A filter that nothing matches finds nothing; whatever else would have to do with it is refused.
    if (foreign.status >= 300)
      expect(foreign.status === 404).toBe(!refusedAnyway.has(nameOf(route, reference)));
    else expect(foreign.body?.data ?? foreign.body?.files ?? []).toEqual([]);
  },
);

test('there are such places of each kind', () => {
  const places = references.map(({ reference: { place } }) => place);
  expect([...new Set(places)].sort()).toEqual(['body', 'header', 'query']);
  expect(places.length).toBeGreaterThan(20);
});

/** `putCustomModel` describes a model by whatever name its caller gives it. */
const nested = routes.filter(
  ({ path, access, operationId }) =>
    operationId !== 'putCustomModel' &&
    (path.replace('{subject_type}', '').match(/\{\w+\}/g) ?? []).length > 1 &&
    access.allow !== 'operator',
);

test.each(nested.map((route) => [route.operationId, route] as const))(
  '%s finds no child of one account below a parent of another',
  async (_, { path, method }) => {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
    const child = names.at(-1) ?? '';
    for (const [asker, mine, theirs] of [
      [mallory, ofMallory, ofAda],
      [ada, ofMallory, ofAda],
      [ada, ofAda, ofMallory],
    ] as const) {
      const ask = (change: (id: string) => string) => {
        const childId = change(idOf(theirs, path, child));
        const target = pathWith(mine, path, (id, name) => (name === child ? childId : id));
        return app.request(method.toUpperCase(), target, {
          token: asker.token,
          ...exampleOf({ path, method }),
        });
      };
      const foreign = await ask((id) => id);
      expect(foreign.status).toBe(404);
      expect(plain(foreign)).toEqual(plain(await ask(missingId)));
    }
  },
);

function idOf(ids: Belongings, path: string, name: string): string {
  return /[^/]+$/.exec(pathWith(ids, `${path.split(`{${name}}`)[0]}{${name}}`))?.[0] ?? '';
}

const lists = routes.filter(
  ({ method, path, access }) =>
    method === 'get' &&
    access.allow !== 'operator' &&
    operationAt(path, method).parameters.some((one: Json) => resolved(one).name === 'cursor'),
);

test.each(lists.map(({ operationId, path }) => [operationId, path] as const))(
  '%s refuses a cursor that was changed, invented, or given to somebody else or by another list',
  async (_, path) => {
    const target = pathWith(ofAda, path);
    const page = (cursor: string, token = ada.token, of = target) =>
      app.request('GET', `${of}?limit=1&cursor=${encodeURIComponent(cursor)}`, { token });
    const cursor = (await app.request('GET', `${target}?limit=1`, { token: ada.token })).body.next_cursor;
    const elsewhere = path === '/api/v1/sessions' ? '/api/v1/runs' : '/api/v1/sessions';
    const other = (await app.request('GET', `${elsewhere}?limit=1`, { token: ada.token })).body.next_cursor;
    const forged = ['x', 'null', other, Buffer.from('{"after":"0"}').toString('base64url')];
    if (cursor !== null) {
      expect((await page(cursor)).status).toBe(200);
      const middle = Math.floor(cursor.length / 2);
      const changed = cursor[middle] === 'A' ? 'B' : 'A';
      forged.push(cursor.slice(0, middle) + changed + cursor.slice(middle + 1), cursor.slice(0, -4));
      const mine = pathWith(ofMallory, path);
      const hers = await page(cursor, mallory.token, mine);
      // Where the list is by name, the cursor says no more than where to go on, in whatever list.
      if (hers.status !== 200) expect(hers.body.code).toBe('invalid_cursor');
      const told = JSON.stringify(hers.body);
      expect(Object.values(ofAda).filter((id) => id.includes('_') && told.includes(id))).toEqual([]);
    }
    for (const one of forged) {
      const answer = await page(one);
      expect([one, answer.status, answer.body.code]).toEqual([one, 400, 'invalid_cursor']);
    }
  },
);

test('most lists have a second page to be asked for', async () => {
  const cursors = await Promise.all(
    lists.map(async ({ path }) => {
      const { body } = await app.request('GET', `${pathWith(ofAda, path)}?limit=1`, { token: ada.token });
      return body.next_cursor;
    }),
  );
  expect(cursors.filter((cursor) => cursor !== null).length).toBeGreaterThan(4);
});
