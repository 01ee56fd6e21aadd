/** The providers over HTTP, against the scripted upstream in each vendor's own wire format. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { createOutbound } from '../../outbound/outbound.ts';
import type { Model, ModelPart, ModelRequest } from '../models/model.ts';
import { createProviders, type ProviderDefinition } from './providers.ts';

// As the server reaches them.
const fetch = createOutbound({ shared: () => true }).fetchFor('operator');

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

const types = ['openai', 'openai-compat', 'anthropic'] as const;

function definition(type: ProviderDefinition['type']): ProviderDefinition {
  return {
    id: type,
    type,
    models: [{ id: 'scripted-1' }],
    connect: async () => ({
      baseUrl: `${upstream.url}/v1`,
      apiKey: 'test-key',
      headers: { 'x-team': 'blue' },
    }),
  };
}

function open(type: ProviderDefinition['type'], silenceMs = 5000): Model {
  const providers = createProviders({
    definitions: [definition(type)],
    defaultModel: null,
    demo: false,
    timeouts: { silenceMs },
    fetch,
  });
  return providers.open(`${type}:scripted-1`);
}

function request(text: string, more: Partial<ModelRequest> = {}): ModelRequest {
  return {
    system: 'Be brief.',
    messages: [{ role: 'user', parts: [{ type: 'text', text }] }],
    tools: [],
    maxTokens: 500,
    ...more,
  };
}

const viewTool = {
  name: 'view',
  description: 'Reads a file.',
  inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
};

async function collect(parts: AsyncIterable<ModelPart>): Promise<ModelPart[]> {
  const all: ModelPart[] = [];
  for await (const part of parts) all.push(part);
  return all;
}

function textOf(parts: readonly ModelPart[]): string {
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

describe.each(types)('the provider type %s', (type) => {
  beforeEach(async () => {
    await upstream.script([
      { reply: { text: 'You said: {{last_user}}', usage: { input: 7, output: 3, cached: 2 } } },
    ]);
  });

  test('streams text and counts tokens', async () => {
    const parts = await collect(open(type).stream(request('Grüße 👋'), AbortSignal.timeout(5000)));
    expect(textOf(parts)).toBe('You said: Grüße 👋');
    expect(parts.filter((part) => part.type === 'text').length).toBeGreaterThan(1);
    const usage = type === 'anthropic' ? { input_tokens: 7 } : { input_tokens: 7 };
    expect(parts.at(-1)).toMatchObject({
      type: 'finish',
      stopReason: 'end_turn',
      usage: { ...usage, output_tokens: 3, cached_input_tokens: 2 },
    });
  });

  test('sends system prompt, key, headers and limits', async () => {
    await collect(open(type).stream(request('Hi', { temperature: 0.5 }), AbortSignal.timeout(5000)));
    const sent = await upstream.latest(() => true);
    expect(sent.headers['x-team']).toBe('blue');
    expect(JSON.stringify(sent.headers)).toContain('test-key');
    expect(JSON.stringify(sent.body)).toContain('Be brief.');
    expect(sent.body).toMatchObject({ model: 'scripted-1', temperature: 0.5, stream: true });
  });

  test('carries tool calls in parallel and their results back', async () => {
    await upstream.script([
      {
        when: { step: 0 },
        reply: {
          text: 'Two files.',
          tool_calls: [
            { name: 'view', arguments: { path: 'a.txt' } },
            { name: 'view', arguments: { path: 'b.txt' } },
          ],
        },
      },
      { reply: { text: 'Last result: {{last_tool_result}}' } },
    ]);
    const first = await collect(
      open(type).stream(request('Read both.', { tools: [viewTool] }), AbortSignal.timeout(5000)),
    );
    const calls = first.filter((part) => part.type === 'tool_use');
    expect(calls.map(({ input }) => input)).toEqual([{ path: 'a.txt' }, { path: 'b.txt' }]);
    expect(first.at(-1)).toMatchObject({ stopReason: 'tool_use' });
    const pieces = first.flatMap((part) =>
      part.type === 'tool_input' && part.id === calls[0]?.id ? [part.json] : [],
    );
    expect(JSON.parse(pieces.join(''))).toEqual({ path: 'a.txt' });

    const messages: ModelRequest['messages'] = [
      ...request('Read both.').messages,
      { role: 'assistant', parts: [{ type: 'text', text: 'Two files.' }, ...calls] },
      {
        role: 'tool',
        parts: calls.map(({ id, name, input }) => ({
          type: 'tool_result',
          tool_use_id: id,
          name,
          content: `content of ${String(input.path)}`,
          is_error: false,
        })),
      },
    ];
    const second = await collect(
      open(type).stream(request('', { messages, tools: [viewTool] }), AbortSignal.timeout(5000)),
    );
    expect(textOf(second)).toBe('Last result: content of b.txt');
  });

  test('is sent no message that says nothing: a thought that was cut off, or nothing but space', async () => {
    const messages: ModelRequest['messages'] = [
      ...request('One').messages,
      { role: 'assistant', parts: [{ type: 'reasoning', text: 'Let me think' }] },
      ...request('Two').messages,
      { role: 'assistant', parts: [{ type: 'text', text: '\n\n' }] },
      ...request('Three').messages,
    ];
    await collect(open(type).stream(request('', { messages }), AbortSignal.timeout(5000)));
    const { body } = await upstream.latest(() => true);
    expect(JSON.stringify(body)).not.toMatch(/"role":"assistant"/);
    expect(JSON.stringify(body)).toMatch(/One.*Two.*Three/);
  });

  test('gives a tool with broken arguments an empty input', async () => {
    await upstream.script([{ reply: { tool_calls: [{ name: 'view', arguments: '{"path": ' }] } }]);
    const parts = await collect(
      open(type).stream(request('Read.', { tools: [viewTool] }), AbortSignal.timeout(5000)),
    );
    expect(parts).toContainEqual(expect.objectContaining({ type: 'tool_use', input: {} }));
  });

  test.each([
    [{ kind: 'status', status: 401 }, 'provider_refused'],
    [{ kind: 'status', status: 400 }, 'provider_refused'],
    [{ kind: 'status', status: 429, retry_after: '7' }, 'provider_rate_limited'],
    [{ kind: 'status', status: 529 }, 'provider_rate_limited'],
    [{ kind: 'status', status: 500 }, 'provider_failed'],
    [{ kind: 'cut' }, 'provider_failed'],
    [{ kind: 'cut', after_chunks: 2 }, 'provider_failed'],
    [{ kind: 'end', after_chunks: 2 }, 'provider_failed'],
    [{ kind: 'garbage', after_chunks: 2 }, 'provider_failed'],
    [{ kind: 'wrong_json', after_chunks: 2 }, 'provider_failed'],
    [{ kind: 'error_frame', after_chunks: 2, status: 500 }, 'provider_failed'],
    // Only Anthropic's dialect has a word for overload once a stream is open.
    [
      { kind: 'error_frame', after_chunks: 2, status: 529 },
      type === 'anthropic' ? 'provider_rate_limited' : 'provider_failed',
    ],
  ])("tells the failure %o as %s, without the upstream's own words", async (fail, code) => {
    await upstream.script([
      { reply: { text: 'A long enough answer to be cut in its middle.' }, fail: said(fail) },
    ]);
    const failed = collect(open(type).stream(request('Hi'), AbortSignal.timeout(5000)));
    await expect(failed).rejects.toMatchObject({ name: 'ModelFailure', code });
    await expect(failed).rejects.not.toThrow('canary');
  });

  test.each([[{ kind: 'hang' }], [{ kind: 'hang', after_chunks: 2 }]])(
    'gives up on a provider that hangs: %o',
    async (fail) => {
      await upstream.script([{ reply: { text: 'A long enough answer to hang in its middle.' }, fail }]);
      const failed = collect(open(type, 300).stream(request('Hi'), AbortSignal.timeout(5000)));
      await expect(failed).rejects.toMatchObject({ code: 'provider_timeout' });
      await upstream.latest(({ outcome }) => outcome === 'aborted');
    },
  );

  test('closes the call when it is aborted, before the first byte and in the middle', async () => {
    for (const after_chunks of [undefined, 2]) {
      await upstream.script([
        {
          reply: { text: 'A long enough answer.' },
          fail: { kind: 'hang', ...(after_chunks && { after_chunks }) },
        },
      ]);
      const controller = new AbortController();
      const ended = collect(open(type).stream(request('Hi'), controller.signal));
      await upstream.latest(() => true);
      setTimeout(() => controller.abort(), 50);
      await ended;
      await upstream.latest(({ outcome }) => outcome === 'aborted');
    }
  });
});

test('an answer is complete when its vendor says so, though the connection stays open', async () => {
  await upstream.script([{ reply: { text: 'All of it.' }, fail: { kind: 'hang', after_chunks: 1000 } }]);
  const parts = await collect(open('anthropic', 300).stream(request('Hi'), AbortSignal.timeout(5000)));
  expect(textOf(parts)).toBe('All of it.');
  expect(parts.at(-1)).toMatchObject({ type: 'finish', stopReason: 'end_turn' });
  await upstream.latest(({ outcome }) => outcome === 'aborted');
});

/** Failures that speak say something that no caller may read. */
function said(fail: { readonly kind: string }) {
  const speaks = fail.kind === 'status' || fail.kind === 'error_frame';
  return speaks ? { ...fail, message: 'canary words' } : fail;
}

function known(id: string, ...models: string[]): ProviderDefinition {
  return {
    id,
    type: 'openai-compat',
    models: models.map((model) => ({ id: model })),
    connect: async () => ({}),
  };
}

const definitions = [
  known('bare'),
  known('ollama', 'qwen3:8b', 'llama4'),
  known('openai', 'gpt-5.2', 'llama4'),
];

function named(defaultModel: string | null, given = definitions, demo = false) {
  return createProviders({ definitions: given, defaultModel, demo, timeouts: { silenceMs: 1000 }, fetch });
}

function connecting(connect: ProviderDefinition['connect']): Model {
  const definitions = [{ ...definition('openai'), connect }];
  const timeouts = { silenceMs: 5000 };
  return createProviders({ definitions, defaultModel: null, demo: false, timeouts, fetch }).open(
    'openai:scripted-1',
  );
}

describe('a provider is connected to', () => {
  const connection = { baseUrl: '', apiKey: 'first-key' };
  beforeEach(async () => {
    Object.assign(connection, { baseUrl: `${upstream.url}/v1`, apiKey: 'first-key' });
    await upstream.script([{ reply: { text: 'Hello.' } }]);
  });

  test('when a model is asked, and once for all that follows', async () => {
    let connects = 0;
    const model = connecting(async () => {
      connects += 1;
      return connection;
    });
    expect(connects).toBe(0);
    for (let step = 0; step < 3; step += 1)
      await collect(model.stream(request('Hi'), AbortSignal.timeout(5000)));
    expect(connects).toBe(1);
  });

  test('and refused without the words of its settings where they cannot be used', async () => {
    const model = connecting(async () => {
      throw new Error('canary: $SECRET is not set');
    });
    const failed = collect(model.stream(request('Hi'), AbortSignal.timeout(5000)));
    await expect(failed).rejects.toMatchObject({ code: 'provider_refused' });
    await expect(failed).rejects.not.toThrow('canary');
  });

  test('anew where it refuses a key that has been replaced meanwhile', async () => {
    const keys = ['old-key', 'new-key'];
    await upstream.script([
      { when: { api_key: 'old-key' }, fail: { kind: 'status', status: 401 } },
      { reply: { text: 'Hello.' } },
    ]);
    const model = connecting(async () => ({ ...connection, apiKey: keys.shift() ?? 'new-key' }));
    expect(textOf(await collect(model.stream(request('Hi'), AbortSignal.timeout(5000))))).toBe('Hello.');
    expect(await upstream.requests()).toHaveLength(2);
  });

  test('no second time where the same key would be refused again', async () => {
    await upstream.script([{ fail: { kind: 'status', status: 401 } }]);
    let connects = 0;
    const model = connecting(async () => {
      connects += 1;
      return { ...connection };
    });
    const failed = collect(model.stream(request('Hi'), AbortSignal.timeout(5000)));
    await expect(failed).rejects.toMatchObject({ code: 'provider_refused' });
    expect(await upstream.requests()).toHaveLength(1);
    expect(connects).toBe(2);
  });

  test('no longer than anybody waits', async () => {
    const controller = new AbortController();
    const model = connecting(
      (signal) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
          controller.abort();
        }),
    );
    expect(await collect(model.stream(request('Hi'), controller.signal))).toEqual([]);
  });

  test('with a token in the place where the vendor takes tokens', async () => {
    const definitions = [
      {
        ...definition('anthropic'),
        connect: async () => ({ baseUrl: `${upstream.url}/v1`, authToken: 'a-token' }),
      },
    ];
    const timeouts = { silenceMs: 5000 };
    const providers = createProviders({ definitions, defaultModel: null, demo: false, timeouts, fetch });
    const model = providers.open('anthropic:scripted-1');
    await collect(model.stream(request('Hi'), AbortSignal.timeout(5000)));
    const { headers } = await upstream.latest(() => true);
    expect(headers.authorization).toBe('Bearer a-token');
    expect(headers).not.toHaveProperty('x-api-key');
  });
});

describe('the name of a model', () => {
  test.each([
    ['openai:gpt-5.2', 'openai:gpt-5.2'],
    ['openai:not-listed', 'openai:not-listed'],
    ['ollama:qwen3:8b', 'ollama:qwen3:8b'],
    ['bare:anything', 'bare:anything'],
    ['qwen3:8b', 'ollama:qwen3:8b'],
    ['gpt-5.2', 'openai:gpt-5.2'],
    ['llama4', 'ollama:llama4'],
    ['demo:demo-1', 'demo:demo-1'],
  ])('%s means %s', (name, full) => {
    expect(named(null).resolve(name)).toBe(full);
  });

  test.each(['nowhere:model', 'unlisted', 'openai:', ':gpt-5.2', '', ':', 'demo:other'])(
    '%j is not found',
    (name) => {
      expect(() => named(null).resolve(name)).toThrow(expect.objectContaining({ code: 'model_not_found' }));
    },
  );
});

describe('no name', () => {
  test('means the large model of the settings, if its provider is there', () => {
    expect(named('openai:chosen').resolve(null)).toBe('openai:chosen');
    expect(named('gone:chosen').resolve(null)).toBe('ollama:qwen3:8b');
  });

  test('means the first model of its provider, where that is known not to have the one of the settings', () => {
    const only = { ...known('house', 'first', 'second'), onlyListed: true };
    expect(named('house:second', [known('bare', 'other'), only]).resolve(null)).toBe('house:second');
    expect(named('house:third', [known('bare', 'other'), only]).resolve(null)).toBe('house:first');
  });

  test('else the first model of the first provider that lists one', () => {
    expect(named(null).resolve(null)).toBe('ollama:qwen3:8b');
  });

  test('means the demonstration only where nothing is configured and it may answer', () => {
    expect(named(null, [], true).resolve(null)).toBe('demo:demo-1');
    expect(() => named(null, []).resolve(null)).toThrow(
      expect.objectContaining({ code: 'no_provider_configured' }),
    );
    expect(() => named(null, [known('bare')], true).resolve(null)).toThrow(
      expect.objectContaining({ code: 'no_provider_configured' }),
    );
  });
});
