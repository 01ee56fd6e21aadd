/** Pictures, speech and transcriptions through each vendor's client, over HTTP. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { picture, samples, sounds } from '../../../contract-tests/upstream/media-files.ts';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { ClientConfig } from '../../contract/config.ts';
import { Problem } from '../../problem.ts';
import type { MediaCall, MediaChoice } from '../models/media.ts';
import type { SpentByCall } from '../transcript.ts';
import { createMedia } from './media.ts';
import type { ProviderDefinition } from './provider-definition.ts';
import { asked, definitionOf, operatorFetch, providerTypes, type TestedType } from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const makers = providerTypes.filter((type) => type !== 'anthropic');
const wav = sounds.wav?.bytes ?? Buffer.alloc(0);

interface Setup {
  readonly definitions?: readonly ProviderDefinition[];
  readonly config?: ClientConfig;
  readonly silenceMs?: number;
}

function mediaOf(type: TestedType, { definitions, config, silenceMs = 5000 }: Setup = {}) {
  const media = createMedia({
    definitions: definitions ?? [definitionOf(type, upstream)],
    timeouts: { silenceMs },
    fetch: operatorFetch,
  });
  const google = type === 'gemini' || type === 'vertexai';
  const own = (model: string) => ({ provider: type, model: google ? `gemini-${model}` : model });
  const usual: ClientConfig = {
    image_generation: own('2.5-flash-image'),
    text_to_speech: own('2.5-flash-preview-tts'),
    speech_to_text: own('3.5-transcribe'),
  };
  const counting = config ?? usual;
  const spent: SpentByCall[] = [];
  const call = (signal = AbortSignal.timeout(5000)): MediaCall => ({
    signal,
    spent: async (spending) => void spent.push(spending),
  });
  return {
    spent,
    absence: (kind: 'image' | 'speech' | 'transcription') => media.absence(kind, counting),
    draw: (prompt: string, choice: MediaChoice = {}, signal?: AbortSignal) =>
      media.find('image', counting, choice).ask({ prompt, aspectRatio: '16:9' }, call(signal)),
    say: (text: string, choice: MediaChoice = {}, more: { language?: string; instructions?: string } = {}) =>
      media.find('speech', counting, choice).ask({ text, ...more }, call()),
    hear: (audio: Uint8Array, choice: MediaChoice = {}) =>
      media.find('transcription', counting, choice).ask({ audio }, call()),
  };
}

async function problemOf(promise: Promise<unknown>): Promise<Problem> {
  const error = await promise.then(
    () => null,
    (it: unknown) => it,
  );
  if (error instanceof Problem) return error;
  throw new Error(`no problem: ${String(error)}`);
}

function problemIn(work: () => unknown): Problem {
  try {
    work();
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error('no problem');
}

describe.each(makers)('%s', (type) => {
  test('makes a picture, and tells what it used', async () => {
    await upstream.script([
      { when: { task: 'image', last_user: '^a cat$' }, reply: { usage: { input: 9, output: 1290 } } },
    ]);
    const media = mediaOf(type);
    const { images } = await media.draw('a cat');
    expect(images.map(({ mediaType }) => mediaType)).toEqual(['image/png']);
    expect(Buffer.from(images[0]?.bytes ?? [])).toEqual(picture);
    // Where a picture is at an address, its maker counts nothing.
    const counted = type === 'gemini' || type === 'vertexai';
    expect(media.spent).toMatchObject([
      { model: expect.stringContaining(`${type}:`), usage: { output_tokens: counted ? 1290 : 0 } },
    ]);
  });

  test('speaks with the voice and in the format that are wanted', async () => {
    await upstream.script([{ when: { task: 'speech', last_user: 'hello' }, reply: {} }]);
    const media = mediaOf(type);
    const { sound } = await media.say('hello', { voice: 'nova', format: 'wav' });
    expect(sound.mediaType).toBe('audio/wav');
    expect(Buffer.from(sound.bytes).subarray(44)).toEqual(samples);
    const { body } = (await asked(upstream)).at(-1) ?? {};
    expect(JSON.stringify(body)).toContain('nova');
    expect(media.spent).toHaveLength(1);
  });

  test('transcribes, and is told the language', async () => {
    await upstream.script([{ when: { task: 'transcription' }, reply: { text: 'guten Morgen' } }]);
    const media = mediaOf(type);
    const heard = await media.hear(wav, { language: 'de' });
    expect(heard.text).toBe('guten Morgen');
    expect(JSON.stringify((await asked(upstream)).at(-1)?.body)).toContain('"de"');
    expect(media.spent).toHaveLength(1);
  });

  test('says why it failed, in words for all, and quotes no credential', async () => {
    await upstream.script([
      {
        when: { task: 'image' },
        fail: { kind: 'status', status: 429, message: 'slow down', retry_after: '7' },
      },
      { when: { task: 'speech' }, fail: { kind: 'status', status: 401, message: 'wrong key test-key' } },
      { when: { task: 'transcription' }, fail: { kind: 'cut' } },
    ]);
    const media = mediaOf(type);
    expect(await problemOf(media.draw('x'))).toMatchObject({
      code: 'provider_rate_limited',
      headers: { 'Retry-After': '7' },
    });
    const refused = await problemOf(media.say('x'));
    expect(refused.code).toBe('provider_refused');
    const said = [refused.message, String(Reflect.get(refused.cause ?? {}, 'cause'))].join();
    // Of a service account, the credential is another.
    if (type !== 'vertexai') expect(said).not.toContain('test-key');
    expect((await problemOf(media.hear(wav))).code).toBe('provider_failed');
    expect(media.spent).toEqual([]);
  });

  test('ends its request when nobody waits any more, and when it is silent for too long', async () => {
    await upstream.script([{ fail: { kind: 'hang' } }]);
    const leaving = new AbortController();
    const waiting = problemOf(mediaOf(type).draw('x', {}, leaving.signal));
    await upstream.latest(({ rule }) => rule !== null);
    leaving.abort();
    expect((await waiting).code).toBe('request_timeout');
    await upstream.latest(({ outcome }) => outcome === 'aborted');
    const silent = mediaOf(type, { silenceMs: 150 });
    expect((await problemOf(silent.draw('x'))).code).toBe('provider_timeout');
  });
});

test('what a provider answers that nobody can read is quoted without the credential', async () => {
  const repeating = createServer(({ headers }, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(`Whose is ${headers.authorization}?`);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    repeating.closeAllConnections();
    repeating.close();
  });
  await once(repeating, 'listening');
  const { port } = repeating.address() as AddressInfo; // as it listens on a port
  const connect = async () => ({ baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: 'test-key', headers: {} });
  const media = mediaOf('openai', { definitions: [definitionOf('openai', upstream, { connect })] });
  const failed = await problemOf(media.hear(wav));
  expect(failed.code).toBe('provider_failed');
  expect(inspect(failed)).toContain('Whose is Bearer [redacted]?');
  expect(inspect(failed)).not.toContain('test-key');
});

test.each(['gemini', 'openai'] as const)(
  'a picture that %s holds back is a refusal, and metered',
  async (type) => {
    await upstream.script([{ reply: { stop_reason: 'refusal', usage: { input: 4, output: 0 } } }]);
    const media = mediaOf(type);
    expect((await problemOf(media.draw('x'))).code).toBe('provider_request_refused');
    // This vendor answers, and counts; the other refuses the request as a whole.
    expect(media.spent).toHaveLength(type === 'gemini' ? 1 : 0);
  },
);

test('what cannot be asked of a model is refused before anything is sent', async () => {
  await upstream.script([]);
  const problem = await problemOf(mediaOf('gemini').draw('x', { model: 'imagen-4' }));
  expect(problem).toMatchObject({ code: 'provider_refused' });
  expect(problem.message).toContain('gemini:imagen-4');
  expect(await asked(upstream)).toEqual([]);
});

test('what the model passes over is said', async () => {
  await upstream.script([{ reply: {} }]);
  const { warnings } = await mediaOf('openai').say('hello', { format: 'midi' }, { language: 'de' });
  expect(warnings).toEqual([expect.stringContaining('midi'), expect.stringContaining('"de"')]);
});

test('a server without a key is sent none', async () => {
  await upstream.script([]);
  const connect = async () => ({ baseUrl: `${upstream.url}/v1` });
  const media = mediaOf('openai-compat', {
    definitions: [definitionOf('openai-compat', upstream, { connect })],
  });
  for (const ask of [() => media.say('x'), () => media.hear(wav), () => media.draw('x')])
    await problemOf(ask());
  expect((await asked(upstream)).map(({ headers }) => headers.authorization)).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test('a key that was replaced meanwhile is fetched anew, once', async () => {
  await upstream.script([
    { when: { api_key: 'old' }, fail: { kind: 'status', status: 401 } },
    { when: { api_key: 'new' }, reply: {} },
  ]);
  let key = 'old-key';
  const connect = async () => {
    const apiKey = key;
    key = 'new-key';
    return { baseUrl: `${upstream.url}/v1`, apiKey };
  };
  const media = mediaOf('openai', { definitions: [definitionOf('openai', upstream, { connect })] });
  expect((await media.draw('x')).images).toHaveLength(1);
  expect(await asked(upstream)).toHaveLength(2);
});

describe('prices', () => {
  const cost = async (more: Partial<ProviderDefinition>, model: string, type: TestedType = 'openai') => {
    await upstream.script([{ reply: { usage: { input: 1000, output: 100_000 } } }]);
    const media = mediaOf(type, { definitions: [definitionOf(type, upstream, more)] });
    await media.draw('x', { model });
    return media.spent[0]?.cost;
  };

  test('pictures cost what the list asks for pictures', async () => {
    expect(await cost({}, 'gemini-2.5-flash-image', 'gemini')).toBe(3.0003);
    expect(await cost({}, 'gpt-image-1')).toBe(4.005);
  });

  test('what the settings ask counts before the list, and nothing is free by chance', async () => {
    const settings = { id: 'gpt-image-1', cost_per_1m_in: 1, cost_per_1m_out: 10 };
    expect(await cost({ models: [{ id: settings.id, settings }] }, settings.id)).toBe(1.001);
    const known = [{ id: settings.id, cost_per_1m_in: 2, cost_per_1m_out: 20 }];
    expect(await cost({ models: [{ id: settings.id, settings, known }] }, settings.id)).toBe(1.001);
    expect(await cost({ flatRate: true }, 'gpt-image-1')).toBe(0);
    expect(await cost({}, 'gpt-image-of-tomorrow')).toBeNull();
  });

  test('what catalogues know counts before the list, also of models that the provider does not list', async () => {
    const known = [{ id: 'gpt-image-1', cost_per_1m_in: 1, cost_per_1m_out: 10 }];
    expect(await cost({ models: [{ id: 'gpt-image-1', known }] }, 'gpt-image-1')).toBe(1.001);
    expect(await cost({ unlisted: new Map([['gpt-image-1', known]]) }, 'gpt-image-1')).toBe(1.001);
  });
});

describe('settings', () => {
  test.each(['image', 'speech', 'transcription'] as const)(
    'nothing makes a %s where no key says what',
    (kind) => {
      const media = createMedia({
        definitions: [definitionOf('openai', upstream)],
        timeouts: { silenceMs: 1000 },
        fetch: operatorFetch,
      });
      const problem = problemIn(() => media.find(kind, {}, {}));
      expect(problem.code).toBe('media_not_configured');
      expect(problem.message).toMatch(/Set (image_generation|text_to_speech|speech_to_text)\.provider/);
      expect(media.absence(kind, {})).toMatch(/\.provider is not set$/);
    },
  );

  test('a provider of another type, of none, and one without a usual model are said by name', () => {
    const of = (type: TestedType, provider: string) =>
      mediaOf(type, { config: { image_generation: { provider } } }).absence('image');
    expect(of('anthropic', 'anthropic')).toBe('providers of the type anthropic make no images');
    expect(of('openai', 'gone')).toBe('image_generation.provider is gone, which is no provider here');
    expect(of('azure', 'azure')).toBe(
      'image_generation.model is not set, and azure has no usual model for it',
    );
    expect(of('openai', 'openai')).toBeNull();
  });

  test('a provider that a caller names, and that there is not, is not found', () => {
    const problem = problemIn(() => mediaOf('openai').draw('x', { provider: 'gone' }));
    expect(problem).toMatchObject({ code: 'model_not_found' });
    expect(problem.message).toContain('openai');
  });

  test('`image_generation.provider` and `image_generation.model` make the pictures, or the usual model does', async () => {
    await upstream.script([{ reply: {} }]);
    const model = async (config: ClientConfig) => {
      await mediaOf('openai', { config }).draw('x');
      return Reflect.get((await asked(upstream)).at(-1)?.body as object, 'model');
    };
    expect(await model({ image_generation: { provider: 'openai' } })).toBe('gpt-image-1');
    expect(await model({ image_generation: { provider: 'openai', model: 'gpt-image-2' } })).toBe(
      'gpt-image-2',
    );
  });

  test('what is set for one provider means nothing to another that the caller names', async () => {
    await upstream.script([{ reply: {} }]);
    const definitions = [definitionOf('openai', upstream), definitionOf('gemini', upstream)];
    const config = { text_to_speech: { provider: 'gemini', model: 'gemini-x', voice: 'Kore' } };
    const media = mediaOf('openai', { definitions, config });
    await media.say('x', { provider: 'openai' });
    expect((await asked(upstream)).at(-1)?.body).toMatchObject({ model: 'gpt-4o-mini-tts', voice: 'alloy' });
  });

  test('`text_to_speech.provider`, `text_to_speech.model`, `text_to_speech.voice` and `text_to_speech.format` are how it speaks', async () => {
    await upstream.script([{ reply: {} }]);
    const text_to_speech = { provider: 'openai', model: 'tts-1', voice: 'nova', format: 'flac' };
    const { sound } = await mediaOf('openai', { config: { text_to_speech } }).say('x');
    expect(sound.mediaType).toBe('audio/flac');
    expect((await asked(upstream)).at(-1)?.body).toMatchObject({
      ...{ model: 'tts-1', voice: 'nova', response_format: 'flac' },
    });
  });

  test('`speech_to_text.provider`, `speech_to_text.model` and `speech_to_text.language` are how it hears', async () => {
    await upstream.script([{ reply: { text: 'guten Morgen' } }]);
    const speech_to_text = { provider: 'openai', model: 'whisper-1', language: 'de' };
    const heard = await mediaOf('openai', { config: { speech_to_text } }).hear(wav);
    expect(heard).toMatchObject({
      ...{ text: 'guten Morgen', language: 'de', durationSeconds: 2 },
      segments: [{ text: 'guten Morgen', startSeconds: 0, endSeconds: 2 }],
    });
    expect((await asked(upstream)).at(-1)?.body).toMatchObject({ model: 'whisper-1', language: 'de' });
  });
});
