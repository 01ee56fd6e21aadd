// The vendors' own SDKs judge what makes pictures, speaks and transcribes.
import { generateKeyPairSync } from 'node:crypto';
import { GoogleGenAI, Modality } from '@google/genai';
import OpenAI, { AzureOpenAI, toFile } from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { picture, samples, sounds } from './media-files.ts';
import { startUpstream, type Upstream } from './start-upstream.ts';

let upstream: Upstream;
let openai: Record<'openai' | 'azure', OpenAI>;
let google: Record<'gemini' | 'vertex', GoogleGenAI>;

beforeAll(async () => {
  upstream = await startUpstream();
  openai = {
    openai: new OpenAI({ baseURL: `${upstream.url}/v1`, apiKey: 'k', maxRetries: 0 }),
    azure: new AzureOpenAI({
      endpoint: upstream.url,
      apiKey: 'k',
      apiVersion: '2025-04-01-preview',
      maxRetries: 0,
    }),
  };
  const httpOptions = { baseUrl: upstream.url, retryOptions: { attempts: 1 } };
  google = {
    gemini: new GoogleGenAI({ vertexai: false, apiKey: 'k', httpOptions }),
    vertex: new GoogleGenAI({
      vertexai: true,
      project: 'our-project',
      location: 'europe-west4',
      googleAuthOptions: {
        credentials: { client_email: 'robot@our-project.iam.gserviceaccount.com', private_key: privateKey },
        clientOptions: { transporterOptions: { fetchImplementation: toUpstream } },
      },
      httpOptions,
    }),
  };
});
afterAll(() => upstream.stop());

const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

/** The vendor's library asks for tokens itself; only the address of the endpoint is another. */
const toUpstream: typeof fetch = (input, init) =>
  fetch(String(input).replace('https://oauth2.googleapis.com', upstream.url), init);

const wav = sounds.wav?.bytes ?? Buffer.alloc(0);
const other = Buffer.from('another picture');

describe.each(['openai', 'azure'] as const)('%s', (vendor) => {
  const model = vendor === 'azure' ? 'our-deployment' : 'gpt-image-1';

  test('a picture comes inside of the answer, or from the place that it names', async () => {
    await upstream.script([
      { when: { task: 'image', last_user: 'cat' }, reply: { file: other.toString('base64') } },
      { when: { task: 'image' }, reply: {} },
    ]);
    const { images } = openai[vendor];
    const inside = { response_format: 'b64_json' as const }; // Narrows the literal for the SDK.
    const cat = await images.generate({ model: 'dall-e-3', prompt: 'a cat', ...inside });
    expect(cat.data).toEqual([{ b64_json: other.toString('base64') }]);
    const dog = await images.generate({ model: 'dall-e-3', prompt: 'a dog' });
    const bytes = await (await fetch(dog.data?.[0]?.url ?? '')).arrayBuffer();
    expect(Buffer.from(bytes)).toEqual(picture);
  });

  test('speech comes as bytes of the format that was asked for', async () => {
    await upstream.script([{ when: { task: 'speech', last_user: '^hello$' }, reply: {} }]);
    const { speech } = openai[vendor].audio;
    const asked = { model: 'gpt-4o-mini-tts', voice: 'alloy', input: 'hello' };
    const formats = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'] as const;
    for (const response_format of formats) {
      const answer = await speech.create({ ...asked, response_format });
      expect(Buffer.from(await answer.arrayBuffer())).toEqual(sounds[response_format]?.bytes);
      expect(answer.headers.get('content-type')).toBe(sounds[response_format]?.type);
    }
  });

  test('what was said comes back in words, with what it cost', async () => {
    await upstream.script([{ when: { task: 'transcription' }, reply: { text: 'good morning' } }]);
    const file = await toFile(wav, 'said.wav', { type: 'audio/wav' });
    const answer = await openai[vendor].audio.transcriptions.create({ file, model: 'gpt-4o-transcribe' });
    expect(answer).toMatchObject({ text: 'good morning', usage: { type: 'tokens', output_tokens: 2 } });
    const { body } = await upstream.latest(() => true);
    expect(body).toMatchObject({ file: { name: 'said.wav', type: 'audio/wav', size: wav.length } });
  });

  test('a picture that is refused is a bad request of a code of its own', async () => {
    await upstream.script([{ reply: { stop_reason: 'refusal' } }]);
    const error = await openai[vendor].images.generate({ model, prompt: 'x' }).catch((it: unknown) => it);
    expect(error).toMatchObject({ status: 400, code: 'moderation_blocked' });
  });
});

test('older models tell how long a sound is, and where each part of it stands', async () => {
  await upstream.script([{ reply: { text: 'good morning' } }]);
  const file = await toFile(wav, 'said.wav');
  const verbose = { file, model: 'whisper-1', response_format: 'verbose_json' as const }; // Narrows the literal.
  const answer = await openai.openai.audio.transcriptions.create({ ...verbose, language: 'de' });
  expect(answer).toMatchObject({ duration: 2, language: 'german', segments: [{ text: 'good morning' }] });
});

test.each([
  ['a size that the model does not make', '/images/generations', { prompt: 'x', size: '10x10' }, 'size'],
  [
    'a newer model that is told where to put the picture',
    '/images/generations',
    { prompt: 'x', response_format: 'url' },
    'response_format',
  ],
  ['a field that there is not', '/images/generations', { prompt: 'x', colour: 'red' }, 'colour'],
  ['speech without words', '/audio/speech', { model: 'tts-1', voice: 'alloy', input: '' }, 'input'],
  [
    'a format that there is not',
    '/audio/speech',
    { model: 'tts-1', voice: 'alloy', input: 'x', response_format: 'midi' },
    'response_format',
  ],
])('%s is refused', async (_what, path, body, param) => {
  const answer = await fetch(`${upstream.url}/v1${path}`, {
    method: 'POST',
    headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  expect(answer.status).toBe(400);
  expect(await answer.json()).toMatchObject({ error: { param } });
});

test('a sound whose name tells no format is refused, and a newer model tells no places', async () => {
  const { transcriptions } = openai.openai.audio;
  const model = 'gpt-4o-transcribe';
  await expect(transcriptions.create({ file: await toFile(wav, 'said.txt'), model })).rejects.toMatchObject({
    status: 400,
    param: 'file',
  });
  const file = await toFile(wav, 'said.wav');
  await expect(transcriptions.create({ file, model, response_format: 'verbose_json' })).rejects.toMatchObject(
    { status: 400, param: 'response_format' },
  );
});

describe.each(['gemini', 'vertex'] as const)('%s', (vendor) => {
  const ask = (model: string, contents: string | object[], config: object) =>
    google[vendor].models.generateContent({ model, contents: contents as string, config }); // the SDK takes both

  test('a picture and a sound are parts of an answer', async () => {
    await upstream.script([
      { when: { task: 'image', last_user: 'cat' }, reply: { usage: { input: 3, output: 1290 } } },
      { when: { task: 'speech' }, reply: {} },
    ]);
    const image = await ask('gemini-2.5-flash-image', 'a cat', {
      responseModalities: [Modality.IMAGE],
      imageConfig: { aspectRatio: '16:9' },
    });
    expect(image.data).toBe(picture.toString('base64'));
    expect(image.usageMetadata).toMatchObject({ promptTokenCount: 3, candidatesTokenCount: 1290 });
    const sound = await ask('gemini-2.5-flash-preview-tts', 'hello', {
      responseModalities: [Modality.AUDIO],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
    });
    expect(sound.data).toBe(samples.toString('base64'));
  });

  test('a model that transcribes wants a sound', async () => {
    await upstream.script([{ when: { task: 'transcription' }, reply: { text: 'good morning' } }]);
    const data = wav.toString('base64');
    const heard = [{ role: 'user', parts: [{ inlineData: { mimeType: 'audio/wav', data } }] }];
    const config = { audioTranscriptionConfig: { languageCodes: ['de'] } };
    const answer = await ask('gemini-3.5-transcribe', heard, config);
    expect(answer.candidates?.[0]?.content?.parts).toMatchObject([
      { audioTranscription: { text: 'good morning' } },
    ]);
    await expect(ask('gemini-3.5-transcribe', 'hello', {})).rejects.toMatchObject({ status: 400 });
  });
});

test('Google’s interactions transcribe, too', async () => {
  await upstream.script([{ when: { task: 'transcription' }, reply: { text: 'good morning' } }]);
  const answer = await google.gemini.interactions.create({
    model: 'gemini-3.5-transcribe',
    input: [{ type: 'audio', data: wav.toString('base64'), mime_type: 'audio/wav' }],
    generation_config: { transcription_config: { language_codes: ['de'] } },
  });
  expect(answer).toMatchObject({
    status: 'completed',
    steps: [{ type: 'model_output', content: [{ type: 'text', text: 'good morning' }] }],
  });
});
