/** The list of providers: all that are named, with what is wrong, and no secret. */
import { expect, test } from 'vitest';
import { withoutSecrets } from '../url-secrets.ts';
import { listProviders } from './provider-list.ts';

test('a provider of the settings is listed with its template, one of the environment with its variable', () => {
  const config = {
    providers: {
      gateway: {
        type: 'openai-compat' as const,
        base_url: '$GATEWAY_URL',
        api_key: 'a-literal-key',
        models: [{ id: 'one' }],
      },
    },
  };
  const environment = { GATEWAY_URL: 'http://127.0.0.1:1/v1', OPENAI_API_KEY: 'sk-secret' };
  const listed = listProviders(config, environment);
  expect(listed).toMatchObject([
    { id: 'gateway', type: 'openai-compat', baseUrl: '$GATEWAY_URL', state: 'usable', variable: null },
    {
      id: 'openai',
      type: 'openai',
      baseUrl: 'https://api.openai.com/v1',
      state: 'usable',
      variable: 'OPENAI_API_KEY',
    },
  ]);
  expect(JSON.stringify(listed)).not.toMatch(/sk-secret|127\.0\.0\.1/);
});

test('one that cannot be used says why, and one that is disabled stays in the list', () => {
  const config = {
    providers: {
      nowhere: { models: [{ id: 'one' }] },
      anthropic: { api_key: '$NOT_SET' },
      openai: { disable: true },
      constructor: { type: 'azure' as const, base_url: 'https://azure.example.com' },
    },
  };
  expect(listProviders(config, {})).toMatchObject([
    {
      id: 'nowhere',
      state: 'unusable',
      fault: { message: 'A provider that is not built in needs a base_url' },
    },
    { id: 'anthropic', state: 'unusable', fault: { message: 'The provider has no API key' } },
    { id: 'openai', state: 'disabled', fault: null },
    { id: 'constructor', state: 'unusable', type: 'azure', name: 'constructor' },
  ]);
});

test('without the default providers the environment adds none, and no URL is filled in', () => {
  const config = { options: { disable_default_providers: true }, providers: { openai: { api_key: 'x' } } };
  expect(listProviders(config, { ANTHROPIC_API_KEY: 'x' })).toMatchObject([
    { id: 'openai', state: 'unusable', baseUrl: null },
  ]);
});

test.each([
  ['https://api.example.com/v1', 'https://api.example.com/v1'],
  ['https://user:secret@api.example.com/v1', 'https://(hidden)@api.example.com/v1'],
  ['https://$USER:secret@api.example.com', 'https://(hidden)@api.example.com'],
  ['https://$LOGIN@api.example.com', 'https://$LOGIN@api.example.com'],
  ['https://api.example.com/?key=secret&v=$V#top', 'https://api.example.com/?key=(hidden)&v=$V#top'],
  ['$BASE/v1?k=$KEY', '$BASE/v1?k=$KEY'],
])('%s is shown as %s', (url, shown) => {
  expect(withoutSecrets(url)).toBe(shown);
});
