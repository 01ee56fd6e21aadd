/** Sessions as documents: out, in again, and never with more than was said. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { beginRun, endRun, message, noUsage } from '../store/test-runs.ts';
import { reachOfNobody } from '../store/test-stores.ts';
import { type Account, coded, type Json, type TestApp, testApp } from '../test-app.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});
afterAll(() => app.close());

const at = '2026-11-21T08:00:00.000Z';
const said = (role: string, ...parts: object[]) => ({
  ...{ role, parts, model: role === 'assistant' ? 'demo:demo-1' : null, usage: null, created_at: at },
  stop_reason: role === 'assistant' ? 'end_turn' : null,
});
const text = (words: string) => ({ type: 'text', text: words });
const use = { type: 'tool_use', id: 'call_1', name: 'view', input: { file_path: 'a`b.txt' } };
const result = (content: string, tool_use_id = 'call_1') => ({
  ...{ type: 'tool_result', tool_use_id, name: 'view', content, is_error: false },
});

function document(messages: object[], more: object = {}): Json {
  const facts = { title: 'Old <session>', agent_slug: 'coder', model: null, system_prompt: 'Be kind.' };
  const session = { ...facts, tags: ['a'], metadata: { k: 'v' }, created_at: at, ...more };
  return { format_version: 1, exported_at: at, session, messages };
}

const conversation = document([
  said('user', text('Show me a`b.txt, please. <script>alert(1)</script>')),
  said('assistant', { type: 'reasoning', text: 'It wants\na file.' }, text('Here:'), use),
  said('tool', result('```\nfenced\n```')),
  said('assistant', text('Done. ✓')),
]);

const take = (body: Json, account = ada, query = '') =>
  app.request('POST', `/api/v1/sessions/import${query}`, { token: account.token, body });
const give = (id: string, format = '', account = ada) =>
  app.request('GET', `/api/v1/sessions/${id}/export${format && `?format=${format}`}`, {
    token: account.token,
  });

describe('a document', () => {
  test('that comes in goes out as it was, under ids of its own, and is found by searches', async () => {
    const taken = await take(conversation);
    expect(taken).toMatchObject({ status: 201, body: { title: 'Old <session>', message_count: 4, cost: 0 } });
    const given = await give(taken.body.id);
    expect(given.headers.get('content-disposition')).toBe(
      `attachment; filename="session-${taken.body.id}.json"`,
    );
    const { session, messages, format_version } = given.body;
    expect(format_version).toBe(1);
    expect(session).toMatchObject({ ...conversation.session, created_at: expect.any(String) });
    const bare = messages.map(({ id, summary, excluded, ...rest }: Json) => rest);
    expect(bare).toEqual(conversation.messages);
    expect(await take(given.body)).toMatchObject({ status: 201 });
    const found = await app.request('POST', '/api/v1/sessions/search', {
      token: ada.token,
      body: { query: 'fenced', in: ['tool'] },
    });
    expect(JSON.stringify(found.body)).toContain(taken.body.id);
  });

  test('goes on as any session', async () => {
    const { body: session } = await take(conversation);
    const body = { prompt: 'And now?', session_id: session.id, model: 'demo:demo-1' };
    expect(await app.request('POST', '/api/v1/query', { token: app.operatorKey, body })).toMatchObject({
      status: 404,
    });
    const answer = await app.request('POST', '/api/v1/query', { token: ada.token, body });
    expect(answer).toMatchObject({ status: 200, body: { status: 'completed' } });
    expect((await give(session.id)).body.messages).toHaveLength(6);
  });

  test('brings no rights along', async () => {
    const rules = [{ tool: 'bash', decision: 'allow' }];
    expect(await take(document([], { permission_rules: rules }))).toMatchObject({ status: 400 });
    const token = ada.token;
    const made = await app.request('POST', '/api/v1/sessions', { token, body: { permission_rules: rules } });
    expect((await give(made.body.id)).body.session).not.toHaveProperty('permission_rules');
  });

  test('is, line by line, the session and then its messages', async () => {
    const { body: session } = await take(conversation);
    const { body, headers } = await give(session.id, 'jsonl');
    expect(headers.get('content-type')).toBe('application/jsonl');
    const lines = body
      .trimEnd()
      .split('\n')
      .map((line: string) => JSON.parse(line));
    expect(lines).toHaveLength(5);
    expect(lines[0]).toMatchObject({ format_version: 1, session: { id: session.id } });
    expect(lines[4]).toMatchObject({ role: 'assistant', parts: [text('Done. ✓')] });
  });

  test('in Markdown keeps what is fenced in its fence', async () => {
    const { body: session } = await take(conversation);
    const { body, headers } = await give(session.id, 'markdown');
    expect(headers.get('content-type')).toBe('text/markdown; charset=utf-8');
    expect(body).toContain('# Old \\<session\\>');
    expect(body).toContain('> It wants\n> a file.');
    expect(body).toContain('````\n```\nfenced\n```\n````');
    expect(body).toContain('Done. ✓');
  });

  test('in Markdown may have any number of fences', async () => {
    const { body: session } = await take(
      document([said('assistant', use), said('tool', result('` '.repeat(200_000)))]),
    );
    const { status, body } = await give(session.id, 'markdown');
    expect(status).toBe(200);
    expect(body).toContain('\n```\n` ` `');
  });

  test('in HTML runs nothing and loads nothing', async () => {
    const { body: session } = await take(conversation);
    const { body, headers } = await give(session.id, 'html');
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(body).not.toContain('<script');
    expect(body).toContain('&#60;script&#62;alert(1)&#60;/script&#62;');
    expect(body).toContain("default-src 'none'");
    expect(body).toContain('<title>Old &#60;session&#62;</title>');
  });
});

test('what models are no longer shown stays so, in what is imported and in forks', async () => {
  const { store } = app.services;
  const { body: session } = await take(conversation);
  const run = await beginRun(store, reachOfNobody(ada.user.id), { sessionId: session.id });
  const answer = (words: string, stop_reason: 'interrupted' | 'end_turn') => ({
    ...{ ...message('assistant', words), model: 'demo:demo-1', stop_reason },
    usage: noUsage,
  });
  const more = { ...run, usage: noUsage, steps: 1 as const, events: [] };
  // A process died in the middle of the answer, the next one gave it anew, and a person stopped the one behind.
  await store.transcript.resumeRun({ ...more, messages: [answer('The begin', 'interrupted')] });
  await store.transcript.commitStep({ ...more, messages: [answer('The whole', 'end_turn')] });
  await endRun(store, run);
  const stopped = await beginRun(store, reachOfNobody(ada.user.id), { sessionId: session.id });
  const begun = { ...more, ...stopped };
  await store.transcript.commitStep({ ...begun, messages: [answer('Begun, and', 'interrupted')] });
  await endRun(store, stopped);
  const { body: given } = await give(session.id);
  given.messages[0].excluded = true;
  const { body: taken } = await take(given);
  const { body: fork } = await app.request('POST', `/api/v1/sessions/${session.id}/fork`, {
    token: ada.token,
    body: {},
  });
  const hidden = async (id: string) => {
    const { body } = await app.request('GET', `/api/v1/sessions/${id}/messages`, { token: ada.token });
    return body.data.filter(({ excluded }: Json) => excluded).map(({ parts }: Json) => parts[0].text);
  };
  expect(await hidden(session.id)).toEqual([]);
  expect(await hidden(fork.id)).toEqual(['The begin']);
  const first = conversation.messages[0].parts[0].text;
  expect(await hidden(taken.id)).toEqual([first, 'The begin']);
  const again = (await give(taken.id)).body.messages.map(({ excluded }: Json) => excluded);
  expect(again).toEqual([true, false, false, false, false, true, false, false, false]);
});

test('prompts that still wait stay where they are answered, whichever of them is the next', async () => {
  const { store, identity } = app.services;
  const ask = { token: ada.token, body: {} };
  const sessionId = (await app.request('POST', '/api/v1/sessions', ask)).body.id;
  const reach = await identity.authenticate(ada.token);
  const run = await beginRun(store, reach, { sessionId, prompt: 'At work.' });
  await store.transcript.changeStatus(run, 'running', []);
  const stopped = await beginRun(store, reach, { sessionId, prompt: 'Waits.' });
  await store.runs.requestInterrupt(reach, stopped.runId, 'requested');
  const waiting = await beginRun(store, reach, { sessionId, prompt: 'Waits too.' });
  const exported = async () => (await give(sessionId)).body.messages.map(({ parts }: Json) => parts[0].text);
  expect(await exported()).toEqual(['At work.']);
  for (const format of ['jsonl', 'markdown', 'html']) {
    const whole = JSON.stringify((await give(sessionId, format)).body);
    expect(whole).toContain('At work.');
    expect(whole).not.toContain('Waits');
  }
  await endRun(store, run);
  const { body: imported } = await take((await give(sessionId)).body);
  expect(imported.message_count).toBe(1);
  await endRun(store, stopped);
  expect(await exported()).toEqual(['At work.', 'Waits.']);
  await store.transcript.changeStatus(waiting, 'running', []);
  expect(await exported()).toEqual(['At work.', 'Waits.', 'Waits too.']);
  await endRun(store, waiting);
});

test('a long session comes whole, and goes in again', async () => {
  const messages = Array.from({ length: 10_000 }, (_, index) =>
    said(index % 2 ? 'assistant' : 'user', text(`Word ${index}`)),
  );
  const words = messages.map((_, index) => `Word ${index}`);
  const { body: session } = await take(document(messages));
  const { body: given } = await give(session.id);
  const { status, body: again } = await take(given);
  expect(status).toBe(201);
  for (const { body } of [{ body: given }, await give(again.id)])
    expect(body.messages.map(({ parts }: Json) => parts[0].text)).toEqual(words);
  const searched = await app.request('POST', '/api/v1/sessions/search', {
    token: ada.token,
    body: { query: '9876', session_id: again.id },
  });
  expect(searched.body.data).toMatchObject([{ kind: 'message', snippet: 'Word 9876' }]);
});

const answeredBy = (role: string) => document([said('assistant', use), said(role, result('x'))]);

test.each([
  ['an answer that nobody asked for', document([said('tool', result('x', 'call_9'))]), 422, 'broken_export'],
  ['the answer of a tool in words of the person', answeredBy('user'), 422, 'broken_export'],
  ['the answer of a tool in words of the model', answeredBy('assistant'), 422, 'broken_export'],
  ['another version', { ...conversation, format_version: 2 }, 400, 'invalid_request'],
  ['a profile that is not there', document([], { agent_slug: 'nobody' }), 404, 'agent_not_found'],
  ['a model that is not there', document([], { model: 'no-provider:x' }), 503, 'no_provider_configured'],
  [
    'a use of more tokens than can be counted',
    document([{ ...said('assistant', text('Yes.')), usage: { ...noUsage, input_tokens: 1e20 } }]),
    ...([400, 'invalid_request'] as const),
  ],
  ['an unknown part', document([said('user', { type: 'image', url: 'http://x' })]), 400, 'invalid_request'],
])('%s is refused, and leaves nothing behind', async (_, body, status, code) => {
  const before = await app.request('GET', '/api/v1/sessions', { token: mallory.token });
  expect(await take(body, mallory)).toMatchObject({ status, body: { code } });
  expect((await app.request('GET', '/api/v1/sessions', { token: mallory.token })).body).toEqual(before.body);
});

test('a stranger gets neither the session nor somebody else’s workspace', async () => {
  const { body: session } = await take(conversation);
  for (const format of ['json', 'html'])
    expect(await give(session.id, format, mallory)).toMatchObject({ status: 404 });
  const into = await take(conversation, mallory, `?workspace_id=${session.workspace_id}`);
  expect(into).toMatchObject({ status: 404, body: { code: 'not_found' } });
  expect(await app.request('GET', `/api/v1/sessions/${session.id}/export`)).toMatchObject({ status: 401 });
  expect(await app.request('POST', '/api/v1/sessions/import', { body: conversation })).toMatchObject({
    status: 401,
  });
  expect(await give('ses_01k9w6r3h2e7xv5q0c8m4b1tzz')).toMatchObject({ status: 404 });
});

describe('with files', () => {
  const shown = (bytes: number, letter = 'a') => ({
    ...{ type: 'file', media_type: 'application/pdf', name: 'Terms <all>' },
    data: Buffer.alloc(bytes, letter).toString('base64'),
  });
  const about = (...files: object[]) => document([said('user', ...files, text('What is this?'))]);

  test('a document holds their bytes, and the forms for people name them without reading any', async () => {
    const { body: session } = await take(about(shown(900)));
    const reading = vi.spyOn(app.services.store.fileChanges, 'content');
    try {
      expect((await give(session.id, 'markdown')).body).toContain('*Terms \\<all\\>*');
      expect((await give(session.id, 'html')).body).toContain('Terms &#60;all&#62;');
      expect(reading).not.toHaveBeenCalled();
      const { body } = await give(session.id, 'json');
      expect(body.messages[0].parts[0]).toMatchObject(shown(900));
      expect((await give(session.id, 'jsonl')).body).toContain(shown(900).data);
      expect(reading).toHaveBeenCalledTimes(2);
    } finally {
      reading.mockRestore();
    }
  });

  test('a document holds the same bytes once, and comes in again with all that names them', async () => {
    const picture = shown(1024 * 1024);
    const sha256 = createHash('sha256')
      .update(Buffer.alloc(1024 * 1024, 'a'))
      .digest('hex');
    const { data: _, ...told } = picture;
    const references = Array.from({ length: 300 }, () => said('user', { ...told, sha256 }));
    const { status, body: session } = await take(
      document([...about(picture, picture).messages, ...references]),
    );
    expect(status).toBe(201);
    const kept = { ...told, sha256, size: 1024 * 1024 };
    const { body } = await give(session.id);
    expect(body.messages.flatMap(({ parts }: Json) => parts)).toEqual([
      { ...kept, data: picture.data },
      kept,
      text('What is this?'),
      ...Array.from({ length: 300 }, () => kept),
    ]);
    const { body: again } = await take(body);
    expect((await give(again.id)).body.messages.map(({ parts }: Json) => parts)).toEqual(
      body.messages.map(({ parts }: Json) => parts),
    );
  });

  test.each(['json', 'jsonl'])(
    'they are read as fast as they are taken, one after the other: %s',
    async (format) => {
      // Held to the contract, a document would be put together before it is sent.
      const served = await testApp({ settings: { strict: false } });
      onTestFinished(() => served.close());
      const { token } = await served.register('ada');
      const pictures = Array.from({ length: 10 }, (_, index) => shown(2 * 1024 * 1024 + index));
      const body = document(pictures.map((picture) => said('user', picture)));
      const taken = await served.request('POST', '/api/v1/sessions/import', { token, body });
      expect(taken.status).toBe(201);
      const reads = vi.spyOn(served.services.store.fileChanges, 'content');
      const path = `/api/v1/sessions/${taken.body.id}/export?format=${format}`;
      const answer = await served.stream('GET', path, { token });
      const reader = answer.body?.getReader();
      const first = await reader?.read();
      // What the system holds of it is a few of them; nothing more may happen.
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(reads.mock.calls.length).toBeLessThan(pictures.length);
      const pieces = [first?.value ?? new Uint8Array()];
      for (let next = await reader?.read(); next && !next.done; next = await reader?.read())
        pieces.push(next.value);
      const written = Buffer.concat(pieces).toString();
      const messages: Json[] =
        format === 'json'
          ? JSON.parse(written).messages
          : written
              .trim()
              .split('\n')
              .slice(1)
              .map((line) => JSON.parse(line));
      const sent = messages.flatMap(({ parts }) => parts.flatMap((part: Json) => part.data ?? []));
      expect(sent).toEqual(pictures.map(({ data }) => data));
    },
  );

  test('a session is estimated with them, though their bytes stay where they are', async () => {
    const { body: session } = await take(about(shown(320_000)));
    const { body: bare } = await take(about());
    const estimate = async (session_id: string) => {
      const body = { prompt: 'x', model: 'demo:demo-1', session_id };
      const answer = await app.request('POST', '/api/v1/query/estimate', { token: ada.token, body });
      return answer.body.input_tokens;
    };
    const inspected = async (id: string) => {
      const { body } = await app.request('GET', `/api/v1/sessions/${id}/inspect`, { token: ada.token });
      return body.context.parts.find(({ part }: Json) => part === 'messages').tokens;
    };
    // A page of a document is some fifty thousand characters in Base64, and 1600 tokens.
    const [most, least] = [15_000, 12_000];
    for (const count of [estimate, inspected]) {
      const more = (await count(session.id)) - (await count(bare.id));
      expect(more).toBeGreaterThan(least);
      expect(more).toBeLessThan(most);
    }
  });

  test('a session counts for the quota of storage: imported, forked, and shown a picture', async () => {
    const bob = await app.register('bob');
    await app.request('PUT', `/api/v1/quotas/user/${bob.user.id}`, {
      token: app.operatorKey,
      body: { limits: { storage: { hard: 1500 } } },
    });
    const used = async () => {
      const { body } = await app.request('GET', '/api/v1/quotas', { token: bob.token });
      return body.data.find(({ resource }: Json) => resource === 'storage').used;
    };
    const own = (method: string, path: string, body?: object) =>
      app.request(method, `/api/v1/sessions/${path}`, { token: bob.token, ...(body && { body }) });
    const { status, body: session } = await take(about(shown(900)), bob);
    expect([status, await used()]).toEqual([201, 900]);
    const refused = [await take(about(shown(900, 'b')), bob), await own('POST', `${session.id}/fork`, {})];
    expect(refused.map(coded)).toEqual([
      [429, 'quota_exceeded'],
      [429, 'quota_exceeded'],
    ]);
    expect(refused[0]?.body.detail).toContain('allows 1500 bytes of files in all, and 900 are used');
    const say = (content: unknown) =>
      app.request('POST', '/v1/messages', {
        token: bob.token,
        headers: { 'x-service-session-id': session.id },
        body: { model: 'demo:demo-1', max_tokens: 99, messages: [{ role: 'user', content }] },
      });
    const data = Buffer.alloc(900, 'c').toString('base64');
    const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
    expect(await say([picture])).toMatchObject({
      status: 429,
      body: { error: { type: 'rate_limit_error' } },
    });
    expect((await say('Only words.')).status).toBe(200);
    expect(await used()).toBe(900);
    await own('DELETE', session.id);
    expect(await used()).toBe(0);
    expect((await take(about(shown(900, 'b')), bob)).status).toBe(201);
    const addressed = { ...shown(900, 'c'), url: 'https://pictures.example/c.pdf' };
    expect(coded(await take(about(addressed), bob))).toEqual([429, 'quota_exceeded']);
  });
});
