/** Which providers settings and environment yield, and how they are reached. */
import { describe, expect, test } from 'vitest';
import type { ClientConfig, Provider } from '../contract/config.ts';
import { type ProviderCandidate, resolveProviders } from './providers.ts';
import { ExpansionError } from './variables.ts';

const local = { type: 'openai-compat', base_url: 'http://127.0.0.1:8000/v1' } as const;

function ids({ candidates }: { candidates: readonly ProviderCandidate[] }): string[] {
  return candidates.map(({ id }) => id);
}

function one(
  provider: Provider,
  environment: Record<string, string> = {},
  id = 'gateway',
): ProviderCandidate {
  const [candidate] = resolveProviders({ providers: { [id]: provider } }, environment).candidates;
  if (!candidate) throw new Error('the provider was left out');
  return candidate;
}

function refusal(provider: Provider, options: ClientConfig['options'] = {}, id = 'gateway'): string {
  const { candidates, diagnostics } = resolveProviders({ providers: { [id]: provider }, options }, {});
  expect(candidates).toEqual([]);
  expect(diagnostics).toHaveLength(1);
  expect(diagnostics[0]).toMatchObject({ severity: 'warning', pointer: `/providers/${id}` });
  return `${diagnostics[0]?.message}. ${diagnostics[0]?.remedy}`;
}

describe('the order', () => {
  test('settings come first, as they are written, then the environment', () => {
    const config = { providers: { zebra: local, anthropic: { api_key: 'k' }, alpha: local } };
    const found = resolveProviders(config, { OPENAI_API_KEY: 'o', ANTHROPIC_API_KEY: 'a' });
    expect(found.candidates.map(({ id, origin }) => `${id} ${origin}`)).toEqual([
      ...['zebra settings', 'anthropic settings', 'alpha settings', 'openai environment'],
    ]);
    expect(found.diagnostics).toEqual([]);
  });

  test('without settings the environment alone counts, OpenAI first', () => {
    expect(ids(resolveProviders({}, { ANTHROPIC_API_KEY: 'a', OPENAI_API_KEY: 'o' }))).toEqual([
      'openai',
      'anthropic',
    ]);
    expect(ids(resolveProviders({}, { ANTHROPIC_API_KEY: 'a', OPENAI_API_KEY: '' }))).toEqual(['anthropic']);
    expect(ids(resolveProviders({}, {}))).toEqual([]);
  });

  test('a provider disabled in the settings does not come back from the environment', () => {
    const config = { providers: { openai: { disable: true }, gone: { ...local, disable: true } } };
    expect(resolveProviders(config, { OPENAI_API_KEY: 'o' })).toEqual({ candidates: [], diagnostics: [] });
  });

  test('ids that every object has are ordinary ids', () => {
    expect(ids(resolveProviders({ providers: { constructor: local, toString: local } }, {}))).toEqual([
      ...['constructor', 'toString'],
    ]);
  });
});

describe('a provider from the environment', () => {
  test('is reached at the vendor’s address with the key', () => {
    const [openai, anthropic] = resolveProviders(
      {},
      { OPENAI_API_KEY: 'o', ANTHROPIC_API_KEY: 'a' },
    ).candidates;
    expect(openai).toMatchObject({ id: 'openai', name: 'OpenAI', type: 'openai', origin: 'environment' });
    expect(openai?.connect()).toEqual({ baseUrl: 'https://api.openai.com/v1', apiKey: 'o' });
    expect(anthropic).toMatchObject({ id: 'anthropic', name: 'Anthropic', type: 'anthropic' });
    expect(anthropic?.connect()).toEqual({ baseUrl: 'https://api.anthropic.com/v1', apiKey: 'a' });
    expect(openai?.models).toHaveLength(1);
    expect(anthropic?.models).toHaveLength(1);
  });

  test('is reached elsewhere where the vendor’s variable says so, with or without the version', () => {
    const at = (url: string) => {
      const environment = { ANTHROPIC_API_KEY: 'a', ANTHROPIC_BASE_URL: url };
      return resolveProviders({}, environment).candidates[0]?.connect().baseUrl;
    };
    expect(at('http://127.0.0.1:9000')).toBe('http://127.0.0.1:9000/v1');
    expect(at('http://127.0.0.1:9000/v1/')).toBe('http://127.0.0.1:9000/v1');
    const environment = { OPENAI_API_KEY: 'o', OPENAI_BASE_URL: 'http://127.0.0.1:9000/api' };
    expect(resolveProviders({}, environment).candidates[0]?.connect().baseUrl).toBe(
      'http://127.0.0.1:9000/api',
    );
  });

  test('is not read as a template: a key may hold a dollar sign', () => {
    const [openai] = resolveProviders({}, { OPENAI_API_KEY: 'a$(b)$NAME' }).candidates;
    expect(openai?.connect().apiKey).toBe('a$(b)$NAME');
  });

  test('is left out with a warning where its address is no URL', () => {
    const { candidates, diagnostics } = resolveProviders(
      {},
      { OPENAI_API_KEY: 'o', OPENAI_BASE_URL: 'file:///etc' },
    );
    expect(candidates).toEqual([]);
    expect(diagnostics).toMatchObject([{ pointer: '/providers/openai', severity: 'warning' }]);
  });
});

describe('a provider of the settings', () => {
  test('has all that it is given', () => {
    const candidate = one(
      {
        ...local,
        name: 'Our gateway',
        api_key: '$KEY',
        system_prompt_prefix: 'Be brief.',
        extra_headers: { 'X-Team': '$TEAM', 'X-None': '$NONE', 'X-Fixed': 'yes' },
        extra_body: { safe: true },
        provider_options: { store: false },
        models: [
          { id: 'a', name: 'A', context_window: 1000, default_max_tokens: 100 },
          { id: 'b', context_window: 0 },
          { id: 'a', name: 'Second' },
        ],
      },
      { KEY: ' secret\n', TEAM: 'blue' },
    );
    expect(candidate).toMatchObject({
      id: 'gateway',
      name: 'Our gateway',
      type: 'openai-compat',
      origin: 'settings',
      systemPromptPrefix: 'Be brief.',
      providerOptions: { store: false },
    });
    expect(candidate.models).toEqual([
      { id: 'a', name: 'A', contextWindow: 1000, maxOutputTokens: 100 },
      { id: 'b', name: 'b' },
    ]);
    expect(candidate.connect()).toEqual({
      baseUrl: 'http://127.0.0.1:8000/v1',
      apiKey: 'secret',
      headers: { 'X-Team': 'blue', 'X-Fixed': 'yes' },
      extraBody: { safe: true },
    });
  });

  test('is resolved at the moment of use, so that a changed variable counts', () => {
    const environment: Record<string, string> = { KEY: 'first' };
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the template is not JavaScript's.
    const candidate = one({ ...local, api_key: '${KEY:?}' }, environment);
    expect(candidate.connect().apiKey).toBe('first');
    environment.KEY = 'second';
    expect(candidate.connect().apiKey).toBe('second');
    delete environment.KEY;
    expect(() => candidate.connect()).toThrow(ExpansionError);
  });

  test('keeps no secret that could be printed', () => {
    const candidate = one({ ...local, api_key: '$KEY' }, { KEY: 'hunter2' });
    expect(JSON.stringify(candidate)).not.toContain('hunter2');
  });

  test('completes a built-in provider: address, type and key', () => {
    expect(one({}, { ANTHROPIC_API_KEY: 'a' }, 'anthropic')).toMatchObject({
      type: 'anthropic',
      name: 'Anthropic',
    });
    expect(one({ name: 'Mine' }, { OPENAI_API_KEY: 'o' }, 'openai').connect()).toEqual({
      baseUrl: 'https://api.openai.com/v1',
      apiKey: 'o',
    });
  });

  test('of a type other than the built-in one only shares its id', () => {
    const candidate = one(local, { OPENAI_API_KEY: 'o' }, 'openai');
    expect(candidate.connect()).toEqual({ baseUrl: 'http://127.0.0.1:8000/v1' });
  });

  test('takes an alias for its type', () => {
    expect(one({ ...local, type: 'vendor-a-compat' }).type).toBe('openai-compat');
    expect(one({ type: 'vendor-b', base_url: 'http://127.0.0.1:1', api_key: 'k' }).type).toBe('anthropic');
    expect(one({ base_url: 'http://127.0.0.1:1', api_key: 'k' }).type).toBe('openai');
  });

  test('needs no key where it imitates OpenAI, and may list no models', () => {
    const candidate = one(local);
    expect(candidate.connect()).toEqual({ baseUrl: 'http://127.0.0.1:8000/v1' });
    expect(candidate.models).toEqual([]);
  });

  test('is told that extra_body has no effect for its type, and is used without it', () => {
    const provider = { base_url: 'http://127.0.0.1:1', api_key: 'k', extra_body: { x: 1 } };
    const { candidates, diagnostics } = resolveProviders({ providers: { gateway: provider } }, {});
    expect(candidates[0]?.connect()).toEqual({ baseUrl: 'http://127.0.0.1:1', apiKey: 'k' });
    expect(diagnostics).toMatchObject([{ severity: 'warning', pointer: '/providers/gateway/extra_body' }]);
  });
});

describe('a provider is left out with a warning', () => {
  test.each(['gemini', 'azure', 'vertexai'] as const)('where its type is %s', (type) => {
    expect(refusal({ type, base_url: 'http://127.0.0.1:1', api_key: 'k' })).toContain(
      `The type ${type} is not available in this version`,
    );
  });

  test('where it is not built in and has no base_url', () => {
    expect(refusal({ api_key: 'k' })).toContain('needs a base_url');
  });

  test('where the base_url is no URL once it is expanded', () => {
    expect(refusal({ ...local, base_url: '$NOWHERE' })).toContain('no http or https URL');
    expect(refusal({ ...local, base_url: 'ftp://127.0.0.1' })).toContain('no http or https URL');
  });

  test('where the vendor demands a key and there is none', () => {
    expect(refusal({ api_key: '$MY_KEY' }, {}, 'openai')).toBe('The provider has no API key. Set "$MY_KEY".');
    expect(refusal({}, {}, 'anthropic')).toBe('The provider has no API key. Set "$ANTHROPIC_API_KEY".');
    const oauth = { access_token: 't', expires_in: 1, expires_at: 1 };
    expect(refusal({ oauth }, {}, 'anthropic')).toContain('An oauth token is not used in this version.');
  });

  test('where a command stands in its key, which is shown and not run', () => {
    expect(refusal({ ...local, api_key: '$(touch /tmp/never)' })).toContain(
      '"$(touch /tmp/never)" has no value',
    );
  });

  test('where a header would break the request, without showing its value', () => {
    const provider = { ...local, extra_headers: { 'X-Key': '$KEY' } };
    const { diagnostics } = resolveProviders(
      { providers: { gateway: provider } },
      { KEY: 'hunter2\nEvil: yes' },
    );
    expect(diagnostics[0]?.message).toContain('"X-Key" of extra_headers');
    expect(JSON.stringify(diagnostics)).not.toContain('hunter2');
    expect(refusal({ ...local, extra_headers: { 'X Key': 'v' } })).toContain('is no HTTP header');
    expect(refusal({ ...local, api_key: 'sk-\u2013' })).toContain('no HTTP header may hold');
  });

  test('where its id could not be told from a model’s', () => {
    expect(refusal(local, {}, 'a:b')).toContain('no colon');
  });
});

describe('disable_default_providers', () => {
  const options = { disable_default_providers: true };

  test('drops the providers of the environment', () => {
    expect(resolveProviders({ options }, { OPENAI_API_KEY: 'o' })).toEqual({
      candidates: [],
      diagnostics: [],
    });
  });

  test('demands that the settings say everything', () => {
    expect(refusal({ api_key: 'k' }, options, 'openai')).toContain('needs base_url and models');
    expect(refusal({ ...local, models: [], api_key: 'k' }, options)).toContain('needs models');
    expect(refusal({ ...local, models: [{ id: 'm' }] }, options)).toContain('needs api_key');
    const provider = { ...local, models: [{ id: 'm' }], api_key: 'k' };
    expect(ids(resolveProviders({ options, providers: { gateway: provider } }, {}))).toEqual(['gateway']);
  });
});
