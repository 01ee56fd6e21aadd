// Google's own SDK judges the Gemini dialect: with a key, and as Vertex AI with a service account.
import { generateKeyPairSync } from 'node:crypto';
import { ApiError, FinishReason, GoogleGenAI, type Part } from '@google/genai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from './start-upstream.ts';

const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

let upstream: Upstream;
let clients: Record<'gemini' | 'vertex', GoogleGenAI>;

beforeAll(async () => {
  upstream = await startUpstream();
  clients = { gemini: geminiClient(), vertex: vertexClient() };
});
afterAll(() => upstream.stop());

function geminiClient(): GoogleGenAI {
  return new GoogleGenAI({
    vertexai: false,
    apiKey: 'gemini-key',
    httpOptions: { baseUrl: upstream.url, retryOptions: { attempts: 1 } },
  });
}

/** The vendor's library signs and asks for tokens itself; only the address of the endpoint is another. */
function vertexClient(): GoogleGenAI {
  const toUpstream: typeof fetch = (input, init) =>
    fetch(String(input).replace('https://oauth2.googleapis.com', upstream.url), init);
  return new GoogleGenAI({
    vertexai: true,
    project: 'our-project',
    location: 'europe-west4',
    googleAuthOptions: {
      credentials: { client_email: 'robot@our-project.iam.gserviceaccount.com', private_key: privateKey },
      clientOptions: { transporterOptions: { fetchImplementation: toUpstream } },
    },
    httpOptions: { baseUrl: upstream.url, retryOptions: { attempts: 1 } },
  });
}

const model = 'gemini-2.5-flash';
const tools = [
  {
    functionDeclarations: ['weather', 'clock'].map((name) => ({
      name,
      description: `Tells the ${name}.`,
      parametersJsonSchema: { type: 'object', properties: { city: { type: 'string' } } },
    })),
  },
];

describe.each(['gemini', 'vertex'] as const)('%s', (kind) => {
  const ask = (contents: string | object[], config = {}) =>
    clients[kind].models.generateContent({ model, contents: contents as string, config }); // the SDK takes both
  const stream = async (contents: string, config = {}) =>
    Array.fromAsync(await clients[kind].models.generateContentStream({ model, contents, config }));

  test('a plain answer has the text, the finish reason and the usage', async () => {
    await upstream.script([
      {
        reply: { text: '{{system}} {{last_user}}', usage: { input: 10, cached: 4, output: 5, reasoning: 2 } },
      },
    ]);
    const answer = await ask('good morning', { systemInstruction: 'be kind:' });
    expect(answer.text).toBe('be kind: good morning');
    expect(answer.candidates?.[0]?.finishReason).toBe(FinishReason.STOP);
    expect(answer.usageMetadata).toMatchObject({
      promptTokenCount: 10,
      cachedContentTokenCount: 4,
      candidatesTokenCount: 3,
      thoughtsTokenCount: 2,
      totalTokenCount: 15,
    });
  });

  test('a stream comes in pieces that add up, and the last says how it ended', async () => {
    await upstream.script([{ reply: { text: 'one two three 🎉', chunk_size: 3, write_bytes: 7 } }]);
    const chunks = await stream('count');
    expect(chunks.length).toBeGreaterThan(4);
    expect(chunks.map(({ text }) => text ?? '').join('')).toBe('one two three 🎉');
    expect(chunks.map(({ candidates }) => candidates?.[0]?.finishReason).filter(Boolean)).toEqual(['STOP']);
  });

  test('thoughts are shown to those who ask for them', async () => {
    await upstream.script([{ reply: { reasoning: 'hm, well', text: 'yes' } }]);
    const thoughts = (parts: Part[] = []) => parts.filter(({ thought }) => thought).map(({ text }) => text);
    const shown = await ask('sure?', { thinkingConfig: { includeThoughts: true, thinkingBudget: 128 } });
    expect(thoughts(shown.candidates?.[0]?.content?.parts)).toEqual(['hm, well']);
    expect(shown.text).toBe('yes');
    const hidden = await ask('sure?');
    expect(thoughts(hidden.candidates?.[0]?.content?.parts)).toEqual([]);
    expect(hidden.usageMetadata?.thoughtsTokenCount).toBe(2);
  });

  test('tool calls in parallel and their results go through the SDK', async () => {
    await upstream.script([
      {
        when: { step: 0, offers_tool: 'clock' },
        reply: {
          text: 'I look.',
          tool_calls: [
            { name: 'weather', arguments: { city: 'Oslo' } },
            { name: 'clock', arguments: {} },
          ],
        },
      },
      { when: { step: 1, tool_results: 2 }, reply: { text: '{{last_tool_result}} it is.' } },
    ]);
    const first = await ask('go', { tools });
    expect(first.functionCalls).toMatchObject([
      { name: 'weather', args: { city: 'Oslo' } },
      { name: 'clock', args: {} },
    ]);
    const results = (first.functionCalls ?? []).map(({ id, name }) => ({
      functionResponse: { id, name, response: { output: name === 'clock' ? 'two o’clock' : 'mild' } },
    }));
    const said = first.candidates?.[0]?.content;
    const second = await ask(
      [{ role: 'user', parts: [{ text: 'go' }] }, said ?? {}, { role: 'user', parts: results }],
      { tools },
    );
    expect(second.text).toBe('two o’clock it is.');
  });

  test('pictures are taken, and what is not base64 is refused', async () => {
    await upstream.script([{ reply: { text: 'I see.' } }]);
    const shown = (data: string) =>
      ask([{ role: 'user', parts: [{ text: 'look' }, { inlineData: { mimeType: 'image/png', data } }] }]);
    expect((await shown('iVBORw0KGgo=')).text).toBe('I see.');
    await expect(shown('no base 64!')).rejects.toThrow('Base64');
  });

  test.each([
    ['max_tokens', 'cut sh', FinishReason.MAX_TOKENS],
    ['refusal', 'I had be', FinishReason.SAFETY],
    ['stop_sequence', 'a b', FinishReason.STOP],
  ])('the stop reason %s is in the words of the vendor', async (stop_reason, text, finishReason) => {
    await upstream.script([{ reply: { text, stop_reason } }]);
    expect((await ask('x')).candidates?.[0]?.finishReason).toBe(finishReason);
    expect((await stream('x')).at(-1)?.candidates?.[0]?.finishReason).toBe(finishReason);
  });

  test('a prompt that is refused has no candidate, and arguments that are no object are a failed call', async () => {
    await upstream.script([{ reply: { stop_reason: 'refusal' } }]);
    const blocked = await ask('x');
    expect(blocked.promptFeedback?.blockReason).toBe('PROHIBITED_CONTENT');
    expect(blocked.candidates).toBeUndefined();
    await upstream.script([{ reply: { tool_calls: [{ name: 'clock', arguments: '{"a": ' }] } }]);
    expect((await ask('x', { tools })).candidates?.[0]?.finishReason).toBe(
      FinishReason.MALFORMED_FUNCTION_CALL,
    );
  });

  test('tokens are counted by the documented rule', async () => {
    const counted = await clients[kind].models.countTokens({ model, contents: 'one two' });
    expect(counted.totalTokens).toBe(2);
  });

  test.each([
    [400, 'INVALID_ARGUMENT'],
    [401, 'UNAUTHENTICATED'],
    [429, 'RESOURCE_EXHAUSTED'],
    [503, 'UNAVAILABLE'],
  ])('a scripted %i is an error of the SDK with its status by name', async (status, name) => {
    await upstream.script([{ fail: { kind: 'status', status, message: 'as scripted', retry_after: '7' } }]);
    const error = await ask('x').catch((it: unknown) => it);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status });
    const body: unknown = JSON.parse(error instanceof Error ? error.message : '');
    expect(body).toMatchObject({
      error: {
        code: status,
        status: name,
        message: 'as scripted',
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '7s' }],
      },
    });
  });

  test('an error in the stream reaches the caller', async () => {
    const fail = { kind: 'error_frame', after_chunks: 2, status: 503, message: 'fell over' };
    await upstream.script([{ reply: { text: 'not all of this' }, fail }]);
    await expect(stream('x')).rejects.toThrow('fell over');
  });

  test.each<[string, object, string]>([
    ['no contents', { contents: [] }, 'contents is not specified'],
    ['an unknown field', { max_token: 3 }, 'Unknown name "max_token"'],
    ['an unknown setting', { generationConfig: { maxTokens: 3 } }, 'Unknown name "maxTokens"'],
    ['a temperature out of range', { generationConfig: { temperature: 3 } }, 'generationConfig.temperature'],
    ['an unknown role', { contents: [{ role: 'assistant', parts: [{ text: 'x' }] }] }, 'contents.0.role'],
    [
      'a call without its result',
      { contents: [...asking, { role: 'user', parts: [{ text: 'y' }] }] },
      'function response parts is equal',
    ],
    ['a call at the end', { contents: asking }, 'function response parts is equal'],
    [
      'a result that nobody asked for',
      { contents: [{ role: 'user', parts: [{ functionResponse: { name: 'clock', response: {} } }] }] },
      'function response parts is equal',
    ],
  ])('a request with %s is refused with 400', async (_what, wrong, message) => {
    const path = kind === 'gemini' ? 'v1beta/models' : 'v1/publishers/google/models';
    const response = await fetch(`${upstream.url}/${path}/${model}:generateContent`, {
      method: 'POST',
      headers: { 'x-goog-api-key': 'k', 'content-type': 'application/json' },
      body: JSON.stringify({ contents: [{ role: 'user', parts: [{ text: 'x' }] }], ...wrong }),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { status: 'INVALID_ARGUMENT', message: expect.stringContaining(message) },
    });
  });
});

test.each(['gemini', 'vertex'] as const)('%s lists its models, page by page', async (kind) => {
  const ids = ['one', 'two', 'three', 'four', 'five'];
  await upstream.script([], ids, { page_size: 2 });
  const listed = await Array.fromAsync(await clients[kind].models.list({ config: { pageSize: 100 } }));
  const prefix = kind === 'gemini' ? 'models' : 'publishers/google/models';
  expect(listed.map(({ name }) => name)).toEqual(ids.map((id) => `${prefix}/${id}`));
  if (kind === 'gemini')
    expect(listed[0]).toMatchObject({
      displayName: 'one',
      inputTokenLimit: 1_048_576,
      outputTokenLimit: 65_536,
    });
  const asked = (await upstream.requests()).filter(({ path }) => path !== '/token');
  expect(asked.map(({ path }) => path.replace(/\?.*/, ''))).toEqual(
    Array(3).fill(kind === 'gemini' ? '/v1/models' : '/v1beta1/publishers/google/models'),
  );
});

const asking = [
  { role: 'user', parts: [{ text: 'x' }] },
  { role: 'model', parts: [{ functionCall: { name: 'clock', args: {} } }] },
];

test('newer models want the signature of their calls back', async () => {
  await upstream.script([{ reply: { tool_calls: [{ name: 'clock', arguments: {} }] } }]);
  const ask = (contents: object[]) =>
    clients.gemini.models.generateContent({ model: 'gemini-3-pro-preview', contents, config: { tools } });
  const [question, call] = asking;
  const result = { role: 'user', parts: [{ functionResponse: { name: 'clock', response: {} } }] };
  await expect(ask([question ?? {}, call ?? {}, result])).rejects.toThrow('thought_signature');
  const first = await ask([question ?? {}]);
  expect(await ask([question ?? {}, first.candidates?.[0]?.content ?? {}, result])).toBeDefined();
});

describe('where requests go', () => {
  test('the Gemini API takes its key in a header of its own', async () => {
    await upstream.script([{ reply: { text: 'hi' } }]);
    await clients.gemini.models.generateContent({ model, contents: 'x' });
    const { path, headers } = await upstream.latest(() => true);
    expect(path).toBe('/v1/models/gemini-2.5-flash:generateContent');
    expect(headers['x-goog-api-key']).toBe('gemini-key');
  });

  test('Vertex AI is asked below the project and the place, with the token that the key file opens', async () => {
    const client = vertexClient();
    await upstream.script([{ reply: { text: 'hi' } }]);
    await client.models.generateContent({ model, contents: 'x' });
    await client.models.generateContent({ model, contents: 'x' });
    const requests = await upstream.requests();
    const asked = '/v1beta1/projects/our-project/locations/europe-west4/publishers/google/models';
    expect(requests.map(({ path }) => path)).toEqual([
      '/token',
      `${asked}/${model}:generateContent`,
      `${asked}/${model}:generateContent`,
    ]);
    expect(String(requests[0]?.body)).toContain('jwt-bearer');
    expect(requests[1]?.headers.authorization).toMatch(/^Bearer ya29\.\w{40}$/);
    expect(requests[2]?.headers.authorization).toBe(requests[1]?.headers.authorization);
  });

  test.each([
    ['no form', ''],
    ['another grant', 'grant_type=refresh_token'],
    ['no assertion', 'grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=a.b.c'],
  ])('the token endpoint refuses %s', async (_what, body) => {
    const response = await fetch(`${upstream.url}/token`, { method: 'POST', body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: expect.stringMatching(/^(unsupported_|invalid_)/) });
  });

  test.each(['/v1beta/models/x:generateContent', '/v1/publishers/google/models/x:generateContent'])(
    'without a key or a token %s is refused',
    async (path) => {
      const response = await fetch(upstream.url + path, { method: 'POST', body: '{}' });
      expect([401, 403]).toContain(response.status);
    },
  );
});
