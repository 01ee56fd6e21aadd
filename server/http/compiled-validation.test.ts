/** What is validated without the middleware is let in and refused as the middleware would, and reads the same afterwards. */
import { describe, expect, test } from 'vitest';
import { type Route, routes } from '../contract/routes.ts';
import { accepts, isCompiled } from './compiled-validation.ts';
import { child, operationOf } from './contract-document.ts';
import { isRefused, type RequestView } from './path-validator.ts';

const compiled = routes.filter(isCompiled);

/** Values of every type, at the edges of what is allowed. */
const strange = [
  undefined,
  null,
  true,
  0,
  -1,
  0.5,
  1_000_001,
  '',
  'x',
  '\0',
  'user',
  [],
  [{}],
  {},
  { type: 'text' },
];

const conversation = {
  model: 'a:b',
  max_tokens: 100,
  system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
  messages: [
    { role: 'user', content: 'Is it raining?' },
    { role: 'system', content: 'Hurry.', clear_at: 'next_user_message' },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Let me see.', signature: 'Eq' },
        { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { place: 'Rome' } },
      ],
    },
    {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [], is_error: false }],
    },
    {
      role: 'user',
      content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA' } }],
    },
  ],
  tools: [
    {
      name: 'get_weather',
      description: 'Tells it.',
      input_schema: { type: 'object', properties: {} },
      strict: true,
    },
    { type: 'web_search_20250305', name: 'web_search', max_uses: 3 },
  ],
  tool_choice: { type: 'tool', name: 'get_weather', disable_parallel_tool_use: true },
  thinking: { type: 'enabled', budget_tokens: 1024, display: 'omitted' },
  output_config: { effort: 'high', format: { type: 'json_schema', schema: {} } },
  metadata: { user_id: 'x' },
  stop_sequences: ['END'],
  thread: { type: 'continue', previous_message_id: 'msg_1' },
  ...{ temperature: 1, top_p: 0.5, top_k: 4, stream: true, unknown: 1 },
};

const headers = {
  'idempotency-key': 'one',
  'x-service-session-id': 'ses_01k9w6r3h2e7xv5q0c8m4b1tza',
  'x-service-provider-setting-id': 'pset_01k9w6r3h2e7xv5q0c8m4b1tza',
  'anthropic-version': '2023-06-01',
  'anthropic-beta': 'one,two',
};

test('the operations of the Messages surface that carry a conversation are', () => {
  expect(compiled.map(({ operationId }) => operationId)).toEqual(['createMessage', 'countMessageTokens']);
});

describe.each(compiled)('$operationId', (route) => {
  test('judges thousands of damaged bodies alike', async () => {
    const bodies = [conversation, ...examplesOf(route)].flatMap((body) => [body, ...damaged(body)]);
    const verdicts = await Promise.all(bodies.map((body) => judged(route, { body })));
    expect(verdicts.filter(Boolean).length).toBeGreaterThan(100);
    expect(verdicts.filter((verdict) => !verdict).length).toBeGreaterThan(100);
  });

  test('judges damaged headers and queries alike', async () => {
    const long = 'x'.repeat(2001);
    const given = damaged(headers).filter((one) => Object.values(one as object).every(isText));
    const longer = Object.keys(headers).map((name) => ({ ...headers, [name]: long }));
    for (const one of [headers, ...given, ...longer]) await judged(route, { headers: one as typeof headers });
    expect(await judged(route, { headers: { ...headers, 'x-service-session-id': 'x' } })).toBe(
      route.operationId === 'countMessageTokens',
    );
    for (const beta of ['true', long]) await judged(route, { query: { beta } });
  });
});

/** Whether it is let in, after both have said so and have made the same of it. */
async function judged(
  route: Route,
  more: Partial<Pick<RequestView, 'body' | 'headers' | 'query'>>,
): Promise<boolean> {
  const given = { headers: {}, query: {}, body: conversation, ...more };
  const [own, other] = [structuredClone(given), structuredClone(given)];
  const view = {
    ...{ method: 'POST', originalUrl: route.path, path: route.path, baseUrl: '', cookies: {}, params: {} },
    app: { enabled: () => true, param: () => undefined },
    ...other,
    headers: { ...other.headers, 'content-type': 'application/json' },
  };
  const accepted = own.body !== undefined && accepts(route, own);
  expect(accepted, JSON.stringify(more)).toBe(!(await isRefused(route.path, view)));
  if (accepted) expect(own.body).toEqual(view.body);
  return accepted;
}

function examplesOf(route: Route): unknown[] {
  const content = child(child(child(operationOf(route), 'requestBody'), 'content'), 'application/json');
  return Object.values(child(content, 'examples')).map((example) => (example as { value: unknown }).value);
}

/** The value with something strange in each of its places. */
function damaged(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return strange;
  return Object.entries(value).flatMap(([name, member]) =>
    damaged(member).map((other) => {
      const copy: unknown = structuredClone(value);
      Reflect.set(copy as object, name, other);
      return copy;
    }),
  );
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}
