/** Pictures and speech over HTTP: what is made, for whom it is counted, and what becomes of whoever leaves. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { picture, sounds } from '../../contract-tests/upstream/media-files.ts';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Json, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';

let upstream: Upstream;
let app: TestApp;
let bare: TestApp;
let ada: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  const models = [{ id: 'talker-1' }];
  const provider = { type: 'openai' as const, base_url: `${upstream.url}/v1`, api_key: 'k', models };
  const priced = { id: 'gpt-image-1', cost_per_1m_in: 5, cost_per_1m_out: 40 };
  app = await testApp({
    config: {
      providers: {
        painter: { ...provider, models: [priced] },
        other: provider,
        claude: { type: 'anthropic', base_url: `${upstream.url}/v1`, api_key: 'k', models },
      },
      image_generation: { provider: 'painter' },
      text_to_speech: { provider: 'painter', voice: 'nova' },
      speech_to_text: { provider: 'painter', model: 'whisper-1' },
    },
    settings: { outboundAllow: [new URL(upstream.url).origin] },
  });
  bare = await testApp({ config: { providers: { painter: provider } } });
  ada = await app.register('ada');
});

afterAll(async () => {
  await Promise.all([app.close(), bare.close()]);
  await upstream.stop();
});

beforeEach(() => untilFarFromMidnight(20_000));

const images = '/api/v1/media/images';
const speech = '/api/v1/media/speech';
const transcriptions = '/api/v1/media/transcriptions';
const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  app.request('POST', path, { token: ada.token, body, headers });
const usageOf = async (token: string) =>
  (await app.request('GET', '/api/v1/usage?group_by=model', { token })).body.data;

test('a picture is made, and what it used is counted for whoever asked', async () => {
  await upstream.script([{ when: { last_user: '^a cat$' }, reply: { usage: { input: 10, output: 4000 } } }]);
  const bob = await app.register('bob');
  const { status, body } = await app.request('POST', images, {
    token: bob.token,
    body: { prompt: 'a cat', size: '1024x1536' },
  });
  expect(status).toBe(200);
  expect(body).toEqual({
    model: 'painter:gpt-image-1',
    images: [{ media_type: 'image/png', data: picture.toString('base64') }],
    usage: { input_tokens: 10, output_tokens: 4000, cached_input_tokens: 0 },
    cost: 0.16005,
    warnings: [],
  });
  expect((await upstream.latest(() => true)).body).toMatchObject({ size: '1024x1536', n: 1 });
  expect(await usageOf(bob.token)).toMatchObject([
    { model: 'painter:gpt-image-1', requests: 1, usage: { output_tokens: 4000 }, cost: 0.16005 },
  ]);
});

test('speech is made as the settings say, and as the request says instead', async () => {
  await upstream.script([{ reply: {} }]);
  const usual = await post(speech, { text: 'Good morning.' });
  expect(usual.body).toMatchObject({
    model: 'painter:gpt-4o-mini-tts',
    audio: { media_type: 'audio/mpeg', data: sounds.mp3?.bytes.toString('base64') },
  });
  expect((await upstream.latest(() => true)).body).toMatchObject({ voice: 'nova', input: 'Good morning.' });
  const asked = { model: 'tts-1', voice: 'alloy', format: 'wav', instructions: 'Whisper.', language: 'en' };
  const { body } = await post(speech, { text: 'Good morning.', provider: 'other', ...asked });
  expect(body).toMatchObject({ model: 'other:tts-1', audio: { media_type: 'audio/wav' } });
  expect(body.warnings).toEqual([expect.stringContaining('"en"')]);
  expect((await upstream.latest(() => true)).body).toMatchObject({
    ...{ model: 'tts-1', voice: 'alloy', response_format: 'wav', instructions: 'Whisper.' },
  });
});

test('what is said is written down, with the times of its parts', async () => {
  await upstream.script([{ when: { task: 'transcription' }, reply: { text: 'guten Morgen' } }]);
  const audio = sounds.wav?.bytes.toString('base64');
  const { status, body } = await post(transcriptions, { audio, language: 'de' });
  expect(status).toBe(200);
  expect(body).toEqual({
    ...{ model: 'painter:whisper-1', text: 'guten Morgen', language: 'de', duration_seconds: 2 },
    segments: [{ text: 'guten Morgen', start_seconds: 0, end_seconds: 2 }],
    usage: { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 },
    ...{ cost: null, warnings: [] },
  });
  expect((await upstream.latest(() => true)).body).toMatchObject({
    language: 'de',
    file: { name: 'audio.wav', size: sounds.wav?.bytes.length },
  });
});

test('what is no sound is not sent, nor what is too large', async () => {
  await upstream.script([{ reply: {} }]);
  const word = Buffer.from('swordfish is the password').toString('base64');
  const refused = await post(transcriptions, { audio: word });
  expect(refused).toMatchObject({ status: 415, body: { code: 'unsupported_media_type' } });
  expect((await post(transcriptions, { audio: 'no base64!' })).status).toBe(400);
  const large = await post(transcriptions, { audio: 'A'.repeat(36_700_160) });
  expect(large).toMatchObject({ status: 413, body: { code: 'body_too_large' } });
  expect(await upstream.requests()).toEqual([]);
});

describe('a sound that comes as the file of a form', () => {
  const wav = sounds.wav?.bytes ?? Buffer.alloc(0);
  type Part = readonly [name: string, value: string | Buffer<ArrayBuffer>];
  const form = (parts: readonly Part[]) => {
    const body = new FormData();
    for (const [name, value] of parts)
      if (typeof value === 'string') body.append(name, value);
      else body.append(name, new Blob([value]), 'greeting.wav');
    return body;
  };
  const upload = async (parts: readonly Part[], headers: Record<string, string> = {}) => {
    const answer = await fetch(app.url + transcriptions, {
      method: 'POST',
      headers: { authorization: `Bearer ${ada.token}`, ...headers },
      body: form(parts),
    });
    return { status: answer.status, body: (await answer.json()) as Json };
  };

  test('is written down as the same sound in Base64 is, with what stands before it', async () => {
    await upstream.script([{ when: { task: 'transcription' }, reply: { text: 'guten Morgen' } }]);
    const audio = wav.toString('base64');
    const inJson = await post(transcriptions, {
      audio,
      language: 'de',
      provider: 'other',
      model: 'whisper-1',
    });
    const sent = await upload([
      ['language', 'de'],
      ['provider', 'other'],
      ['model', 'whisper-1'],
      ['file', Buffer.from(wav)],
    ]);
    expect(sent).toEqual({ status: 200, body: inJson.body });
    expect(sent.body).toMatchObject({ model: 'other:whisper-1', text: 'guten Morgen' });
    expect((await upstream.latest(() => true)).body).toMatchObject({
      language: 'de',
      file: { name: 'audio.wav', size: wav.length },
    });
  });

  test('has a limit of its own, however it is sent', async () => {
    await upstream.script([{ reply: {} }]);
    const large = Buffer.concat([wav, Buffer.alloc(25 * 1024 * 1024)]);
    expect(await upload([['file', large]])).toMatchObject({ status: 413, body: { code: 'body_too_large' } });
    const pieces = new Response(form([['file', large]]));
    const unannounced = await fetch(app.url + transcriptions, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${ada.token}`,
        'content-type': pieces.headers.get('content-type') ?? '',
      },
      body: pieces.body,
      duplex: 'half',
    });
    expect(unannounced.status).toBe(413);
    expect(await upstream.requests()).toEqual([]);
  });

  test.each<[string, readonly Part[], number, string]>([
    ['is no sound', [['file', Buffer.from('swordfish is the password')]], 415, 'unsupported_media_type'],
    ['is not there', [['language', 'de']], 400, 'invalid_request'],
    ['is in Base64', [['audio', wav.toString('base64').slice(0, 4000)]], 400, 'invalid_request'],
    ['is not last', [['file', Buffer.from(wav)], ['language', 'de']], 400, 'invalid_request'], // biome-ignore format: a row
    ['is in no language', [['language', 'no language'], ['file', Buffer.from(wav)]], 400, 'invalid_request'], // biome-ignore format: a row
    ['is for nobody', [['provider', 'gone'], ['file', Buffer.from(wav)]], 404, 'model_not_found'], // biome-ignore format: a row
  ])('that %s is refused, and nobody is asked', async (_what, parts, status, code) => {
    await upstream.script([{ reply: {} }]);
    expect(await upload(parts)).toMatchObject({ status, body: { code } });
    expect(await upstream.requests()).toEqual([]);
  });

  test('and comes again with its key is heard once; another sound with that key is refused', async () => {
    await upstream.script([{ when: { task: 'transcription' }, reply: { text: 'guten Morgen' } }]);
    const headers = { 'Idempotency-Key': 'the-same-sound' };
    const first = await upload([['file', Buffer.from(wav)]], headers);
    expect(first).toMatchObject({ status: 200, body: { text: 'guten Morgen' } });
    expect(await upload([['file', Buffer.from(wav)]], headers)).toEqual(first);
    expect(await upstream.requests()).toHaveLength(1);
    const other = Buffer.from(wav);
    other.writeUInt8(7, other.length - 1);
    expect((await upload([['file', other]], headers)).body.code).toBe('idempotency_key_reused');
  });
});

describe('refusals', () => {
  test.each([
    [images, { prompt: 'x' }, 'image_generation.provider'],
    [speech, { text: 'x' }, 'text_to_speech.provider'],
  ])('%s says what to set where nothing is', async (path, body, key) => {
    await upstream.script([{ reply: {} }]);
    const problem = await bare.request('POST', path, { token: bare.operatorKey, body });
    expect(problem).toMatchObject({ status: 501, body: { code: 'media_not_configured' } });
    expect(problem.body.detail).toContain(key);
    const named = await bare.request('POST', path, {
      token: bare.operatorKey,
      body: { ...body, provider: 'painter' },
    });
    expect(named.status).toBe(200);
  });

  test.each([
    ['a provider that there is not', { prompt: 'x', provider: 'gone' }, 404, 'model_not_found'],
    ['a provider that makes none', { prompt: 'x', provider: 'claude' }, 501, 'media_not_configured'],
    ['no prompt', {}, 400, 'invalid_request'],
    ['a size that is none', { prompt: 'x', size: 'huge' }, 400, 'invalid_request'],
    ['an unknown member', { prompt: 'x', n: 2 }, 400, 'invalid_request'],
  ])('%s is refused', async (_what, body, status, code) => {
    expect(await post(images, body)).toMatchObject({ status, body: { code } });
  });

  test('what the provider refuses is told in our words, and metered as a request', async () => {
    await upstream.script([
      { fail: { kind: 'status', status: 429, message: 'slow down', retry_after: '9' } },
    ]);
    const carl = await app.register('carl');
    const answer = await app.request('POST', images, { token: carl.token, body: { prompt: 'x' } });
    expect(answer).toMatchObject({ status: 502, body: { code: 'provider_rate_limited' } });
    expect(answer.headers.get('retry-after')).toBe('9');
    expect(await usageOf(carl.token)).toMatchObject([{ requests: 1, usage: { output_tokens: 0 }, cost: 0 }]);
  });

  test('a workspace of somebody else is not found', async () => {
    const dora = await app.register('dora');
    const { body } = await app.request('GET', '/api/v1/workspaces', { token: dora.token });
    const workspace_id = body.data[0].id;
    expect(await post(images, { prompt: 'x', workspace_id })).toMatchObject({ status: 404 });
  });
});

test('a quota that is used up refuses before anything is asked', async () => {
  await upstream.script([{ reply: { usage: { input: 10, output: 4000 } } }]);
  const eve = await app.register('eve');
  const limits = { tokens: { day: { hard: 100 } } };
  const path = `/api/v1/quotas/user/${eve.user.id}`;
  await app.request('PUT', path, {
    token: eve.token,
    body: { limits },
  });
  const draw = () => app.request('POST', images, { token: eve.token, body: { prompt: 'x' } });
  expect((await draw()).status).toBe(200);
  const asked = (await upstream.requests()).length;
  expect(await draw()).toMatchObject({ status: 429, body: { code: 'quota_exceeded' } });
  expect(await upstream.requests()).toHaveLength(asked);
});

test('a request that comes again with its key is made once', async () => {
  await upstream.script([{ reply: {} }]);
  const headers = { 'Idempotency-Key': 'the-same-cat' };
  const first = await post(images, { prompt: 'a cat' }, headers);
  expect(await post(images, { prompt: 'a cat' }, headers)).toMatchObject({ status: 200, body: first.body });
  expect(await upstream.requests()).toHaveLength(1);
  expect((await post(images, { prompt: 'a dog' }, headers)).status).toBe(422);
});

test('whoever leaves ends the call of the provider', async () => {
  await upstream.script([{ fail: { kind: 'hang' } }]);
  const leaving = new AbortController();
  const waiting = fetch(`${app.url}${images}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'x' }),
    signal: leaving.signal,
  }).catch((error: Error) => error.name);
  await upstream.latest(({ rule }) => rule !== null);
  leaving.abort();
  expect(await waiting).toBe('AbortError');
  await upstream.latest(({ outcome }) => outcome === 'aborted');
});

describe('in a run', () => {
  const run = async (body: object) => app.request('POST', '/api/v1/query', { token: ada.token, body });

  test('a picture that the agent has made counts for the run, by its own model', async () => {
    const draw = { prompt: 'a cat', file_path: 'cat.png' };
    await upstream.script([
      { when: { task: 'image' }, reply: { usage: { input: 10, output: 4000 } } },
      {
        when: { step: 0, offers_tool: 'generate_image' },
        reply: {
          tool_calls: [{ name: 'generate_image', arguments: draw }],
          usage: { input: 5, output: 5 },
        },
      },
      { when: { tool_results: 1 }, reply: { text: '{{last_tool_result}}', usage: { input: 5, output: 5 } } },
    ]);
    const permission_rules = [{ tool: 'generate_image', decision: 'allow' }];
    const { body: session } = await app.request('POST', '/api/v1/sessions', {
      token: ada.token,
      body: { permission_rules },
    });
    const { body } = await run({ prompt: 'Draw a cat.', session_id: session.id });
    expect(body.content).toMatchObject([{ text: expect.stringContaining('cat.png (image/png') }]);
    expect(body.usage).toMatchObject({ input_tokens: 20, output_tokens: 4010 });
    const { body: stored } = await app.request('GET', `/api/v1/runs/${body.run_id}`, { token: ada.token });
    expect(stored.usage).toMatchObject({ input_tokens: 20, output_tokens: 4010 });
    const { body: counted } = await app.request('GET', `/api/v1/sessions/${session.id}`, {
      token: ada.token,
    });
    expect(counted.usage.output_tokens).toBeGreaterThanOrEqual(4010);
  });

  test.each(['user', 'workspace', 'organization'])(
    'whose provider stands in a setting of the %s, in calls and in runs',
    async (scope) => {
      const owner = await app.register(`${scope}-of-a-setting`);
      const send = (method: string, path: string, body?: object) =>
        app.request(method, path, { token: owner.token, ...(body && { body }) });
      const key = `key-of-the-${scope}`;
      const made = await send('POST', '/api/v1/settings/providers', {
        ...{ scope, provider_id: 'painter', name: 'Mine', type: 'openai', api_key: key },
        ...{ base_url: `${upstream.url}/v1`, models: [{ id: 'talker-1' }] },
      });
      expect([made.status, made.body.detail]).toEqual([201, undefined]);
      const wav = sounds.wav?.bytes.toString('base64');
      const draw = { prompt: 'a cat', file_path: 'cat.png' };
      await upstream.script([
        { when: { task: 'image' }, reply: {} },
        { when: { task: 'transcription' }, reply: { text: 'guten Morgen' } },
        {
          when: { step: 0, offers_tool: 'generate_image' },
          reply: { tool_calls: [{ name: 'generate_image', arguments: draw }] },
        },
        { reply: { text: '{{last_tool_result}}' } },
      ]);
      expect((await send('POST', images, { prompt: 'a cat' })).status).toBe(200);
      expect((await send('POST', speech, { text: 'Good morning.' })).status).toBe(200);
      expect((await send('POST', transcriptions, { audio: wav })).status).toBe(200);
      const permission_rules = [{ tool: 'generate_image', decision: 'allow' }];
      const { body: session } = await send('POST', '/api/v1/sessions', { permission_rules });
      const { body } = await send('POST', '/api/v1/query', { prompt: 'Draw a cat.', session_id: session.id });
      expect(body.content).toMatchObject([{ text: expect.stringContaining('cat.png (image/png') }]);
      const asked = (await upstream.requests()).filter(({ path }) => /\/(images|audio)\//.test(path));
      expect(asked.map(({ headers }) => headers.authorization)).toEqual(Array(4).fill(`Bearer ${key}`));
    },
  );

  test('the tools are listed, with what is missing where they are off', async () => {
    const tools = async (on: TestApp, token: string) => {
      const { body } = await on.request('GET', '/api/v1/tools?limit=100', { token });
      const names = ['generate_image', 'speak', 'transcribe'];
      return body.data.flatMap((tool: { name: string; disabled_by: string | null }) =>
        names.includes(tool.name) ? [tool.disabled_by] : [],
      );
    };
    expect(await tools(app, ada.token)).toEqual([null, null, null]);
    expect(await tools(bare, bare.operatorKey)).toEqual([
      'image_generation.provider is not set',
      'text_to_speech.provider is not set',
      'speech_to_text.provider is not set',
    ]);
  });
});
