/** The settings of logging in through providers: what is read, what is refused, and what is never shown. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readServerSettings } from './server-settings.ts';

const corp = {
  SERVICE_OIDC_PROVIDERS: 'corp',
  SERVICE_OIDC_CORP_ISSUER: 'https://login.example.com',
  SERVICE_OIDC_CORP_CLIENT_ID: 'service',
};
const read = (variables: Record<string, string>) => readServerSettings([], variables).settings;

test('without a name there is no provider', () => {
  expect(read({})).toMatchObject({ oidcProviders: [], publicUrl: null });
});

test('a provider has sensible defaults: nobody new is let in through it unasked', () => {
  expect(read(corp).oidcProviders).toEqual([
    {
      ...{ name: 'corp', label: 'corp', issuer: 'https://login.example.com', clientId: 'service' },
      ...{ clientSecret: null, scopes: 'openid email profile', registration: 'invite' },
      ...{ organizationId: null, role: 'member', trustEmail: false },
    },
  ]);
});

test('several providers are told apart by their names, and a secret may be in a file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'service-oidc-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'secret'), 'the-secret-of-the-file\n');
  const { settings, help } = readServerSettings([], {
    ...corp,
    SERVICE_OIDC_PROVIDERS: 'corp, my-id',
    SERVICE_OIDC_MY_ID_ISSUER: 'https://id.example.org/realms/people',
    SERVICE_OIDC_MY_ID_CLIENT_ID: 'x',
    SERVICE_OIDC_MY_ID_CLIENT_SECRET_FILE: join(folder, 'secret'),
    SERVICE_OIDC_MY_ID_SCOPES: 'email,groups',
    SERVICE_OIDC_CORP_CLIENT_SECRET: 'canary-of-corp',
  });
  expect(settings.oidcProviders).toMatchObject([
    { name: 'corp', clientSecret: 'canary-of-corp' },
    { name: 'my-id', clientSecret: 'the-secret-of-the-file', scopes: 'openid email groups' },
  ]);
  expect(settings.ignoredVariables).toEqual([]);
  expect(help).toContain('SERVICE_OIDC_CORP_ISSUER');
  expect(help).not.toMatch(/canary-of-corp|the-secret-of-the-file/);
});

test('the public address is an origin, with TLS unless only this machine reaches it', () => {
  expect(read({ SERVICE_PUBLIC_URL: 'https://service.example.com/' }).publicUrl).toBe(
    'https://service.example.com',
  );
  expect(read({ SERVICE_PUBLIC_URL: 'http://127.0.0.1:8090' }).publicUrl).toBe('http://127.0.0.1:8090');
});

test.each([
  ['a public address with a path', { SERVICE_PUBLIC_URL: 'https://example.com/service' }, 'without a path'],
  ['a public address without TLS', { SERVICE_PUBLIC_URL: 'http://service.example.com' }, 'https://'],
  [
    'providers beyond loopback without a public address',
    { ...corp, SERVICE_HOST: '0.0.0.0' },
    'SERVICE_PUBLIC_URL',
  ],
  [
    'a provider without an issuer',
    { ...corp, SERVICE_OIDC_CORP_ISSUER: '' },
    'SERVICE_OIDC_CORP_ISSUER is missing',
  ],
  [
    'one without a client id',
    { ...corp, SERVICE_OIDC_CORP_CLIENT_ID: '' },
    'SERVICE_OIDC_CORP_CLIENT_ID is missing',
  ],
  ['an issuer without TLS', { ...corp, SERVICE_OIDC_CORP_ISSUER: 'http://login.example.com' }, 'https://'],
  ['an issuer that is none', { ...corp, SERVICE_OIDC_CORP_ISSUER: 'login' }, 'address of an issuer'],
  ['a name that no path takes', { ...corp, SERVICE_OIDC_PROVIDERS: 'Corp' }, 'small letters'],
  ['a name twice', { ...corp, SERVICE_OIDC_PROVIDERS: 'corp,corp' }, 'twice'],
  ['an organization that is none', { ...corp, SERVICE_OIDC_CORP_ORGANIZATION: 'acme' }, 'org_'],
  ['the role of an owner', { ...corp, SERVICE_OIDC_CORP_ROLE: 'owner' }, 'admin, member or viewer'],
  ['another way to register', { ...corp, SERVICE_OIDC_CORP_REGISTRATION: 'yes' }, 'open or invite'],
])('%s is refused before the start', (_, variables, told) => {
  expect(() => read(variables)).toThrow(told);
});
