/** Which providers settings and environment yield, and how they are reached. */
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ClientConfig, Provider } from '../../contract/config.ts';
import { ExpansionError } from '../templates/expansion-error.ts';
import { type ProviderCandidate, resolveProviders } from './providers.ts';

const local = {
  type: 'openai-compat',
  base_url: 'http://127.0.0.1:8000/v1',
  models: [{ id: 'm' }],
} satisfies Provider;
const own = { base_url: 'http://127.0.0.1:1', api_key: 'k', models: [{ id: 'm' }] } satisfies Provider;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-providers-'));
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

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

  test('`providers.*.disable` leaves a provider out, and it does not come back from the environment', () => {
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
  test('is reached at the vendor’s address with the key', async () => {
    const [openai, anthropic] = resolveProviders(
      {},
      { OPENAI_API_KEY: 'o', ANTHROPIC_API_KEY: 'a' },
    ).candidates;
    expect(openai).toMatchObject({ id: 'openai', name: 'OpenAI', type: 'openai', origin: 'environment' });
    expect(await openai?.connect()).toEqual({ baseUrl: 'https://api.openai.com/v1', apiKey: 'o' });
    expect(anthropic).toMatchObject({ id: 'anthropic', name: 'Anthropic', type: 'anthropic' });
    expect(await anthropic?.connect()).toEqual({ baseUrl: 'https://api.anthropic.com/v1', apiKey: 'a' });
    expect(openai?.models).toHaveLength(1);
    expect(anthropic?.models).toHaveLength(1);
  });

  test('is reached elsewhere where the vendor’s variable says so, with or without the version', async () => {
    const at = async (url: string) => {
      const environment = { ANTHROPIC_API_KEY: 'a', ANTHROPIC_BASE_URL: url };
      return (await resolveProviders({}, environment).candidates[0]?.connect())?.baseUrl;
    };
    expect(await at('http://127.0.0.1:9000')).toBe('http://127.0.0.1:9000/v1');
    expect(await at('http://127.0.0.1:9000/v1/')).toBe('http://127.0.0.1:9000/v1');
    const environment = { OPENAI_API_KEY: 'o', OPENAI_BASE_URL: 'http://127.0.0.1:9000/api' };
    expect(await resolveProviders({}, environment).candidates[0]?.connect()).toMatchObject({
      baseUrl: 'http://127.0.0.1:9000/api',
    });
  });

  test('is not read as a template: a key may hold a dollar sign', async () => {
    const [openai] = resolveProviders({}, { OPENAI_API_KEY: 'a$(b)$NAME' }).candidates;
    expect(await openai?.connect()).toMatchObject({ apiKey: 'a$(b)$NAME' });
  });

  test('has its key in a file, where a variable with _FILE behind its name says so', async () => {
    const file = join(folder, 'key');
    await writeFile(file, 'first\n');
    const { candidates } = resolveProviders({}, { OPENAI_API_KEY_FILE: file });
    expect(ids({ candidates })).toEqual(['openai']);
    expect(await candidates[0]?.connect()).toMatchObject({ apiKey: 'first' });
    await writeFile(file, 'second\n');
    expect(await candidates[0]?.connect()).toMatchObject({ apiKey: 'second' });
    const { diagnostics } = resolveProviders({}, { ANTHROPIC_API_KEY_FILE: join(folder, 'gone') });
    expect(diagnostics[0]?.message).toContain('ANTHROPIC_API_KEY_FILE names a file that cannot be read');
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

describe('the providers of Google and Azure', () => {
  const keyFile = { type: 'service_account', client_email: 'robot@project', private_key: 'the key' };

  async function connected(environment: Record<string, string>, config: ClientConfig = {}) {
    const { candidates, diagnostics } = resolveProviders(config, environment);
    expect(diagnostics).toEqual([]);
    return { candidate: candidates[0], connection: await candidates[0]?.connect() };
  }

  async function written(content: string): Promise<string> {
    const file = join(folder, 'key.json');
    await writeFile(file, content);
    return file;
  }

  test('are there where the variables of their vendors say all that it takes', async () => {
    const file = await written(JSON.stringify(keyFile));
    const whole = {
      OPENAI_API_KEY: 'o',
      GEMINI_API_KEY: 'g',
      AZURE_OPENAI_API_KEY: 'z',
      AZURE_OPENAI_ENDPOINT: 'https://ours.openai.azure.com',
      GOOGLE_APPLICATION_CREDENTIALS: file,
      GOOGLE_CLOUD_PROJECT: 'ours',
    };
    expect(ids(resolveProviders({}, whole))).toEqual(['openai', 'gemini', 'azure', 'vertexai']);
    const { AZURE_OPENAI_ENDPOINT: _endpoint, GOOGLE_CLOUD_PROJECT: _project, ...less } = whole;
    expect(ids(resolveProviders({}, less))).toEqual(['openai', 'gemini']);
  });

  test('Gemini is reached at Google’s address, or elsewhere where a variable says so', async () => {
    const { candidate, connection } = await connected({ GEMINI_API_KEY: 'g' });
    expect(candidate).toMatchObject({ id: 'gemini', type: 'gemini', models: [{ id: 'gemini-3.8-flash' }] });
    expect(connection).toEqual({
      baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
      apiKey: 'g',
    });
    const elsewhere = { GEMINI_API_KEY: 'g', GOOGLE_GEMINI_BASE_URL: 'http://127.0.0.1:9' };
    expect((await connected(elsewhere)).connection).toMatchObject({ baseUrl: 'http://127.0.0.1:9' });
  });

  test('Azure is asked by a version where there is one, and its models are the deployments that are chosen', async () => {
    const environment = { AZURE_OPENAI_API_KEY: 'z', AZURE_OPENAI_ENDPOINT: 'https://ours.openai.azure.com' };
    const models = { large: { provider: 'azure', model: 'our-deployment' } };
    const { candidate, connection } = await connected(environment, { models });
    expect(candidate?.models).toEqual([{ id: 'our-deployment', name: 'our-deployment' }]);
    expect(connection).toEqual({ baseUrl: 'https://ours.openai.azure.com', apiKey: 'z' });
    const versioned = await connected({ ...environment, OPENAI_API_VERSION: '2024-10-21' });
    expect(versioned.connection?.baseUrl).toBe('https://ours.openai.azure.com?api-version=2024-10-21');
    expect(versioned.candidate?.models).toEqual([]);
  });

  test.each([
    [{}, 'https://aiplatform.googleapis.com/v1/projects/ours/locations/global'],
    [
      { GOOGLE_CLOUD_LOCATION: 'europe-west4' },
      'https://europe-west4-aiplatform.googleapis.com/v1/projects/ours/locations/europe-west4',
    ],
  ])('Vertex AI is reached below the project, in its place: %o', async (more, baseUrl) => {
    const file = await written(JSON.stringify(keyFile, null, 2));
    const { connection } = await connected({
      GOOGLE_APPLICATION_CREDENTIALS: file,
      GOOGLE_CLOUD_PROJECT: 'ours',
      ...more,
    });
    expect(connection).toEqual({ baseUrl, apiKey: JSON.stringify(keyFile) });
  });

  test('Vertex AI takes the text of a key file as its key, and an API key without a project', async () => {
    const api_key = '$KEY_FILE';
    const base_url = 'https://aiplatform.googleapis.com/v1/projects/p/locations/global';
    const provider = { type: 'vertexai' as const, base_url, api_key, models: [{ id: 'm' }] };
    const { connection } = await connected(
      { KEY_FILE: JSON.stringify(keyFile, null, 2) },
      { providers: { provider } },
    );
    expect(connection?.apiKey).toBe(JSON.stringify(keyFile));
    const express = { ...provider, base_url: 'https://aiplatform.googleapis.com/v1', api_key: 'AIza' };
    expect((await connected({}, { providers: { express } })).connection?.apiKey).toBe('AIza');
  });

  test.each([
    ['a key file and no project', { base_url: 'https://aiplatform.googleapis.com/v1' }, 'names no project'],
    ['the login of a person', { api_key: '{"type":"authorized_user"}' }, 'not that of a service account'],
    ['half a key file', { api_key: '{"type":"service_account"' }, 'not that of a service account'],
  ])('Vertex AI is left out with %s, without a word of the key', (_what, more, message) => {
    const base_url = 'https://aiplatform.googleapis.com/v1/projects/p/locations/global';
    const api_key = JSON.stringify(keyFile);
    const said = refusal({ type: 'vertexai', base_url, api_key, models: [{ id: 'm' }], ...more });
    expect(said).toContain(message);
    expect(said).not.toContain('the key');
  });

  test('Azure of the settings says what it lacks', () => {
    expect(refusal({ api_key: 'k' }, {}, 'azure')).toBe(
      'The provider has no base_url. Write one, or set AZURE_OPENAI_ENDPOINT.',
    );
  });

  test.each(['gemini', 'azure', 'vertexai', 'anthropic'] as const)(
    'an access token goes where everybody takes them (%s)',
    async (type) => {
      const oauth = { access_token: 'token', expires_in: 3600, expires_at: 4_000_000_000 };
      const base_url = 'https://example.com/v1/projects/p/locations/l';
      const gateway = { type, base_url, oauth, models: [{ id: 'm' }] };
      const { connection } = await connected({}, { providers: { gateway } });
      expect(connection).toMatchObject({ authToken: 'token' });
      expect(connection).not.toHaveProperty('apiKey');
    },
  );
});

describe('a provider of the settings', () => {
  test('has all that it is given', async () => {
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
    expect(candidate.models).toMatchObject([
      { id: 'a', name: 'A', contextWindow: 1000, maxOutputTokens: 100, settings: { id: 'a' } },
      { id: 'b', name: 'b', settings: { context_window: 0 } },
    ]);
    expect(await candidate.connect()).toEqual({
      baseUrl: 'http://127.0.0.1:8000/v1',
      apiKey: 'secret',
      headers: { 'X-Team': 'blue', 'X-Fixed': 'yes' },
      extraBody: { safe: true },
    });
  });

  test('`providers.*.name` is what people see, and the id where there is none', () => {
    expect(one({ ...local, name: 'Ours' }).name).toBe('Ours');
    expect(one(local).name).toBe('gateway');
  });

  test('`providers.*.id` changes nothing: the key of the entry is the id', () => {
    expect(one({ ...local, id: 'other' }).id).toBe('gateway');
  });

  test('`providers.*.models[].id` names a model, and of two with one id the first counts', () => {
    const candidate = one({ ...local, models: [{ id: 'b' }, { id: 'a', name: 'First' }, { id: 'a' }] });
    expect(candidate.models.map(({ id }) => id)).toEqual(['b', 'a']);
    expect(candidate.onlyListed).toBe(true);
  });

  test('`providers.*.models[].name` is what people see, and the id where there is none', () => {
    const candidate = one({ ...local, models: [{ id: 'b' }, { id: 'a', name: 'First' }, { id: 'a' }] });
    expect(candidate.models.map(({ name }) => name)).toEqual(['b', 'First']);
  });

  test('that lists no models has those that the section models names', () => {
    const { models: _none, ...bare } = local;
    const models = {
      large: { provider: 'gateway', model: 'big' },
      small: { provider: 'gateway', model: 'big' },
    };
    const { candidates, diagnostics } = resolveProviders({ models, providers: { gateway: bare } }, {});
    expect(diagnostics).toEqual([]);
    expect(candidates[0]?.models).toEqual([{ id: 'big', name: 'big' }]);
    expect(candidates[0]?.onlyListed).toBeUndefined();
  });

  test('runs a command for its key when it is asked, and not before', async () => {
    const canary = join(folder, 'canary');
    const provider = {
      ...local,
      api_key: `$(touch ${canary}; echo key)`,
      base_url: '$(echo http://127.0.0.1:7)',
    };
    const candidate = one(provider, { PATH: process.env.PATH ?? '' });
    await expect(access(canary)).rejects.toThrow('ENOENT');
    expect(await candidate.connect()).toEqual({ apiKey: 'key', baseUrl: 'http://127.0.0.1:7' });
    await access(canary);
  });

  test('runs a command at home, or where it is told to', async () => {
    const config = { providers: { gateway: { ...local, api_key: '$(pwd)' } } };
    const keyOf = async (options = {}) =>
      (await resolveProviders(config, {}, options).candidates[0]?.connect())?.apiKey;
    expect(await keyOf()).toBe(homedir());
    expect(await keyOf({ workingDirectory: folder })).toBe(folder);
  });

  test('whose command prints what is no URL is refused when it is asked', async () => {
    const candidate = one({ ...local, base_url: '$(echo nonsense)' }, { PATH: process.env.PATH ?? '' });
    await expect(candidate.connect()).rejects.toThrow('no http or https URL');
  });

  test('is resolved at the moment of use, so that a changed variable counts', async () => {
    const environment: Record<string, string> = { KEY: 'first' };
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the template is not JavaScript's.
    const candidate = one({ ...local, api_key: '${KEY:?}' }, environment);
    expect(await candidate.connect()).toMatchObject({ apiKey: 'first' });
    environment.KEY = 'second';
    expect(await candidate.connect()).toMatchObject({ apiKey: 'second' });
    delete environment.KEY;
    await expect(candidate.connect()).rejects.toThrow(ExpansionError);
  });

  test('keeps no secret that could be printed', () => {
    const candidate = one({ ...local, api_key: '$KEY' }, { KEY: 'hunter2' });
    expect(JSON.stringify(candidate)).not.toContain('hunter2');
  });

  test('completes a built-in provider: address, type and key', async () => {
    expect(one({}, { ANTHROPIC_API_KEY: 'a' }, 'anthropic')).toMatchObject({
      type: 'anthropic',
      name: 'Anthropic',
    });
    expect(await one({ name: 'Mine' }, { OPENAI_API_KEY: 'o' }, 'openai').connect()).toEqual({
      baseUrl: 'https://api.openai.com/v1',
      apiKey: 'o',
    });
  });

  test('of a type other than the built-in one only shares its id', async () => {
    const candidate = one(local, { OPENAI_API_KEY: 'o' }, 'openai');
    expect(await candidate.connect()).toEqual({ baseUrl: 'http://127.0.0.1:8000/v1' });
  });

  test('`providers.*.type` may be an alias, and is openai where nothing is said', () => {
    expect(one({ ...local, type: 'vendor-a-compat' }).type).toBe('openai-compat');
    expect(one({ ...own, type: 'vendor-b' }).type).toBe('anthropic');
    expect(one(own).type).toBe('openai');
  });

  test('needs no key where it imitates OpenAI', async () => {
    const candidate = one(local);
    expect(await candidate.connect()).toEqual({ baseUrl: 'http://127.0.0.1:8000/v1' });
  });

  test('is told that extra_body has no effect for its type, and is used without it', async () => {
    const provider = { ...own, extra_body: { x: 1 } };
    const { candidates, diagnostics } = resolveProviders({ providers: { gateway: provider } }, {});
    expect(await candidates[0]?.connect()).toEqual({ baseUrl: 'http://127.0.0.1:1', apiKey: 'k' });
    expect(diagnostics).toMatchObject([{ severity: 'warning', pointer: '/providers/gateway/extra_body' }]);
  });
});

describe('a provider is left out with a warning', () => {
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
  });

  test('where it is not built in and has no models', () => {
    expect(refusal({ ...local, models: [] })).toContain('needs at least one model');
    expect(refusal({ base_url: 'http://127.0.0.1:1', api_key: 'k' })).toContain('needs at least one model');
  });

  test('where a template is broken, without showing it', () => {
    expect(refusal({ ...local, api_key: 'pa$$word' })).toContain('A "$" stands alone');
  });

  test('where its URL holds a password, which would be shown where URLs are', () => {
    const said = refusal({ ...local, base_url: 'http://me:hunter2@127.0.0.1/v1' });
    expect(said).toContain('base_url holds a user name or a password');
    expect(said).not.toContain('hunter2');
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

  test('`options.disable_default_providers` drops the providers of the environment', () => {
    expect(resolveProviders({ options }, { OPENAI_API_KEY: 'o' })).toEqual({
      candidates: [],
      diagnostics: [],
    });
  });

  test('`options.disable_default_providers` demands that the settings say everything', () => {
    expect(refusal({ api_key: 'k' }, options, 'openai')).toContain('needs base_url and models');
    expect(refusal({ ...local, models: [], api_key: 'k' }, options)).toContain('needs models');
    expect(refusal({ ...local, models: [{ id: 'm' }] }, options)).toContain('needs api_key');
    const provider = { ...local, models: [{ id: 'm' }], api_key: 'k' };
    expect(ids(resolveProviders({ options, providers: { gateway: provider } }, {}))).toEqual(['gateway']);
  });
});
