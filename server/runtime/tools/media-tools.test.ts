// The tools for pictures and sound, with models behind them that the scripted upstream plays.
import { existsSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { picture, sounds } from '../../../contract-tests/upstream/media-files.ts';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { ClientConfig } from '../../contract/config.ts';
import { createMedia } from '../providers/media.ts';
import { asked, definitionOf, operatorFetch } from '../providers/test-providers.ts';
import type { SpentByCall } from '../transcript.ts';
import { mediaTools } from './media-tools.ts';
import { callTool, testWorkspace, toolNamed } from './test-workspace.ts';
import type { FileChange } from './tool.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const own = { provider: 'openai' };
const usual: ClientConfig = { image_generation: own, text_to_speech: own, speech_to_text: own };

function toolsWith(config: ClientConfig = usual) {
  const media = createMedia({
    definitions: [definitionOf('openai', upstream)],
    timeouts: { silenceMs: 5000 },
    fetch: operatorFetch,
  });
  return mediaTools({ media, config, rules: { requireSandbox: true } });
}

const named = (name: string) =>
  toolNamed(
    toolsWith().map(({ tool }) => tool),
    name,
  );
const wav = sounds.wav?.bytes ?? Buffer.alloc(0);

/** A valid input of each, with the file that it is about. */
const inputs = (file_path: string) =>
  [
    ['generate_image', { prompt: 'a cat', file_path }],
    ['speak', { text: 'hello', file_path }],
    ['transcribe', { file_path }],
  ] as const;

test('each is there where its settings name somebody, and else says what is missing', () => {
  expect(toolsWith().map(({ tool, absence }) => [tool.name, absence])).toEqual([
    ['generate_image', null],
    ['speak', null],
    ['transcribe', null],
  ]);
  expect(toolsWith({}).map(({ absence }) => absence)).toEqual([
    'image_generation.provider is not set',
    'text_to_speech.provider is not set',
    'speech_to_text.provider is not set',
  ]);
  for (const { tool } of toolsWith()) {
    expect(tool).toMatchObject({ needsPermission: true, idempotent: false });
    expect(tool.inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
  }
});

test('a picture is saved in the workspace, recorded as a change, and counted', async () => {
  await upstream.script([{ when: { task: 'image' }, reply: { usage: { input: 3, output: 100 } } }]);
  const { context, path } = testWorkspace();
  const changes: FileChange[] = [];
  const spent: SpentByCall[] = [];
  const given = context({
    recordChange: async (change) => void changes.push(change),
    spent: async (spending) => void spent.push(spending),
  });
  const file_path = 'art/cat.png';
  const output = await callTool(
    named('generate_image'),
    { prompt: 'a cat', file_path, size: '1024x1024' },
    given,
  );
  expect(output).toMatchObject({ is_error: false, metadata: { path: file_path, type: 'image/png' } });
  expect(readFileSync(join(path, file_path))).toEqual(picture);
  expect(changes).toMatchObject([{ path: join(path, file_path), before: null }]);
  expect(spent).toMatchObject([{ model: 'openai:gpt-image-1', usage: { output_tokens: 100 } }]);
  expect((await asked(upstream)).at(-1)?.body).toMatchObject({ prompt: 'a cat', size: '1024x1024' });
});

test('a text is spoken as the call says', async () => {
  await upstream.script([{ when: { task: 'speech' }, reply: {} }]);
  const { context, path } = testWorkspace();
  const input = { text: 'hello', file_path: 'a.wav', format: 'wav', voice: 'nova', instructions: 'Whisper.' };
  expect((await callTool(named('speak'), input, context())).content).toContain('audio/wav');
  expect(readFileSync(join(path, 'a.wav'))).toEqual(wav);
  expect((await asked(upstream)).at(-1)?.body).toMatchObject({ voice: 'nova', instructions: 'Whisper.' });
});

test('what is said in a file is given, as far as a model can be shown it', async () => {
  await upstream.script([{ when: { task: 'transcription' }, reply: { text: 'la ', repeat: 50_000 } }]);
  const { context, file } = testWorkspace();
  file('song.wav', wav);
  const output = await callTool(named('transcribe'), { file_path: 'song.wav', language: 'it' }, context());
  expect(output.is_error).toBe(false);
  expect(output.content).toMatch(/^la la /);
  expect(output.content.length).toBeLessThan(100_100);
  expect(output.content).toContain('[The rest is left out.]');
  expect((await asked(upstream)).at(-1)?.body).toMatchObject({ language: 'it' });
});

describe('files', () => {
  test.each(['../outside/secret.txt', '/etc/passwd', 'link/x.png'])(
    '%s, outside of the workspace, is neither written nor sent',
    async (file_path) => {
      await upstream.script([{ reply: {} }]);
      const { context, path } = testWorkspace();
      symlinkSync(join(path, '..', 'outside'), join(path, 'link'));
      for (const [name, input] of inputs(file_path))
        await expect(callTool(named(name), input, context())).rejects.toThrow(/outside the workspace/);
      expect(await asked(upstream)).toEqual([]);
      expect(readdirSync(join(path, '..', 'outside'))).toEqual(['secret.txt']);
    },
  );

  test('settings files are protected, and what the session has not seen is not overwritten', async () => {
    await upstream.script([{ reply: {} }]);
    const { context, file } = testWorkspace();
    file('seen.png', 'somebody else’s');
    for (const [name, input] of inputs('.service/service.json').slice(0, 2))
      await expect(callTool(named(name), input, context())).rejects.toThrow(/protected/);
    for (const [name, input] of inputs('seen.png').slice(0, 2))
      await expect(callTool(named(name), input, context())).rejects.toThrow(/has not been viewed/);
    expect(await asked(upstream)).toEqual([]);
  });

  test('what is no sound is not sent', async () => {
    await upstream.script([{ reply: {} }]);
    const { context, file } = testWorkspace();
    file('notes.wav', 'the password is swordfish');
    await expect(callTool(named('transcribe'), { file_path: 'notes.wav' }, context())).rejects.toThrow(
      /no sound/,
    );
    expect(await asked(upstream)).toEqual([]);
  });
});

test('leave is asked by what is done and by whom, since it costs money', async () => {
  const { context, file, path } = testWorkspace();
  file('a.mp3', sounds.mp3?.bytes ?? '');
  const needs = await Promise.all(
    inputs('a.mp3').map(async ([name, input]) => {
      const file_path = name === 'transcribe' ? 'a.mp3' : 'b.mp3';
      const { permission } = await named(name).prepare({ ...input, file_path }, context());
      return permission;
    }),
  );
  expect(needs).toMatchObject([
    { action: 'execute', description: expect.stringContaining('openai:gpt-image-1'), path },
    { action: 'execute', description: expect.stringContaining('openai:gpt-4o-mini-tts'), path },
    { action: 'execute', description: expect.stringContaining('Send a.mp3 to openai:gpt-4o-mini-'), path },
  ]);
});

test('what the provider refuses is told to the model, and leaves no file', async () => {
  await upstream.script([{ reply: { stop_reason: 'refusal' } }]);
  const { context, path } = testWorkspace();
  const output = await callTool(named('generate_image'), { prompt: 'x', file_path: 'x.png' }, context());
  expect(output).toMatchObject({ is_error: true, content: expect.stringContaining('refused') });
  expect(existsSync(join(path, 'x.png'))).toBe(false);
});

test('a run that is interrupted ends the call of the provider', async () => {
  await upstream.script([{ fail: { kind: 'hang' } }]);
  const { context, path } = testWorkspace();
  const stopping = new AbortController();
  const call = callTool(
    named('speak'),
    { text: 'x', file_path: 'x.mp3' },
    context({ signal: stopping.signal }),
  );
  await upstream.latest(({ rule }) => rule !== null);
  stopping.abort();
  expect(await call).toMatchObject({ is_error: true, metadata: { interrupted: true } });
  await upstream.latest(({ outcome }) => outcome === 'aborted');
  expect(readdirSync(path)).toEqual([]);
});
