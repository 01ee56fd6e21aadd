/** What every provider type does alike, over HTTP against the scripted upstream in its vendor's own wire format. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { Generation, Model, ModelRequest } from '../models/model.ts';
import {
  answerOf,
  asked,
  definitionOf,
  isGoogles,
  latestBody,
  openDefined,
  openResponses,
  providerTypes,
  request,
  type TestedType,
  textOf,
} from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

/** OpenAI answers in two ways. */
type Way = TestedType | 'openai-responses';
const ways: readonly Way[] = [...providerTypes, 'openai-responses'];

const open = (way: Way, silenceMs?: number): Model =>
  way === 'openai-responses'
    ? openResponses(upstream, {}, silenceMs)
    : openDefined(definitionOf(way, upstream), silenceMs);

const viewTool = {
  name: 'view',
  description: 'Reads a file.',
  inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
};

describe.each(ways)('the provider type %s', (type) => {
  beforeEach(async () => {
    await upstream.script([
      { reply: { text: 'You said: {{last_user}}', usage: { input: 7, output: 3, cached: 2 } } },
    ]);
  });

  test('streams text and counts tokens, those of the cache too', async () => {
    const parts = await answerOf(open(type), request('Grüße 👋'));
    expect(textOf(parts)).toBe('You said: Grüße 👋');
    expect(parts.filter((part) => part.type === 'text').length).toBeGreaterThan(1);
    expect(parts.at(-1)).toMatchObject({
      type: 'finish',
      stopReason: 'end_turn',
      usage: { input_tokens: 7, output_tokens: 3, cached_input_tokens: 2 },
    });
  });

  test('asks in its vendor’s place, with the key where its vendor wants it', async () => {
    await answerOf(open(type), request('Hi'));
    const sent = await upstream.latest(({ path }) => path !== '/token');
    const { path, header } = places[type];
    expect(sent.path).toBe(path);
    const [name, value] = header;
    expect(sent.headers[name]).toMatch(value);
    expect(sent.headers['x-team']).toBe('blue');
    const others = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'].filter((one) => one !== name);
    for (const other of others) expect(sent.headers).not.toHaveProperty(other);
  });

  test('puts every setting of the sampling into its vendor’s words', async () => {
    const generation: Generation = {
      maxTokens: 444,
      temperature: 0.25,
      topP: 0.5,
      topK: 7,
      frequencyPenalty: 0.75,
      presencePenalty: -0.5,
      stopSequences: ['END'],
      // Many that imitate OpenAI take top_k too; the upstream is as strict as OpenAI itself.
      onlyStandard: type === 'openai-compat',
    };
    await answerOf(open(type), request('Hi', generation));
    const body = await latestBody(upstream);
    expect(isGoogles(type) ? body.generationConfig : body).toMatchObject(sampling[type].said);
    for (const name of sampling[type].unsaid) expect(body).not.toHaveProperty(name);
    expect(JSON.stringify(body)).toContain('Be brief.');
  });

  test('carries tool calls in parallel and their results back', async () => {
    await upstream.script([
      {
        when: { step: 0, offers_tool: 'view' },
        reply: {
          text: 'Two files.',
          tool_calls: [
            { name: 'view', arguments: { path: 'a.txt' } },
            { name: 'view', arguments: { path: 'b.txt' } },
          ],
        },
      },
      { when: { tool_results: 2 }, reply: { text: 'Last result: {{last_tool_result}}' } },
    ]);
    const first = await answerOf(open(type), request('Read both.', { tools: [viewTool] }));
    const calls = first.filter((part) => part.type === 'tool_use');
    expect(calls.map(({ input }) => input)).toEqual([{ path: 'a.txt' }, { path: 'b.txt' }]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
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
    const second = await answerOf(open(type), request('', { messages, tools: [viewTool] }));
    expect(textOf(second)).toBe('Last result: content of b.txt');
  });

  test('shows pictures and documents', async () => {
    const messages: ModelRequest['messages'] = [
      {
        role: 'user',
        parts: [
          { type: 'text', text: 'What is this?' },
          { type: 'file', mediaType: 'image/png', data: 'iVBORw0KGgo=' },
          { type: 'file', mediaType: 'application/pdf', data: 'JVBERi0xLjQK', name: 'paper.pdf' },
        ],
      },
    ];
    const parts = await answerOf(open(type), request('', { messages }));
    expect(textOf(parts)).toBe('You said: What is this?');
    expect(await latestBody(upstream)).toMatchObject(shown(type));
  });

  test('holds an answer to a schema, as strictly as the schema allows', async () => {
    const properties = { rains: { type: 'boolean' }, where: { type: 'array', items: { type: 'string' } } };
    const loose = { type: 'object', properties, additionalProperties: false };
    const closed = { ...loose, required: ['rains', 'where'] };
    const nested = {
      ...closed,
      properties: { ...properties, rains: { ...loose, properties: { required: loose } } },
    };
    for (const answerSchema of [loose, closed, nested]) {
      expect(textOf(await answerOf(open(type), request('Hi', { answerSchema })))).toBe('You said: Hi');
      const body = JSON.stringify(await latestBody(upstream));
      expect(body).toContain('rains');
      if (body.includes('"strict"')) expect(body.includes('"strict":true')).toBe(answerSchema === closed);
    }
  });

  test('shows a picture by its address', async () => {
    for (const [name, mimeType] of [
      ['a.png', 'image/png'],
      ['a', 'image/jpeg'],
    ]) {
      const fileUri = `https://example.com/${name}`;
      const part = { type: 'file' as const, mediaType: 'image/*', data: new URL(fileUri) };
      await answerOf(open(type), request('', { messages: [{ role: 'user', parts: [part] }] }));
      const body = JSON.stringify(await latestBody(upstream));
      expect(body).toContain(`"${fileUri}"`);
      if (isGoogles(type)) expect(body).toContain(JSON.stringify({ mimeType, fileUri }));
    }
  });

  test('tells thoughts apart from the answer', async () => {
    await upstream.script([{ reply: { reasoning: 'Let me think.', text: 'Done.' } }]);
    const parts = await answerOf(open(type), request('Hi', { think: true, maxTokens: 4000 }));
    const thoughts = parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('');
    // OpenAI keeps its thoughts to itself, on Azure as well.
    expect(thoughts).toBe(type === 'openai' || type === 'azure' ? '' : 'Let me think.');
    expect(textOf(parts)).toBe('Done.');
    expect(parts.at(-1)).toMatchObject({ usage: { output_tokens: 4 } });
  });

  test.each([
    ['max_tokens', 'max_tokens'],
    ['refusal', 'refusal'],
    // The others do not tell it from an end.
    ['stop_sequence', type === 'anthropic' ? 'stop_sequence' : 'end_turn'],
  ])('understands that an answer ended for %s', async (stop_reason, stopReason) => {
    await upstream.script([{ reply: { text: 'So far', stop_reason, stop_sequence: 'END' } }]);
    const parts = await answerOf(open(type), request('Hi', { stopSequences: ['END'] }));
    expect(parts.at(-1)).toMatchObject({ type: 'finish', stopReason });
  });

  test('understands that a prompt was refused without a word', async () => {
    await upstream.script([{ reply: { stop_reason: 'refusal' } }]);
    expect((await answerOf(open(type), request('Hi'))).at(-1)).toMatchObject({ stopReason: 'refusal' });
  });

  test('is sent no message that says nothing: a thought that was cut off, or nothing but space', async () => {
    const messages: ModelRequest['messages'] = [
      ...request('One').messages,
      { role: 'assistant', parts: [{ type: 'reasoning', text: 'Let me think' }] },
      ...request('Two').messages,
      { role: 'assistant', parts: [{ type: 'text', text: '\n\n' }] },
      ...request('Three').messages,
    ];
    await answerOf(open(type), request('', { messages }));
    const body = JSON.stringify(await latestBody(upstream));
    expect(body).not.toMatch(/"role":"(assistant|model)"/);
    expect(body).toMatch(/One.*Two.*Three/);
  });

  test('gives a tool with broken arguments an empty input, or says that the call failed', async () => {
    await upstream.script([{ reply: { tool_calls: [{ name: 'view', arguments: '{"path": ' }] } }]);
    const answer = answerOf(open(type), request('Read.', { tools: [viewTool] }));
    if (isGoogles(type)) await expect(answer).rejects.toMatchObject({ remedy: 'retry' });
    else expect(await answer).toContainEqual(expect.objectContaining({ type: 'tool_use', input: {} }));
  });

  test('takes an access token where everybody takes them', async () => {
    const byKey = type === 'openai' || type === 'openai-compat' || type === 'openai-responses';
    const token = { [byKey ? 'apiKey' : 'authToken']: 'a-token' };
    const withToken = async (tested: TestedType): Promise<Model> => {
      const { baseUrl } = await definitionOf(tested, upstream).connect();
      return openDefined(
        definitionOf(tested, upstream, { connect: async () => ({ ...(baseUrl && { baseUrl }), ...token }) }),
      );
    };
    const model =
      type === 'openai-responses'
        ? openResponses(upstream, { connect: async () => token })
        : await withToken(type);
    await answerOf(model, request('Hi'));
    const { headers } = await upstream.latest(() => true);
    expect(headers.authorization).toBe('Bearer a-token');
    for (const other of ['x-api-key', 'api-key', 'x-goog-api-key']) expect(headers).not.toHaveProperty(other);
    expect(await upstream.requests()).toHaveLength(1);
  });

  test('gives up on a provider that hangs, before its answer and within', async () => {
    for (const after_chunks of [undefined, 2]) {
      const fail = { kind: 'hang', ...(after_chunks && { after_chunks }) };
      await upstream.script([{ reply: { text: 'A long enough answer to hang in its middle.' }, fail }]);
      await expect(answerOf(open(type, 300), request('Hi'))).rejects.toMatchObject({
        code: 'provider_timeout',
        remedy: 'replace',
      });
      await upstream.latest(({ outcome }) => outcome === 'aborted');
    }
  });

  test('closes the call when it is aborted, before the first byte and in the middle', async () => {
    for (const after_chunks of [undefined, 2]) {
      const fail = { kind: 'hang', ...(after_chunks && { after_chunks }) };
      await upstream.script([{ reply: { text: 'A long enough answer.' }, fail }]);
      const controller = new AbortController();
      const ended = answerOf(open(type), request('Hi'), controller.signal);
      await upstream.latest(
        ({ rule, chunks_written }) => rule !== null && chunks_written === (after_chunks ?? 0),
      );
      controller.abort();
      await ended;
      await upstream.latest(({ outcome }) => outcome === 'aborted');
    }
  });

  test.each(failures)('tells %s as it is meant, without the upstream’s own words', async (_what, failure) => {
    const { fail, code, remedy = 'retry', retryAfterMs = null, says = /./ } = failure;
    const speaks = fail.kind === 'status' || fail.kind === 'error_frame';
    const message = `canary words ${failure.words?.[isGoogles(type) ? 'google' : 'others'] ?? ''}`;
    const text = 'A long enough answer to be cut in its middle.';
    await upstream.script([{ reply: { text }, fail: speaks ? { ...fail, message } : fail }]);
    const failed = await answerOf(open(type), request('Hi')).catch((error: unknown) => error);
    expect(failed).toMatchObject({ name: 'ModelFailure', code, remedy, retryAfterMs });
    const said = failed instanceof Error ? failed.message : '';
    expect(said).toMatch(says);
    expect(said).not.toContain('canary');
    // A token of a service account may have been taken back: it is asked once more with a new one.
    const again = type === 'vertexai' && fail.status === 401;
    expect(await asked(upstream)).toHaveLength(again ? 2 : 1);
  });
});

interface Told {
  readonly fail: { readonly kind: string } & Readonly<Record<string, unknown>>;
  /** Vendors say some things in words only. */
  readonly words?: { readonly google: string; readonly others: string };
  readonly code: string;
  readonly remedy?: string;
  readonly retryAfterMs?: number;
  readonly says?: RegExp;
}

const status = (code: number, more = {}) => ({ kind: 'status', status: code, ...more });
const refused = { code: 'provider_refused', remedy: 'replace' };
const same = (words: string) => ({ google: words, others: words });

const failures: [string, Told][] = [
  ['a key that is not known', { fail: status(401), ...refused, says: /credential/ }],
  ['a key that may not', { fail: status(403), ...refused, says: /credential/ }],
  ['an account without money', { fail: status(402), ...refused, says: /paid/ }],
  [
    'a quota that is used up',
    { fail: status(429), words: same('check your plan and billing details'), ...refused, says: /paid/ },
  ],
  [
    'a rate that is limited',
    {
      fail: status(429, { retry_after: '7' }),
      code: 'provider_rate_limited',
      retryAfterMs: 7000,
      says: /try again in 7 s/,
    },
  ],
  ['overload', { fail: status(529), code: 'provider_rate_limited' }],
  [
    'overload in words',
    {
      fail: status(503),
      words: { google: 'The model is overloaded.', others: 'We are overloaded.' },
      code: 'provider_rate_limited',
    },
  ],
  ['a model that is not there', { fail: status(404), ...refused, says: /name/ }],
  [
    'a conversation that is too long',
    {
      fail: status(400),
      words: {
        google: 'The input token count (9) exceeds the maximum number of tokens allowed (8).',
        others:
          "This model's maximum context length is 8 tokens. However, your messages resulted in 9 tokens.",
      },
      code: 'provider_prompt_too_long',
      remedy: 'shorten',
      says: /prompt is too long: 9 tokens > 8 maximum$/,
    },
  ],
  [
    'content that is refused',
    {
      fail: status(400),
      words: same('blocked by our content filtering policy'),
      code: 'provider_request_refused',
      remedy: 'reword',
      says: /content/,
    },
  ],
  [
    'what is wrong with the request',
    { fail: status(400), code: 'provider_request_refused', remedy: 'reword' },
  ],
  ['a time-out of its own', { fail: status(504), code: 'provider_timeout' }],
  ['a failure', { fail: status(500), code: 'provider_failed' }],
  ['a proxy that is ill', { fail: status(502, { body: '<html>' }), code: 'provider_failed' }],
  ['a connection that breaks off at once', { fail: { kind: 'cut' }, code: 'provider_failed' }],
  ['a stream that is cut', { fail: { kind: 'cut', after_chunks: 2 }, code: 'provider_failed' }],
  ['a stream that ends too early', { fail: { kind: 'end', after_chunks: 3 }, code: 'provider_failed' }],
  ['a stream of garbage', { fail: { kind: 'garbage', after_chunks: 2 }, code: 'provider_failed' }],
  ['a stream of broken JSON', { fail: { kind: 'wrong_json', after_chunks: 2 }, code: 'provider_failed' }],
  [
    'an error within the stream',
    { fail: { kind: 'error_frame', after_chunks: 2, status: 500 }, code: 'provider_failed' },
  ],
];

/** Where each vendor is asked, and which header opens it. */
const places: Record<Way, { path: string; header: [string, RegExp] }> = {
  openai: { path: '/v1/chat/completions', header: ['authorization', /^Bearer test-key$/] },
  'openai-responses': { path: '/v1/responses', header: ['authorization', /^Bearer test-key$/] },
  'openai-compat': { path: '/v1/chat/completions', header: ['authorization', /^Bearer test-key$/] },
  anthropic: { path: '/v1/messages', header: ['x-api-key', /^test-key$/] },
  gemini: {
    path: '/v1beta/models/scripted-1:streamGenerateContent?alt=sse',
    header: ['x-goog-api-key', /^test-key$/],
  },
  azure: {
    path: '/openai/deployments/scripted-1/chat/completions?api-version=2024-10-21',
    header: ['api-key', /^test-key$/],
  },
  vertexai: {
    path: '/v1/projects/our-project/locations/europe-west4/publishers/google/models/scripted-1:streamGenerateContent?alt=sse',
    header: ['authorization', /^Bearer ya29\.\w+$/],
  },
};

const chatSampling = {
  said: {
    max_tokens: 444,
    temperature: 0.25,
    top_p: 0.5,
    frequency_penalty: 0.75,
    presence_penalty: -0.5,
    stop: ['END'],
  },
  unsaid: ['top_k'],
};
const googleSampling = {
  said: {
    maxOutputTokens: 444,
    temperature: 0.25,
    topP: 0.5,
    topK: 7,
    frequencyPenalty: 0.75,
    presencePenalty: -0.5,
    stopSequences: ['END'],
  },
  unsaid: [],
};
/** What each vendor has no word for is left out: it would refuse the whole request. */
const sampling: Record<Way, { said: object; unsaid: string[] }> = {
  openai: chatSampling,
  'openai-responses': {
    said: { max_output_tokens: 444 },
    // Its models that reason take none of them.
    unsaid: ['temperature', 'top_p', 'top_k', 'stop', 'frequency_penalty', 'presence_penalty'],
  },
  'openai-compat': chatSampling,
  anthropic: {
    said: { max_tokens: 444, temperature: 0.25, top_k: 7, stop_sequences: ['END'] },
    unsaid: ['frequency_penalty', 'presence_penalty'],
  },
  gemini: googleSampling,
  azure: chatSampling,
  vertexai: googleSampling,
};

function shown(type: Way): object {
  if (type === 'openai-responses') {
    const content = [
      { type: 'input_text', text: 'What is this?' },
      { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=' },
      {
        ...{ type: 'input_file', filename: 'paper.pdf' },
        file_data: 'data:application/pdf;base64,JVBERi0xLjQK',
      },
    ];
    return { input: [{ role: 'developer' }, { role: 'user', content }] };
  }
  if (type === 'anthropic') {
    const source = (media_type: string) => ({ type: 'base64', media_type });
    const content = [
      { type: 'text' },
      { type: 'image', source: source('image/png') },
      { type: 'document', source: source('application/pdf') },
    ];
    return { messages: [{ role: 'user', content }] };
  }
  if (isGoogles(type)) {
    const inline = (mimeType: string, data: string) => ({ inlineData: { mimeType, data } });
    const parts = [
      { text: 'What is this?' },
      inline('image/png', 'iVBORw0KGgo='),
      inline('application/pdf', 'JVBERi0xLjQK'),
    ];
    return { contents: [{ role: 'user', parts }] };
  }
  const content = [
    { type: 'text' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
    { type: 'file', file: { filename: 'paper.pdf', file_data: 'data:application/pdf;base64,JVBERi0xLjQK' } },
  ];
  return {
    messages: [{ role: type === 'openai' ? expect.any(String) : 'system' }, { role: 'user', content }],
  };
}

test('Anthropic is asked to keep the instructions and both ends of a conversation with tools, and no other', async () => {
  const said = (role: 'user' | 'assistant', text: string) => ({
    role,
    parts: [{ type: 'text' as const, text }],
  });
  const messages = [said('user', 'One'), said('assistant', 'a'), said('user', 'Two'), said('assistant', 'b')];
  const asked = (tools: ModelRequest['tools']) =>
    request('', { messages: [...messages, said('user', 'Three')], tools });
  await upstream.script([{ reply: { text: 'Done.' } }]);
  await answerOf(open('anthropic'), asked([viewTool]));
  const mark = { cache_control: { type: 'ephemeral' } };
  const body = await latestBody(upstream);
  expect(body.system).toMatchObject([mark]);
  const marks = (body.messages as { content: object[] }[]).map(({ content }) => content.at(-1));
  expect(marks.map((block) => block && 'cache_control' in block)).toEqual([false, false, true, false, true]);
  await answerOf(open('anthropic'), asked([]));
  expect(JSON.stringify(await latestBody(upstream))).not.toContain('cache_control');
});

test('a provider of each type is waited for while it says that it is still at work', async () => {
  const text = 'A long enough answer.';
  await upstream.script([{ reply: { text, keep_alive: { times: 20, every_ms: 100 } } }]);
  const answers = ways.map(async (way) => {
    const parts = await answerOf(open(way, 1000), request('Hi')).catch(String);
    return [way, typeof parts === 'string' ? parts : textOf(parts)];
  });
  expect(await Promise.all(answers)).toEqual(ways.map((way) => [way, text]));
});
