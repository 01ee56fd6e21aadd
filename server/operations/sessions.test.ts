/** The sessions family over HTTP: anonymous, stranger, wrong input, missing, happy. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, type TestApp, testApp } from '../test-app.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});

afterAll(() => app.close());

async function newSession(body: Record<string, unknown> = {}): Promise<{ id: string; etag: string }> {
  const {
    status,
    body: session,
    headers,
  } = await app.request('POST', '/api/v1/sessions', { token: ada.token, body });
  expect(status).toBe(201);
  return { id: session.id, etag: headers.get('etag') ?? '' };
}

describe('a session', () => {
  test('is made, named by its Location, and read back', async () => {
    const made = await app.request('POST', '/api/v1/sessions', {
      token: ada.token,
      body: { title: 'Plans', tags: ['a'], metadata: { k: 'v' }, system_prompt: 'Be kind.' },
    });
    expect(made.status).toBe(201);
    expect(made.headers.get('location')).toBe(`/api/v1/sessions/${made.body.id}`);
    const read = await app.request('GET', made.headers.get('location') ?? '', { token: ada.token });
    expect(read.body).toEqual(made.body);
    expect(read.headers.get('etag')).toBe(made.headers.get('etag'));
  });

  test('is not sent again to whoever has it', async () => {
    const { id, etag } = await newSession();
    const path = `/api/v1/sessions/${id}`;
    const same = await app.request('GET', path, { token: ada.token, headers: { 'if-none-match': etag } });
    expect(same).toMatchObject({ status: 304, body: null });
    const other = await app.request('GET', path, { token: ada.token, headers: { 'if-none-match': '"0"' } });
    expect(other.status).toBe(200);
  });

  test('is changed by merging, and only by who has read it as it is', async () => {
    const { id, etag } = await newSession({ title: 'Old', metadata: { a: '1', b: '2' } });
    const path = `/api/v1/sessions/${id}`;
    const patch = (body: unknown, tag: string) =>
      app.request('PATCH', path, {
        token: ada.token,
        body,
        headers: { 'if-match': tag, 'content-type': 'application/merge-patch+json' },
      });
    const changed = await patch({ title: 'New', metadata: { a: null, c: '3' } }, etag);
    expect(changed.body).toMatchObject({ title: 'New', metadata: { b: '2', c: '3' } });
    const stale = await patch({ title: 'Lost' }, etag);
    expect(stale).toMatchObject({ status: 412, body: { code: 'precondition_failed' } });
    const now = await app.request('GET', path, { token: ada.token });
    expect(now.body.title).toBe('New');
  });

  test('is gone once it is deleted', async () => {
    const { id } = await newSession();
    const path = `/api/v1/sessions/${id}`;
    expect((await app.request('DELETE', path, { token: ada.token })).status).toBe(204);
    expect((await app.request('GET', path, { token: ada.token })).body.code).toBe('not_found');
    expect((await app.request('DELETE', path, { token: ada.token })).status).toBe(404);
  });

  test('may name only an agent and a model that there are', async () => {
    const agent = await app.request('POST', '/api/v1/sessions', {
      token: ada.token,
      body: { agent_slug: 'poet' },
    });
    expect(agent).toMatchObject({ status: 404, body: { code: 'agent_not_found' } });
    expect(agent.body.detail).toContain('coder');
    const model = await app.request('POST', '/api/v1/sessions', {
      token: ada.token,
      body: { model: 'nobody:none' },
    });
    expect(model.body.code).toMatch(/model_not_found|no_provider_configured/);
  });

  test('lies in a workspace of its owner only', async () => {
    const { id } = await newSession();
    const { body } = await app.request('GET', `/api/v1/sessions/${id}`, { token: ada.token });
    const foreign = await app.request('POST', '/api/v1/sessions', {
      token: mallory.token,
      body: { workspace_id: body.workspace_id },
    });
    expect(foreign).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });
});

describe('the list of sessions', () => {
  test('is walked page by page, each session once', async () => {
    const one = await app.register('walker');
    const made: string[] = [];
    for (let count = 0; count < 5; count += 1) {
      const { body } = await app.request('POST', '/api/v1/sessions', {
        token: one.token,
        body: { title: `${count}` },
      });
      made.unshift(body.id);
    }
    const seen: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = await app.request('GET', `/api/v1/sessions?limit=2${cursor && `&cursor=${cursor}`}`, {
        token: one.token,
      });
      seen.push(...page.body.data.map(({ id }: { id: string }) => id));
      cursor = page.body.next_cursor;
    }
    expect(seen).toEqual(made);
  });

  test('refuses a cursor of another list, another order, or nobody', async () => {
    await newSession();
    await newSession();
    const { body } = await app.request('GET', '/api/v1/sessions?limit=1', { token: ada.token });
    for (const query of [
      `sort=created_at&cursor=${body.next_cursor}`,
      'cursor=abc',
      `tag=x&cursor=${body.next_cursor}`,
    ]) {
      const answer = await app.request('GET', `/api/v1/sessions?${query}`, { token: ada.token });
      expect(answer, query).toMatchObject({ status: 400, body: { code: 'invalid_cursor' } });
    }
    const foreign = await app.request('GET', `/api/v1/sessions?limit=1&cursor=${body.next_cursor}`, {
      token: mallory.token,
    });
    expect(foreign.status).toBe(400);
  });

  test('holds nothing of anybody else', async () => {
    const canary = `canary-${Date.now()}`;
    await newSession({ title: canary, tags: [canary] });
    for (const path of [
      '/api/v1/sessions',
      `/api/v1/sessions?tag=${canary}`,
      '/api/v1/runs',
      '/api/v1/metrics',
    ]) {
      const answer = await app.request('GET', path, { token: mallory.token });
      expect(JSON.stringify(answer.body)).not.toContain(canary);
    }
  });

  test('leaves archived sessions out unless they are asked for', async () => {
    const { id } = await newSession({ title: 'Done' });
    await app.request('PATCH', `/api/v1/sessions/${id}`, { token: ada.token, body: { archived: true } });
    const idsOf = async (query: string) => {
      const { body } = await app.request('GET', `/api/v1/sessions?limit=100${query}`, { token: ada.token });
      return body.data.map((session: { id: string }) => session.id);
    };
    expect(await idsOf('')).not.toContain(id);
    expect(await idsOf('&archived=true')).toContain(id);
  });
});

describe("what is somebody else's", () => {
  const unknown = 'ses_01k9w6r3h2e7xv5q0c8m4b1tza';
  const request = 'prm_01k9w6r3h2e7xv5q0c8m4b1tza';
  const prompt = 'prq_01k9w6r3h2e7xv5q0c8m4b1tza';

  test.each<[string, string, unknown?]>([
    ['GET', ''],
    ['PATCH', '', { title: 'Mine' }],
    ['DELETE', ''],
    ['POST', '/interrupt'],
    ['GET', '/messages'],
    ['GET', '/permissions'],
    ['GET', '/prompts'],
    ['POST', `/permissions/${request}/reply`, { decision: 'deny' }],
    ['POST', `/prompts/${prompt}/reply`, { cancelled: true }],
  ])('is answered exactly as what does not exist: %s %s', async (method, rest, body) => {
    const { id } = await newSession();
    const ask = (session: string, token: string) =>
      app.request(method, `/api/v1/sessions/${session}${rest}`, {
        token,
        ...(body !== undefined && { body }),
      });
    const foreign = await ask(id, mallory.token);
    const missing = await ask(unknown, mallory.token);
    expect(foreign.status).toBe(404);
    expect({ ...foreign.body, instance: '', request_id: '' }).toEqual({
      ...missing.body,
      instance: '',
      request_id: '',
    });
    expect((await app.request('GET', `/api/v1/sessions/${id}`, { token: ada.token })).body.title).toBe(
      'New session',
    );
  });

  test('needs a credential in the first place', async () => {
    const { id } = await newSession();
    const answer = await app.request('GET', `/api/v1/sessions/${id}`);
    expect(answer).toMatchObject({ status: 401, body: { code: 'credential_missing' } });
    expect(answer.headers.get('www-authenticate')).toContain('Bearer');
  });
});

describe('a key with few scopes', () => {
  test('may read and not write, and is told which scope it lacks', async () => {
    const { body } = await app.request('POST', '/api/v1/auth/api-keys', {
      token: ada.token,
      body: { name: 'reader', scopes: ['sessions:read'] },
    });
    expect((await app.request('GET', '/api/v1/sessions', { token: body.key })).status).toBe(200);
    const refused = await app.request('POST', '/api/v1/sessions', { token: body.key, body: {} });
    expect(refused).toMatchObject({ status: 403, body: { code: 'scope_required' } });
    expect(refused.body.detail).toContain('sessions:write');
  });
});

test('a day that no calendar has is refused', async () => {
  const list = (moment: string) =>
    app.request('GET', `/api/v1/sessions?updated_after=${moment}`, { token: ada.token });
  for (const moment of ['2026-06-31T00:00:00.000Z', '2026-13-01T00:00:00.000Z', '0000-00-00T00:00:00.000Z'])
    expect(await list(moment)).toMatchObject({
      status: 400,
      body: { errors: [{ in: 'query', name: 'updated_after' }] },
    });
  expect(await list('2026-06-30T00:00:00.000Z')).toMatchObject({ status: 200 });
});
