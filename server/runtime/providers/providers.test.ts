/** How a model is found by its name, and how its provider is connected to. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { Model } from '../models/model.ts';
import { createProviders, type ProviderDefinition } from './providers.ts';
import { answerOf, definitionOf, openDefined, operatorFetch, request, textOf } from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

test('an answer is complete when its vendor says so, though the connection stays open', async () => {
  await upstream.script([{ reply: { text: 'All of it.' }, fail: { kind: 'hang', after_chunks: 1000 } }]);
  const parts = await answerOf(openDefined(definitionOf('anthropic', upstream), 2000), request('Hi'));
  expect(textOf(parts)).toBe('All of it.');
  expect(parts.at(-1)).toMatchObject({ type: 'finish', stopReason: 'end_turn' });
  await upstream.latest(({ outcome }) => outcome === 'aborted');
});

describe('files', () => {
  const shown = (mediaType: string) =>
    request('', { messages: [{ role: 'user', parts: [{ type: 'file', mediaType, data: 'AAAA' }] }] });
  beforeEach(() => upstream.script([{ reply: { text: 'I see.' } }]));

  test('`providers.*.models[].supports_attachments` false keeps pictures and documents from the model', async () => {
    const opened = (supports_attachments: boolean) => {
      const settings = { id: 'scripted-1', supports_attachments };
      return openDefined(definitionOf('openai', upstream, { models: [{ id: 'scripted-1', settings }] }));
    };
    await expect(answerOf(opened(false), shown('image/png'))).rejects.toMatchObject({
      code: 'provider_refused',
      remedy: 'replace',
      message: expect.stringContaining('openai:scripted-1 cannot be shown pictures'),
    });
    expect(textOf(await answerOf(opened(false), request('Hi')))).toBe('I see.');
    expect(textOf(await answerOf(opened(true), shown('image/png')))).toBe('I see.');
    expect(await upstream.requests()).toHaveLength(2);
  });

  test.each(['openai', 'anthropic', 'azure'] as const)(
    'of a kind that the vendor has no word for are refused before anything is sent (%s)',
    async (type) => {
      const answer = answerOf(openDefined(definitionOf(type, upstream)), shown('video/mp4'));
      await expect(answer).rejects.toMatchObject({ code: 'provider_request_refused', remedy: 'reword' });
      expect(await upstream.requests()).toEqual([]);
    },
  );
});

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
  return createProviders({
    definitions: given,
    defaultModel,
    demo,
    timeouts: { silenceMs: 1000 },
    fetch: operatorFetch,
  });
}

function connecting(connect: ProviderDefinition['connect']): Model {
  return openDefined(definitionOf('openai', upstream, { connect }));
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
    for (let step = 0; step < 3; step += 1) await answerOf(model, request('Hi'));
    expect(connects).toBe(1);
  });

  test('and refused without the words of its settings where they cannot be used', async () => {
    const model = connecting(async () => {
      throw new Error('canary: $SECRET is not set');
    });
    const failed = answerOf(model, request('Hi'));
    await expect(failed).rejects.toMatchObject({ code: 'provider_refused' });
    await expect(failed).rejects.not.toThrow('canary');
  });

  test('and refused alike where the address in its settings is none', async () => {
    const connect = async () => ({ baseUrl: 'canary', apiKey: 'k' });
    const failed = answerOf(openDefined(definitionOf('azure', upstream, { connect })), request('Hi'));
    await expect(failed).rejects.toMatchObject({ code: 'provider_refused', remedy: 'replace' });
    await expect(failed).rejects.not.toThrow('canary');
  });

  test('anew where it refuses a key that has been replaced meanwhile', async () => {
    const keys = ['old-key', 'new-key'];
    await upstream.script([
      { when: { api_key: 'old-key' }, fail: { kind: 'status', status: 401 } },
      { reply: { text: 'Hello.' } },
    ]);
    const model = connecting(async () => ({ ...connection, apiKey: keys.shift() ?? 'new-key' }));
    expect(textOf(await answerOf(model, request('Hi')))).toBe('Hello.');
    expect(await upstream.requests()).toHaveLength(2);
  });

  test('no second time where the same key would be refused again', async () => {
    await upstream.script([{ fail: { kind: 'status', status: 401 } }]);
    let connects = 0;
    const model = connecting(async () => {
      connects += 1;
      return { ...connection };
    });
    const failed = answerOf(model, request('Hi'));
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
    expect(await answerOf(model, request('Hi'), controller.signal)).toEqual([]);
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
