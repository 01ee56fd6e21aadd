// The program itself: its command line, its script, its faults, and its log of requests.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startUpstream, type Upstream } from './start-upstream.ts';

let upstream: Upstream;
let openai: OpenAI;
let anthropic: Anthropic;

beforeAll(async () => {
  upstream = await startUpstream();
  openai = new OpenAI({ baseURL: `${upstream.url}/v1`, apiKey: 'sk-test', maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: upstream.url, apiKey: 'sk-ant-test', maxRetries: 0 });
});
afterAll(() => upstream.stop());
beforeEach(() => upstream.script([{ reply: { text: 'nothing scripted' } }]));

const program = fileURLToPath(new URL('upstream.ts', import.meta.url));
const chat = (content: string) => ({ model: 'm', messages: [{ role: 'user' as const, content }] }); // Narrows the literal.
const claude = (content: string) => ({ ...chat(content), max_tokens: 9 });
const streamed = async (content = 'x', options: { signal?: AbortSignal } = {}) =>
  Array.fromAsync(await openai.chat.completions.create({ ...chat(content), stream: true }, options));
const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

test('--help explains the options, and a wrong one ends with a message and status 2', () => {
  const helped = spawnSync(process.execPath, [program, '--help'], { encoding: 'utf8' });
  expect(helped).toMatchObject({ status: 0, stdout: expect.stringContaining('--script FILE') });
  const wrong = spawnSync(process.execPath, [program, '--port', 'http'], { encoding: 'utf8' });
  expect(wrong).toMatchObject({ status: 2, stderr: expect.stringContaining('not a port') });
});

test('it puts texts into order by the words they share with a question, or as the script has it', async () => {
  const rerank = async (more = {}) => {
    const body = {
      model: 'r',
      query: 'Blue whales',
      documents: ['A red fish', 'Whales!', 'blue WHALES'],
      ...more,
    };
    const headers = { authorization: 'Bearer k', 'content-type': 'application/json' };
    const sent = { method: 'POST', headers, body: JSON.stringify(body) };
    const answer = await fetch(`${upstream.url}/v1/rerank`, sent);
    return { status: answer.status, body: await answer.json() };
  };
  await upstream.script([{ when: { task: 'rerank' }, reply: { text: 'no JSON', usage: { input: 5 } } }]);
  expect(await rerank({ top_n: 2 })).toEqual({
    status: 200,
    body: {
      ...{ model: 'r', usage: { total_tokens: 5 } },
      results: [
        { index: 2, relevance_score: 1 },
        { index: 1, relevance_score: 0.5 },
      ],
    },
  });
  expect(await rerank({ documents: [] })).toMatchObject({
    status: 400,
    body: { error: { param: 'documents' } },
  });
  expect(await rerank({ texts: [] })).toMatchObject({
    status: 400,
    body: { error: { code: 'unknown_parameter' } },
  });
  await upstream.script([
    { when: { task: 'rerank', last_user: 'Blue', system: 'red' }, reply: { text: '{"results":[]}' } },
  ]);
  expect(await rerank()).toEqual({ status: 200, body: { results: [] } });
});

test.each(['SIGTERM', 'SIGINT'] as const)('it ends cleanly on %s, with an answer hanging', async (signal) => {
  const other = await startUpstream();
  await other.script([{ fail: { kind: 'hang' } }]);
  const client = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: 'k', maxRetries: 0 });
  const hanging = failureOf(client.chat.completions.create(chat('x')));
  await other.latest((record) => record.rule !== null);
  expect(await other.stop(signal)).toBe(0);
  expect(await hanging).toBeInstanceOf(OpenAI.APIConnectionError);
});

test('it reads a script from a file, and refuses one that is not well formed, naming the place', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'upstream-'));
  try {
    const file = join(folder, 'script.json');
    writeFileSync(file, JSON.stringify({ rules: [{ reply: { text: 'from a file' } }] }));
    const other = await startUpstream('--script', file);
    const client = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: 'k' });
    const { choices } = await client.chat.completions.create(chat('x'));
    await other.stop();
    expect(choices[0]?.message.content).toBe('from a file');
    writeFileSync(file, JSON.stringify({ rules: [{ reply: { text: '{{last_usr}}' } }] }));
    const refused = spawnSync(process.execPath, [program, '--script', file], { encoding: 'utf8' });
    expect(refused).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('rules.0.reply.text: a template knows'),
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the control endpoint refuses a wrong script and keeps the old one', async () => {
  await expect(upstream.script([{ reply: { txt: 'x' } }])).rejects.toThrow('rules.0.reply');
  await expect(upstream.script([{ when: { last_user: '(' }, reply: {} }])).rejects.toThrow(
    'not a regular expression',
  );
  await expect(upstream.script([{}])).rejects.toThrow('a rule needs a reply or a fail');
  const { choices } = await openai.chat.completions.create(chat('x'));
  expect(choices[0]?.message.content).toBe('nothing scripted');
});

test('the default script echoes, thinks, and uses the tools that the prompt names', async () => {
  const other = await startUpstream();
  const client = new Anthropic({ baseURL: other.url, apiKey: 'k', maxRetries: 0 });
  const ask = async (...messages: Anthropic.MessageParam[]) => {
    const message = await client.messages.create({ model: 'scripted-large', max_tokens: 9, messages });
    return message.content;
  };
  const says = (content: string) => ({ role: 'user' as const, content }); // Narrows the literal.
  expect(await ask(says('hello'))).toMatchObject([{ text: 'You said: hello' }]);
  expect(await ask(says('think about rain'))).toMatchObject([
    { type: 'thinking' },
    { text: 'I thought about rain' },
  ]);
  const both = await ask(says('use tool view with {"path": "a"} and tool ls with {"deep": {"b": 1}}'));
  expect(both.slice(1)).toMatchObject([
    { name: 'view', input: { path: 'a' } },
    { name: 'ls', input: { deep: { b: 1 } } },
  ]);
  const chain = says('use tool view with {"path": "a"} then tool ls with {}');
  const first = await ask(chain);
  expect(first).toMatchObject([{ name: 'view', input: { path: 'a' } }]);
  const [use] = first;
  if (use?.type !== 'tool_use') throw new Error('no tool use');
  const result = { type: 'tool_result' as const, tool_use_id: use.id, content: 'alpha' }; // Narrows the literal.
  const second = await ask(chain, { role: 'assistant', content: first }, { role: 'user', content: [result] });
  expect(second).toMatchObject([{ name: 'ls', input: {} }]);
  const one = says('please use tool view with {"path": "a"}');
  const reported = await ask(one, { role: 'assistant', content: first }, { role: 'user', content: [result] });
  expect(reported).toMatchObject([{ text: 'The tool answered: alpha' }]);
  await other.stop();
});

test('a rule with times gives way after its last use', async () => {
  await upstream.script([
    { name: 'busy', times: 2, fail: { kind: 'status', status: 429, retry_after: '0' } },
    { name: 'fine', reply: { text: 'fine' } },
  ]);
  const patient = openai.withOptions({ maxRetries: 2 });
  const { choices } = await patient.chat.completions.create(chat('x'));
  expect(choices[0]?.message.content).toBe('fine');
  expect((await upstream.requests()).map(({ rule, status }) => [rule, status])).toEqual([
    ['busy', 429],
    ['busy', 429],
    ['fine', 200],
  ]);
});

test('rules match on dialect, key, model, system text and stream, and their captures fill the templates', async () => {
  await upstream.script([
    { when: { dialect: 'anthropic_messages' }, reply: { text: 'messages' } },
    { when: { api_key: 'other' }, reply: { text: 'other key' } },
    { when: { model: '^tiny' }, reply: { text: 'tiny {{model}}' } },
    { when: { system: 'pirate' }, reply: { text: 'arr, {{system}}' } },
    { when: { stream: true }, reply: { text: 'streamed' } },
    { when: { last_user: 'my name is (?<name>\\w+)' }, reply: { text: 'hello {{match.name}}' } },
  ]);
  const say = async (request: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>, client = openai) =>
    (await client.chat.completions.create({ ...chat('x'), ...request })).choices[0]?.message.content;
  expect(await anthropic.messages.create(claude('x'))).toMatchObject({ content: [{ text: 'messages' }] });
  expect(await say({}, openai.withOptions({ apiKey: 'sk-other' }))).toBe('other key');
  expect(await say({ model: 'tiny-1' })).toBe('tiny tiny-1');
  expect(await say({ messages: [{ role: 'system', content: 'a pirate' }, ...chat('x').messages] })).toBe(
    'arr, a pirate',
  );
  expect((await streamed()).map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe('streamed');
  expect(await say(chat('my name is Ada, hi'))).toBe('hello Ada');
  expect(await failureOf(say({}))).toMatchObject({
    status: 400,
    message: expect.stringContaining('no rule'),
  });
});

test('a request is logged with its headers, its body and how far the answer got', async () => {
  await streamed('look at me');
  const record = await upstream.latest((it) => it.outcome === 'finished');
  expect(record).toMatchObject({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { authorization: 'Bearer sk-test' },
    body: { model: 'm', messages: [{ content: 'look at me' }], stream: true },
    rule: '#0',
    status: 200,
    chunks_written: 5,
    blocked_times: 0,
  });
  expect(record.received_at).toBeLessThanOrEqual(record.first_byte_at ?? 0);
  expect(record.first_byte_at).toBeLessThanOrEqual(record.ended_at ?? 0);
});

test('the pace is kept: before the first byte, and between the chunks', async () => {
  await upstream.script([
    { reply: { text: 'abcd', chunk_size: 1, chunk_delay_ms: 20, first_byte_delay_ms: 100 } },
  ]);
  await streamed();
  const { received_at, first_byte_at, ended_at } = await upstream.latest((it) => it.outcome === 'finished');
  expect((first_byte_at ?? 0) - received_at).toBeGreaterThanOrEqual(95);
  expect((ended_at ?? 0) - (first_byte_at ?? 0)).toBeGreaterThanOrEqual(6 * 19);
});

test('an answer is held until it is released', async () => {
  await upstream.script([{ reply: { text: 'abcdef', chunk_size: 1, hold_after_chunks: 3 } }]);
  const chunks = streamed();
  await upstream.latest((it) => it.chunks_written === 3);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect((await upstream.requests())[0]).toMatchObject({ chunks_written: 3, outcome: 'open' });
  await upstream.release();
  expect(await chunks).toHaveLength(8);
});

test('a hang before the headers lasts until the client gives up, which is recorded', async () => {
  await upstream.script([{ fail: { kind: 'hang' } }]);
  const leaving = new AbortController();
  const failed = failureOf(openai.chat.completions.create(chat('x'), { signal: leaving.signal }));
  await upstream.latest(({ outcome }) => outcome === 'open');
  leaving.abort();
  expect(await failed).toBeInstanceOf(OpenAI.APIUserAbortError);
  expect(await upstream.latest((it) => it.outcome !== 'open')).toMatchObject({
    outcome: 'aborted',
    status: null,
  });
});

test('a hang in the middle of a stream ends when the client aborts, and no chunk is written after that', async () => {
  await upstream.script([
    { reply: { text: 'abcdef', chunk_size: 1 }, fail: { kind: 'hang', after_chunks: 3 } },
  ]);
  const stream = anthropic.messages.stream(claude('x'));
  const failed = failureOf(stream.finalMessage());
  await upstream.latest((it) => it.chunks_written === 3);
  expect((await upstream.requests())[0]?.outcome).toBe('open');
  const abortedAt = Date.now();
  stream.abort();
  expect(await failed).toBeInstanceOf(Anthropic.APIUserAbortError);
  const record = await upstream.latest((it) => it.outcome !== 'open');
  expect(record).toMatchObject({ outcome: 'aborted', chunks_written: 3 });
  expect(record.ended_at).toBeGreaterThanOrEqual(abortedAt - 1);
});

test('after a client has gone away, a slow answer is not continued', async () => {
  await upstream.script([{ reply: { text: 'abcdef'.repeat(1000), chunk_size: 1, chunk_delay_ms: 10 } }]);
  const stream = anthropic.messages.stream(claude('x'));
  const failed = failureOf(stream.finalMessage());
  await upstream.latest((it) => it.chunks_written >= 3);
  stream.abort();
  await failed;
  const { chunks_written } = await upstream.latest((it) => it.outcome === 'aborted');
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect((await upstream.requests())[0]).toMatchObject({ outcome: 'aborted', chunks_written });
});

test('a client that goes away while it still sends its request is recorded as aborted', async () => {
  const sending = httpRequest(`${upstream.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-length': 99 },
  });
  sending.on('error', () => undefined).write('{"mod');
  await upstream.latest((it) => it.outcome === 'open');
  sending.destroy();
  expect(await upstream.latest((it) => it.outcome !== 'open')).toMatchObject({
    outcome: 'aborted',
    body: null,
  });
});

test.each(['cut', 'end'])(
  'a stream that ends by %s in the middle delivers what came before',
  async (kind) => {
    await upstream.script([{ reply: { text: 'abcdef', chunk_size: 1 }, fail: { kind, after_chunks: 4 } }]);
    const stream = await openai.chat.completions.create({ ...chat('x'), stream: true });
    let received = 0;
    const reading = (async () => {
      for await (const _ of stream) received += 1;
    })();
    const failure = await failureOf(reading);
    expect(received).toBe(4);
    // An orderly end without the last chunk is no error for the SDK: the caller has to notice it.
    expect(failure).toEqual(kind === 'cut' ? expect.any(Error) : 'no failure');
    expect((await upstream.requests())[0]).toMatchObject({ outcome: 'cut', chunks_written: 4 });
  },
);

test('a cut Messages stream fails in the SDK', async () => {
  await upstream.script([
    { reply: { text: 'abcdef', chunk_size: 1 }, fail: { kind: 'cut', after_chunks: 5 } },
  ]);
  expect(await failureOf(anthropic.messages.stream(claude('x')).finalMessage())).toBeInstanceOf(
    Anthropic.AnthropicError,
  );
});

test.each(['cut', 'hang', 'garbage', 'wrong_json'])('a plain answer can fail by %s as well', async (kind) => {
  const half = kind === 'cut' || kind === 'hang' ? { after_chunks: 0 } : {};
  await upstream.script([{ reply: { text: 'abc' }, fail: { kind, ...half } }]);
  const leaving = new AbortController();
  const failed = failureOf(openai.chat.completions.create(chat('x'), { signal: leaving.signal }));
  if (kind === 'hang') {
    await upstream.latest((it) => it.bytes_written > 0);
    leaving.abort();
  }
  expect(await failed).toBeInstanceOf(Error);
  const { outcome, bytes_written } = await upstream.latest((it) => it.outcome !== 'open');
  expect(outcome).toBe(kind === 'hang' ? 'aborted' : 'cut');
  expect(bytes_written).toBeGreaterThan(0);
});

test('a connection can be cut before any header', async () => {
  await upstream.script([{ fail: { kind: 'cut' } }]);
  expect(await failureOf(openai.chat.completions.create(chat('x')))).toBeInstanceOf(
    OpenAI.APIConnectionError,
  );
});

test.each(['garbage', 'wrong_json'])('%s in a stream breaks the reading of it', async (kind) => {
  await upstream.script([{ reply: { text: 'abc' }, fail: { kind, after_chunks: 2 } }]);
  const response = await fetch(`${upstream.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
    body: JSON.stringify({ ...chat('x'), stream: true }),
  });
  const text = await response.text();
  expect(text).toContain(kind === 'garbage' ? '\u0000\ufffd' : 'data: {"id": "broken", \n\n');
  expect(text).not.toContain('[DONE]');
});

test('the error of a proxy in between replaces that of the vendor', async () => {
  await upstream.script([{ fail: { kind: 'status', status: 502, body: '<h1>Bad Gateway</h1>' } }]);
  expect(await failureOf(anthropic.messages.create(claude('x')))).toMatchObject({ status: 502, type: null });
});

test('a reader that pauses holds up the upstream, which the log shows', async () => {
  await upstream.script([{ reply: { text: 'x'.repeat(1000), repeat: 20_000, chunk_size: 100_000 } }]);
  const gone = new AbortController();
  const response = await fetch(`${upstream.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
    body: JSON.stringify({ ...chat('x'), stream: true }),
    signal: gone.signal,
  });
  expect(response.status).toBe(200);
  const blocked = await upstream.latest((it) => it.blocked);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const later = (await upstream.requests())[0];
  expect(later).toMatchObject({ blocked: true, bytes_written: blocked.bytes_written, outcome: 'open' });
  expect(later?.bytes_written).toBeLessThan(20_000_000);
  gone.abort();
  expect(await upstream.latest((it) => it.outcome !== 'open')).toMatchObject({
    outcome: 'aborted',
    blocked: false,
  });
});

test('unknown paths and wrong methods are refused in the form of the vendor', async () => {
  const get = async (path: string, headers: Record<string, string>) => {
    const response = await fetch(upstream.url + path, { headers });
    return { status: response.status, body: (await response.json()) as unknown }; // Asserted on below.
  };
  const bearer = { authorization: 'Bearer k' };
  expect(await get('/v1/nothing', bearer)).toMatchObject({ status: 404, body: { error: { code: null } } });
  expect(await get('/v1/chat/completions', bearer)).toMatchObject({ status: 405, body: { error: {} } });
  expect(await get('/v1/messages', bearer)).toMatchObject({ status: 405, body: { type: 'error' } });
  expect(await get('/_nothing', {})).toMatchObject({
    status: 404,
    body: { error: expect.stringContaining('_script') },
  });
});
