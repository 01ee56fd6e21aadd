/** The names of sessions, given by the small model or by people, over HTTP. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, mergePatch, type TestApp, testApp } from '../test-app.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  const house = {
    type: 'openai-compat' as const,
    base_url: `${upstream.url}/v1`,
    api_key: 'k',
    models: [{ id: 'big' }, { id: 'tiny' }, { id: 'own' }],
  };
  app = await testApp({
    config: { providers: { house }, models: { small: { provider: 'house', model: 'tiny' } } },
  });
  ada = await app.register('ada');
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

async function script(title: object): Promise<void> {
  await upstream.script([{ when: { model: 'tiny' }, reply: title }, { reply: { text: 'Yes.' } }]);
}

async function ask(body: object): Promise<string> {
  const answer = await app.request('POST', '/api/v1/query', { token: ada.token, body });
  expect(answer.status).toBe(200);
  return answer.body.session_id;
}

async function titleOf(id: string): Promise<string> {
  return (await app.request('GET', `/api/v1/sessions/${id}`, { token: ada.token })).body.title;
}

async function makeSession(body: object): Promise<string> {
  return (await app.request('POST', '/api/v1/sessions', { token: ada.token, body })).body.id;
}

test('`models` and `models.small` choose by kind: a session without a title is named once, after its first exchange', async () => {
  await script({ text: 'A good name' });
  const made = await ask({ prompt: 'Is it so?' });
  await expect.poll(() => titleOf(made)).toBe('A good name');
  expect((await upstream.requests()).map(({ body }) => Object(body).model)).toEqual(['big', 'tiny']);
  const nameless = await ask({ prompt: 'And this?', session_id: await makeSession({}) });
  await expect.poll(() => titleOf(nameless)).toBe('A good name');
  await script({ text: 'Another name' });
  await ask({ prompt: 'Still?', session_id: made });
  expect(await upstream.requests()).toHaveLength(1);
});

test('a title that a person gave stays, before the exchange and while the name is being written', async () => {
  await script({ text: 'A good name', hold_after_chunks: 0 });
  const titled = await makeSession({ title: 'Mine' });
  await ask({ prompt: 'Is it so?', session_id: titled });
  expect(await upstream.requests()).toHaveLength(1);
  const session = await ask({ prompt: 'Is it so?' });
  expect(await titleOf(session)).toBe('Is it so?');
  await upstream.latest(({ body }) => Object(body).model === 'tiny');
  const path = `/api/v1/sessions/${session}`;
  await app.request('PATCH', path, { token: ada.token, body: { title: 'Mine' } });
  await upstream.releaseHeld();
  await upstream.latest(({ outcome }) => outcome === 'finished');
  expect(await titleOf(session)).toBe('Mine');
  expect(await titleOf(titled)).toBe('Mine');
});

test('a session whose first query failed is named after the first that is answered', async () => {
  const id = await makeSession({});
  const fails = { fail: { kind: 'status', status: 401 } };
  await upstream.script([{ when: { model: 'big' }, ...fails }, { reply: { text: 'A good name' } }]);
  const body = { prompt: 'Is it so?', session_id: id };
  expect((await app.request('POST', '/api/v1/query', { token: ada.token, body })).status).not.toBe(200);
  await script({ text: 'A good name' });
  await ask(body);
  await expect.poll(() => titleOf(id)).toBe('A good name');
});

test('the small model of the workspace names its sessions', async () => {
  const id = await makeSession({});
  const { workspace_id } = (await app.request('GET', `/api/v1/sessions/${id}`, { token: ada.token })).body;
  const changed = await app.request('PATCH', `/api/v1/workspaces/${workspace_id}/config`, {
    ...{ token: ada.token, headers: { ...mergePatch, 'if-match': '*' } },
    body: { models: { small: { provider: 'house', model: 'own' } } },
  });
  expect(changed.status).toBe(200);
  await upstream.script([
    { when: { model: 'own' }, reply: { text: 'A name of our own' } },
    { reply: { text: 'Yes.' } },
  ]);
  await ask({ prompt: 'Is it so?', session_id: id });
  await expect.poll(() => titleOf(id)).toBe('A name of our own');
});
