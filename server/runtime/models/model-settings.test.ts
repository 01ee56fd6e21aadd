/** What the settings say of models and providers, as it goes over the wire to the scripted upstream. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { ClientConfig, Provider, ProviderModel } from '../../contract/config.ts';
import { createLog } from '../../log.ts';
import { providerTypes as all, isGoogles, placeOf, type TestedType } from '../providers/test-providers.ts';
import { createRuntime, type Generation, type Runtime } from '../runtime.ts';
import { testQuery } from '../test-query.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

beforeEach(async () => {
  await upstream.script([{ reply: { text: 'Hello.' } }]);
});

type Type = TestedType;
type Large = NonNullable<NonNullable<ClientConfig['models']>['large']>;

function configOf(
  type: Type,
  model: Partial<ProviderModel>,
  provider: Provider,
  large?: Partial<Large>,
): ClientConfig {
  const reached = { type, ...placeOf(type, upstream.url) };
  return {
    providers: { house: { ...reached, models: [{ id: 'scripted-1', ...model }], ...provider } },
    ...(large && { models: { large: { provider: 'house', model: 'scripted-1', ...large } } }),
  };
}

async function run(runtime: Runtime, generation?: Generation): Promise<void> {
  const { runId } = await runtime.start(testQuery('Hi', generation && { generation }));
  const follow = { after: 0, follow: true, signal: AbortSignal.timeout(50_000) };
  for await (const event of runtime.follow(runId, follow)) if (event.name === 'done') return;
}

/** The last request that a query makes under these settings. */
async function sent(config: ClientConfig, generation?: Generation) {
  const runtime = await createRuntime(config, { log: createLog('silent') });
  try {
    await run(runtime, generation);
    return await upstream.latest(() => true);
  } finally {
    await runtime.close();
  }
}

async function bodyOf(config: ClientConfig, generation?: Generation): Promise<Record<string, unknown>> {
  return (await sent(config, generation)).body as Record<string, unknown>; // the upstream has checked that it is one
}

const chosen = (type: Type, large: Partial<Large>, model: Partial<ProviderModel> = {}) =>
  bodyOf(configOf(type, model, {}, large));
const listed = (type: Type, model: Partial<ProviderModel>, large?: Partial<Large>) =>
  bodyOf(configOf(type, model, {}, large));
const openAi = ['openai', 'openai-compat', 'azure'] as const;

/** The names of Google's API, which keeps them in an object of their own. */
const googleNames: Readonly<Record<string, string>> = {
  max_tokens: 'maxOutputTokens',
  temperature: 'temperature',
  top_p: 'topP',
  top_k: 'topK',
};

/** Settings as they go over the wire. */
function wired(type: Type, settings: Readonly<Record<string, number>>): object {
  if (!isGoogles(type)) return settings;
  const entries = Object.entries(settings).map(([name, value]) => [googleNames[name], value]);
  return { generationConfig: Object.fromEntries(entries) };
}

describe('the large model of the settings', () => {
  test('`models.large.model` and `models.large.provider` are asked where a query names no model', async () => {
    const config = configOf('openai-compat', {}, {}, { model: 'another' });
    const first = { ...config.providers?.house, base_url: 'http://127.0.0.1:9/v1' };
    expect(await bodyOf({ ...config, providers: { first, ...config.providers } })).toMatchObject({
      model: 'another',
    });
  });

  test.each(all)('`models.large.max_tokens` limits the answer (%s)', async (type) => {
    expect(await chosen(type, { max_tokens: 777 })).toMatchObject(wired(type, { max_tokens: 777 }));
  });

  test.each(all)('`models.large.temperature` is sent, 0 as well (%s)', async (type) => {
    expect(await chosen(type, { temperature: 0 })).toMatchObject(wired(type, { temperature: 0 }));
  });

  test.each(all)('`models.large.top_p` is sent (%s)', async (type) => {
    expect(await chosen(type, { top_p: 0.25 })).toMatchObject(wired(type, { top_p: 0.25 }));
  });

  test.each(['anthropic', 'openai-compat', 'gemini', 'vertexai'] as const)(
    '`models.large.top_k` is sent to %s',
    async (type) => {
      expect(await chosen(type, { top_k: 7 })).toMatchObject(wired(type, { top_k: 7 }));
    },
  );

  test.each(['openai', 'azure'] as const)(
    '`models.large.top_k` is not sent to OpenAI’s own models, which refuse it (%s)',
    async (type) => {
      expect(await chosen(type, { top_k: 7 })).not.toHaveProperty('top_k');
    },
  );

  test.each(openAi)('`models.large.frequency_penalty` is sent (%s)', async (type) => {
    expect(await chosen(type, { frequency_penalty: 0.5 })).toMatchObject({ frequency_penalty: 0.5 });
  });

  test.each(openAi)('`models.large.presence_penalty` is sent (%s)', async (type) => {
    expect(await chosen(type, { presence_penalty: -0.5 })).toMatchObject({ presence_penalty: -0.5 });
  });

  test.each(openAi)('`models.large.reasoning_effort` is sent (%s)', async (type) => {
    expect(await chosen(type, { reasoning_effort: 'low' })).toMatchObject({ reasoning_effort: 'low' });
  });

  test('`models.large.think` lets Anthropic think, within the limit of the answer', async () => {
    expect(await chosen('anthropic', { think: true, max_tokens: 8000 })).toMatchObject({
      max_tokens: 8000,
      thinking: { type: 'enabled', budget_tokens: 4000 },
    });
    const unlimited = await chosen('anthropic', { think: true });
    expect(unlimited).toMatchObject({ thinking: { type: 'enabled', budget_tokens: 4096 } });
    expect(unlimited.max_tokens).toBeGreaterThan(4096);
    expect(await chosen('anthropic', { think: true, max_tokens: 1500 })).toMatchObject({
      max_tokens: 1500,
      thinking: { budget_tokens: 1024 },
    });
  });

  test.each([{ think: false }, {}, { think: true, max_tokens: 1024 }])(
    '`models.large.think` is off where it is not wanted, or has no room: %o',
    async (large) => {
      expect(await chosen('anthropic', large)).not.toHaveProperty('thinking');
    },
  );

  test.each([
    ['openai', { service_tier: 'flex' }],
    ['openai-compat', { service_tier: 'flex', seed: 5 }],
    ['anthropic', { service_tier: 'standard_only' }],
    ['azure', { user: 'me' }],
    ['gemini', { serviceTier: 'flex' }],
    ['vertexai', { labels: { team: 'blue' } }],
  ] as const)('`models.large.provider_options` are sent as they are (%s)', async (type, options) => {
    expect(await chosen(type, { provider_options: options })).toMatchObject(options);
  });

  test('`models.large.provider_options` say nothing that the request says itself', async () => {
    const options = {
      model: 'evil',
      messages: [],
      tools: [],
      system: 'Obey.',
      temperature: 2,
      stream: false,
    };
    const body = await chosen('openai', { temperature: 0.5, provider_options: options });
    expect(body).toMatchObject({ model: 'scripted-1', temperature: 0.5, stream: true });
    expect(body).not.toHaveProperty('system');
    expect(JSON.stringify(body.messages)).toContain('Hi');
  });

  test('does not shape a query that brings its own settings', async () => {
    const config = configOf('openai', {}, {}, { temperature: 0.5 });
    expect(await bodyOf(config, { maxTokens: 9 })).not.toHaveProperty('temperature');
  });
});

describe('a provider of the settings', () => {
  const asked = (provider: Provider, type: Type = 'openai-compat') => sent(configOf(type, {}, provider));

  test('`providers.*.base_url` and `providers.*.api_key` say where it is asked, and with what', async () => {
    const { headers, path } = await asked({});
    expect(headers.authorization).toBe('Bearer test-key');
    expect(path).toBe('/v1/chat/completions');
  });

  test.each([
    ['openai', '/v1/chat/completions'],
    ['vendor-a-compat', '/v1/chat/completions'],
    ['vendor-b', '/v1/messages'],
    ['vendor-c', '/v1beta/models/scripted-1:streamGenerateContent?alt=sse'],
    ['vendor-d', '/openai/v1/chat/completions'],
    ['vendor-e', '/v1/publishers/google/models/scripted-1:streamGenerateContent?alt=sse'],
  ] as const)('`providers.*.type` says which API is spoken: %s', async (type, path) => {
    const base_url = upstream.url + (path.startsWith('/v1/') ? '/v1' : '');
    expect((await asked({ type, base_url })).path).toBe(path);
  });

  test.each(['azure', 'vertexai'] as const)(
    'of the type %s is not made without its address',
    async (type) => {
      const { base_url: _none, ...house } = configOf(type, {}, {}).providers?.house ?? {};
      await expect(createRuntime({ providers: { house } }, { log: createLog('silent') })).rejects.toThrow(
        `providers.house: a provider of the type ${type} needs a base_url`,
      );
    },
  );

  test.each(all)('`providers.*.extra_headers` are sent (%s)', async (type) => {
    const { headers } = await asked({ extra_headers: { 'X-Team': 'blue' } }, type);
    expect(headers['x-team']).toBe('blue');
  });

  test.each(all)(
    '`providers.*.extra_body` is added where servers imitate OpenAI, and nowhere else (%s)',
    async (type) => {
      const { body } = await asked({ extra_body: { user: 'me' } }, type);
      if (type === 'openai-compat') expect(body).toMatchObject({ user: 'me' });
      else expect(body).not.toHaveProperty('user');
    },
  );

  test.each(all)('`providers.*.provider_options` are added to each request (%s)', async (type) => {
    expect((await asked({ provider_options: { service_tier: 'auto' } }, type)).body).toMatchObject({
      service_tier: 'auto',
    });
  });

  test.each(all)('`providers.*.system_prompt_prefix` stands before the system prompt (%s)', async (type) => {
    const { body } = await asked({ system_prompt_prefix: 'Answer in rhymes.' }, type);
    expect(JSON.stringify(body)).toMatch(/"Answer in rhymes\.\\n\w/);
  });

  test('`providers.*.disable` leaves it out', async () => {
    const runtime = await createRuntime(configOf('openai', {}, { disable: true }), {
      log: createLog('silent'),
    });
    expect(runtime.providers).toEqual([]);
    await runtime.close();
  });

  test.each(all)(
    '`providers.*.oauth.access_token` opens it in place of a key while it lasts (%s)',
    async (type) => {
      const { api_key: _none, ...house } = configOf(type, {}, {}).providers?.house ?? {};
      const token = { access_token: 'a-token', expires_in: 3600 };
      const opened = (expires_at: number) => ({
        providers: { house: { ...house, oauth: { ...token, expires_at } } },
      });
      expect((await sent(opened(4_000_000_000))).headers.authorization).toBe('Bearer a-token');
      const runtime = await createRuntime(opened(1), { log: createLog('silent') });
      await run(runtime);
      await runtime.close();
      expect(await upstream.requests()).toHaveLength(1);
    },
  );

  test('of a program that embeds the runtime is taken literally', async () => {
    const { headers } = await asked({ api_key: '$HOME$(id)' });
    expect(headers.authorization).toBe('Bearer $HOME$(id)');
  });
});

describe('a model that a provider lists', () => {
  test.each(all)('`providers.*.models[].default_max_tokens` limits the answer (%s)', async (type) => {
    const model = { default_max_tokens: 333 };
    expect(await listed(type, model)).toMatchObject(wired(type, { max_tokens: 333 }));
    expect(await listed(type, model, { max_tokens: 44 })).toMatchObject(wired(type, { max_tokens: 44 }));
  });

  const options = { temperature: 0.25, top_p: 0.5, frequency_penalty: 0.75, presence_penalty: 1 };

  test.each(openAi)(
    '`providers.*.models[].options` are sent unless the chosen model has its own (%s)',
    async (type) => {
      const own = type === 'openai-compat' ? { ...options, top_k: 3 } : options;
      expect(await listed(type, { options: own })).toMatchObject(own);
      expect(await listed(type, { options }, { temperature: 0 })).toMatchObject({
        ...options,
        temperature: 0,
      });
    },
  );

  test('`providers.*.models[].options` count for queries that bring some of their own', async () => {
    const config = configOf('anthropic', { options: { top_k: 3, temperature: 0.25 } }, {});
    expect(await bodyOf(config, { maxTokens: 9, temperature: 1 })).toMatchObject({
      max_tokens: 9,
      top_k: 3,
      temperature: 1,
    });
  });

  test('`providers.*.models[].options.temperature`, `providers.*.models[].options.top_p` and `providers.*.models[].options.top_k` are sent with each query', async () => {
    const options = { temperature: 0.25, top_p: 0.5, top_k: 3 };
    expect(await listed('openai-compat', { options })).toMatchObject(options);
    expect(await listed('openai-compat', { options }, { top_p: 0.75 })).toMatchObject({
      ...options,
      top_p: 0.75,
    });
  });

  test('`providers.*.models[].options.frequency_penalty` and `providers.*.models[].options.presence_penalty` are sent with each query', async () => {
    const options = { frequency_penalty: 0.5, presence_penalty: 0.25 };
    expect(await listed('openai', { options })).toMatchObject(options);
  });

  test('`providers.*.models[].options.provider_options` go before those of the provider', async () => {
    const provider = { provider_options: { service_tier: 'auto', user: 'me' } };
    const model = { options: { provider_options: { service_tier: 'flex' } } };
    expect(await bodyOf(configOf('openai', model, provider))).toMatchObject({
      service_tier: 'flex',
      user: 'me',
    });
    const large = { provider_options: { service_tier: 'default' } };
    expect(await bodyOf(configOf('openai', model, provider, large))).toMatchObject({
      service_tier: 'default',
    });
  });

  test.each(openAi)(
    '`providers.*.models[].default_reasoning_effort` is sent where the model can reason (%s)',
    async (type) => {
      const model = { default_reasoning_effort: 'high' };
      expect(await listed(type, { ...model, can_reason: true })).toMatchObject({ reasoning_effort: 'high' });
      expect(await listed(type, model)).not.toHaveProperty('reasoning_effort');
    },
  );

  test('`providers.*.models[].can_reason` false keeps every effort and every thought away', async () => {
    const model = { can_reason: false, default_reasoning_effort: 'high' };
    expect(await listed('openai', model, { reasoning_effort: 'low' })).not.toHaveProperty('reasoning_effort');
    expect(await listed('anthropic', model, { think: true })).not.toHaveProperty('thinking');
  });

  test('`providers.*.models[].reasoning_levels` are the only ones that are sent', async () => {
    const model = {
      can_reason: true,
      reasoning_levels: ['minimal', 'low'],
      default_reasoning_effort: 'minimal',
    };
    expect(await listed('openai', model, { reasoning_effort: 'low' })).toMatchObject({
      reasoning_effort: 'low',
    });
    expect(await listed('openai', model, { reasoning_effort: 'high' })).toMatchObject({
      reasoning_effort: 'minimal',
    });
  });
});

test('a thought that led to a tool call goes back to Anthropic with its signature', async () => {
  const call = { name: 'ls', arguments: {} };
  await upstream.script([
    { when: { step: 0 }, reply: { reasoning: 'Let me look.', tool_calls: [call] } },
    { when: { step: 1 }, reply: { tool_calls: [call] } },
    { reply: { text: 'Done.' } },
  ]);
  const body = await chosen('anthropic', { think: true, max_tokens: 8000 });
  expect(body).toMatchObject({
    thinking: { type: 'enabled' },
    messages: [
      { role: 'user' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Let me look.', signature: expect.any(String) },
          { type: 'tool_use' },
        ],
      },
      { role: 'user' },
      { role: 'assistant', content: [{ type: 'tool_use' }] },
      { role: 'user' },
    ],
  });
});

test('where a thought is lost, Anthropic is not asked to think: it would refuse the rest of the conversation', async () => {
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [{ name: 'ls', arguments: {} }] } },
    { reply: { text: 'Done.' } },
  ]);
  const body = await chosen('anthropic', { think: true, max_tokens: 8000 });
  expect(body).toMatchObject({ max_tokens: 8000 });
  expect(body).not.toHaveProperty('thinking');
});
