/** Requests that do not match the contract are told exactly where. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AnyCall } from './ports.ts';
import { startTestServer, type TestServer } from './test-server.ts';

let server: TestServer;
let seen: AnyCall | undefined;

beforeAll(async () => {
  const keep = async (call: AnyCall) => {
    seen = call;
    return { status: 200, body: { data: [], next_cursor: null } };
  };
  server = await startTestServer({ handlers: { listSessions: keep, listRuns: keep } });
});
afterAll(() => server.close());

const sessions = '/api/v1/sessions';
const id = 'ses_01k9w6r3h2e7xv5q0c8m4b1tza';

describe('queries', () => {
  test('types and defaults are filled in', async () => {
    await server.request('GET', `${sessions}?limit=5&archived=true&tag=a%20b&tag2`.replace('&tag2', ''));
    expect(seen?.query).toEqual({ limit: 5, archived: true, tag: 'a b', sort: '-created_at' });
    await server.request('GET', sessions);
    expect(seen?.query).toEqual({ limit: 20, archived: false, sort: '-created_at' });
  });

  test.each([
    ['tag=a+b', 'a b'],
    ['tag=team:blue/x?y@z', 'team:blue/x?y@z'],
    ["tag=(it's)!*", "(it's)!*"],
    ['tag=a=b', 'a=b'],
    ['tag=%F0%9F%91%8B', '👋'],
  ])('%s is read as any client means it', async (query, tag) => {
    expect((await server.request('GET', `${sessions}?${query}`)).status).toBe(200);
    expect(seen?.query.tag).toBe(tag);
  });

  test.each([
    ['limit=0', 'limit', 'minimum'],
    ['limit=101', 'limit', 'maximum'],
    ['limit=-1', 'limit', 'minimum'],
    ['limit=ten', 'limit', 'type'],
    ['limit=1e1', 'limit', 'type'],
    ['limit=0x10', 'limit', 'type'],
    ['limit=5.0', 'limit', 'type'],
    ['limit=%205', 'limit', 'type'],
    ['limit=', 'limit', 'empty'],
    ['limit', 'limit', 'empty'],
    ['limit=5&limit=6', 'limit', 'repeated'],
    ['limit=5&limit=5', 'limit', 'repeated'],
    ['limit[]=5', 'limit[]', 'unknown'],
    ['limit[a]=5', 'limit[a]', 'unknown'],
    ['archived=yes', 'archived', 'type'],
    ['sort=title', 'sort', 'enum'],
    ['cursor=a%20b', 'cursor', 'pattern'],
    ['workspace_id=org_01k9w6r3h2e7xv5q0c8m4b1tza', 'workspace_id', 'pattern'],
    ['nonsense=1', 'nonsense', 'unknown'],
    ['__proto__=1', '__proto__', 'unknown'],
    ['tag=a%0Ab', 'tag', 'pattern'],
  ])('%s is refused', async (query, name, code) => {
    const answer = await server.request('GET', `${sessions}?${query}`);
    expect([answer.status, answer.json.code]).toEqual([400, 'invalid_request']);
    expect(answer.json.errors).toEqual([{ in: 'query', name, message: expect.any(String), code }]);
  });

  test('all that is wrong is told at once', async () => {
    const answer = await server.request('GET', `${sessions}?limit=0&sort=title&nonsense=1&archived=5`);
    expect(answer.json.errors.map((error: { name: string }) => error.name).sort()).toEqual([
      'archived',
      'limit',
      'nonsense',
      'sort',
    ]);
    expect(answer.json.detail).toContain('; and 1 more');
  });

  test.each([['tag=%00'], ['tag=%ff'], ['%ff=1'], ['tag=%'], ['tag=%zz'], ['tag=%ed%a0%80']])(
    '%s is not text',
    async (query) => {
      const answer = await server.request('GET', `${sessions}?${query}`);
      expect([answer.status, answer.json.code]).toEqual([400, 'invalid_encoding']);
    },
  );

  test('a long name does not come back whole', async () => {
    const answer = await server.request('GET', `${sessions}?${'x'.repeat(8000)}=1`);
    expect(answer.status).toBe(400);
    expect(answer.text.length).toBeLessThan(1000);
  });

  test.each(['beta=true&other=1', 'beta=&other=', 'beta'])(
    'under /v1 what is not known or empty is let pass: %s',
    async (query) => {
      const body = { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] };
      expect((await server.request('POST', `/v1/messages?${query}`, { body })).status).toBe(404);
    },
  );
});

describe('paths', () => {
  test.each([
    ['x'],
    ['ses_x'],
    [id.toUpperCase()],
    [`${id}x`],
    ['run_01k9w6r3h2e7xv5q0c8m4b1tza'],
    ['%00'],
    ['..%2f..%2fetc%2fpasswd'],
    ["'%20OR%201=1"],
  ])('an id that cannot be one, %s, is answered as any that does not exist', async (wrong) => {
    const answer = await server.request('GET', `${sessions}/${wrong}`);
    const missing = await server.request('GET', `${sessions}/${id}`);
    expect([answer.status, answer.json.code, answer.json.detail]).toEqual([
      missing.status,
      missing.json.code,
      missing.json.detail,
    ]);
  });

  test('so it is whatever else is wrong', async () => {
    const answer = await server.request('PATCH', `${sessions}/x`, { body: { nonsense: 1 } });
    expect([answer.status, answer.json.code]).toEqual([404, 'not_found']);
  });
});

describe('headers', () => {
  test.each([['3'], ['""x'], ['"a" "b"'], ['x'.repeat(300)]])('If-Match: %s is refused', async (value) => {
    const answer = await server.request('DELETE', `${sessions}/${id}`, { headers: { 'if-match': value } });
    expect(answer.status).toBe(400);
    expect(answer.json.errors[0]).toMatchObject({ in: 'header', name: 'If-Match' });
  });

  test.each([['"3"'], ['*'], ['W/"3", "4"']])('If-Match: %s is one', async (value) => {
    const answer = await server.request('DELETE', `${sessions}/${id}`, { headers: { 'if-match': value } });
    expect(answer.json.code).toBe('not_found');
  });
});

describe('bodies', () => {
  test.each([
    ['a wrong type', { title: 5 }, [['/title', 'type', 'must be string']]],
    ['an unknown member', { nonsense: 1 }, [['/nonsense', 'additionalProperties', 'is not a known member']]],
    ['too short', { title: '' }, [['/title', 'minLength', expect.stringContaining('1 characters')]]],
    [
      'not one of the list',
      { permission_rules: [{ tool: 'bash', decision: 'maybe' }] },
      [['/permission_rules/0/decision', 'enum', 'must be one of allow, deny']],
    ],
    [
      'a missing member, deep',
      { permission_rules: [{ tool: 'bash' }] },
      [['/permission_rules/0/decision', 'required', 'is required']],
    ],
    ['a wrong name', { metadata: { 'a b': 'x' } }, [['/metadata/a b', 'pattern', expect.any(String)]]],
    ['a slash in a name', { 'a/b~c': 1 }, [['/a~1b~0c', 'additionalProperties', 'is not a known member']]],
    [
      'two at once',
      { title: 5, tags: 'x' },
      [
        ['/title', 'type', 'must be string'],
        ['/tags', 'type', 'must be array'],
      ],
    ],
  ])('%s', async (_title, body, expected) => {
    const answer = await server.request('POST', sessions, { body });
    expect([answer.status, answer.json.code]).toEqual([400, 'invalid_request']);
    expect(
      answer.json.errors.map((error: Record<string, unknown>) => [error.pointer, error.code, error.message]),
    ).toEqual(expected);
    for (const error of answer.json.errors) expect(error.in).toBe('body');
  });

  test('the detail says it in a sentence', async () => {
    const answer = await server.request('POST', sessions, { body: { title: 5 } });
    expect(answer.json.detail).toBe('body/title: must be string');
  });

  test('a query and a body are judged together', async () => {
    const answer = await server.request('POST', `${sessions}?x=1`, { body: { title: 5 } });
    expect(answer.json.errors.map((error: { in: string }) => error.in)).toEqual(['query', 'body']);
  });

  const reply = `${sessions}/${id}/prompts/prq_01k9w6r3h2e7xv5q0c8m4b1tza/reply`;
  test.each([
    ['neither form', { nonsense: 1 }, 1],
    ['one form, wrong inside', { answers: [{ question_id: 5 }] }, ['/answers/0/question_id']],
    ['one form, with a stranger', { cancelled: true, x: 1 }, ['/x']],
  ])('of two forms, the one that was meant is explained: %s', async (_title, body, pointers) => {
    const answer = await server.request('POST', reply, { body });
    expect(answer.status).toBe(400);
    if (Array.isArray(pointers))
      expect(answer.json.errors.map((error: { pointer: string }) => error.pointer)).toEqual(pointers);
    else expect(answer.json.errors.length).toBeLessThanOrEqual(2);
  });

  const message = (content: unknown) => ({
    model: 'm',
    max_tokens: 1,
    messages: [{ role: 'user', content }],
  });
  test.each([
    ['neither text nor blocks', 5, 'messages.0.content: must be string or array'],
    ['an unknown block', [{ type: 'hologram' }], 'messages.0.content.0.type'],
  ])('under /v1 the message names the place: %s', async (_title, content, sentence) => {
    const answer = await server.request('POST', '/v1/messages', { body: message(content) });
    expect([answer.status, answer.json.type, answer.json.error.type]).toEqual([
      400,
      'error',
      'invalid_request_error',
    ]);
    expect(answer.json.error.message).toContain(sentence);
  });

  test('under /v1 what is not known is let pass', async () => {
    const body = {
      ...message([{ type: 'text', text: 'x', cache_control: { type: 'ephemeral', x: 1 }, y: 2 }]),
      z: 3,
      thinking: { type: 'adaptive' },
    };
    expect((await server.request('POST', '/v1/messages', { body })).status).toBe(404);
  });
});

test.each([
  ['is missing', {}, 'required'],
  ['is none', { 'x-service-otp': 'a word' }, 'pattern'],
])(
  'a header that an operation needs and that %s is named',
  async (_, headers: Record<string, string>, code) => {
    const { status, json } = await server.request('DELETE', '/api/v1/auth/mfa', { headers });
    expect([status, json.errors]).toEqual([
      400,
      [{ in: 'header', name: 'x-service-otp', message: expect.any(String), code }],
    ]);
  },
);
