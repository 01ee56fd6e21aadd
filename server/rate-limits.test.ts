/** How often somebody may call: per account, by class, told in headers, and counted by all nodes together. */
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { temporaryFolder } from './server-process.ts';
import type { ServerSettings } from './server-settings/server-settings.ts';
import { type TestApp, testApp } from './test-app.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const rateLimits: ServerSettings['rateLimits'] = {
  read: { requests: 3, seconds: 60 },
  run: { requests: 1, seconds: 60 },
  login: { requests: 5, seconds: 60 },
};

async function limited(settings: Partial<ServerSettings> = {}): Promise<TestApp> {
  const app = await testApp({ settings: { rateLimits, ...settings } });
  onTestFinished(() => app.close());
  return app;
}

describe('a class of operations that is limited', () => {
  test('tells with every answer what is left, and refuses what is too much with when to try again', async () => {
    const app = await limited();
    const { token } = await app.register('ada');
    for (const left of [2, 1, 0]) {
      const { status, headers } = await app.request('GET', '/api/v1/users/me', { token });
      expect(status).toBe(200);
      expect(headers.get('ratelimit-policy')).toBe('"read";q=3;w=60');
      expect(headers.get('ratelimit')).toMatch(new RegExp(`^"read";r=${left};t=\\d+$`));
    }
    const refused = await app.request('GET', '/api/v1/sessions', { token });
    expect(refused).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(refused.headers.get('ratelimit')).toMatch(/^"read";r=0;t=\d+$/);
    const wait = Number(refused.headers.get('retry-after'));
    expect(wait).toBeGreaterThan(50);
    expect(wait).toBeLessThanOrEqual(60);
    // What is not limited has neither limit nor headers; what must always answer does.
    const written = await app.request('POST', '/api/v1/sessions', { token, body: {} });
    expect([written.status, written.headers.get('ratelimit')]).toEqual([201, null]);
    expect((await app.request('GET', '/health')).status).toBe(200);
  });

  test('is counted for the account, whichever credential it uses, and for no other', async () => {
    const app = await limited();
    const ada = await app.register('ada');
    const made = await app.request('POST', '/api/v1/auth/api-keys', {
      token: ada.token,
      body: { name: 'k' },
    });
    const read = (token: string) => app.request('GET', '/api/v1/users/me', { token });
    for (const token of [ada.token, made.body.key, ada.token]) expect((await read(token)).status).toBe(200);
    for (const token of [ada.token, made.body.key]) expect((await read(token)).status).toBe(429);
    const bob = await app.register('bob');
    expect((await read(bob.token)).status).toBe(200);
    // Without a credential nobody is counted: it is refused before.
    expect((await app.request('GET', '/api/v1/users/me')).status).toBe(401);
  });

  test('refuses runs on both surfaces together, each in its own shape', async () => {
    const app = await limited();
    const { token } = await app.register('ada');
    const query = { prompt: 'x', model: 'demo:demo-1' };
    expect((await app.request('POST', '/api/v1/query', { token, body: query })).status).toBe(200);
    const message = { model: 'demo:demo-1', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] };
    const refused = await app.request('POST', '/v1/messages', { token, body: message });
    expect(refused).toMatchObject({ status: 429, body: { error: { type: 'rate_limit_error' } } });
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  });

  test('is counted by address where nobody says who they are', async () => {
    const app = await limited();
    const login = () =>
      app.request('POST', '/api/v1/auth/refresh', { body: { refresh_token: 'rt_unknown' } });
    for (let count = 0; count < 5; count += 1) expect((await login()).status).toBe(401);
    expect((await login()).status).toBe(429);
  });

  test('is counted by network where the address is one of IPv6', async () => {
    const app = await limited({ trustedProxies: ['loopback'] });
    const login = async (address: string) => {
      const headers = { 'x-forwarded-for': address };
      const body = { refresh_token: 'rt_unknown' };
      return (await app.request('POST', '/api/v1/auth/refresh', { body, headers })).status;
    };
    for (let count = 1; count <= 5; count += 1) expect(await login(`2001:db8::${count}`)).toBe(401);
    expect(await login('2001:db8::6')).toBe(429);
    expect(await login('2001:db8:0:1::1')).toBe(401);
  });
});

test('without SERVICE_RATE_LIMITS nothing is limited, and no header says otherwise', async () => {
  const app = await limited({ rateLimits: {} });
  const { token } = await app.register('ada');
  for (let count = 0; count < 10; count += 1) {
    const { status, headers } = await app.request('GET', '/api/v1/users/me', { token });
    expect([status, headers.get('ratelimit'), headers.get('ratelimit-policy')]).toEqual([200, null, null]);
  }
});

test.skipIf(inject('postgresUrl') === null)(
  'nodes on the same PostgreSQL count together, and a hundred requests at once do not pass together',
  async () => {
    const databaseUrl = await newDatabase();
    const masterKeyFile = await newMasterKey(await temporaryFolder());
    const first = await limited({ databaseUrl, masterKeyFile });
    const second = await limited({ databaseUrl, masterKeyFile });
    const { token } = await first.register('ada');
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, at) =>
        (at % 2 ? first : second).request('GET', '/api/v1/users/me', { token }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(47);
  },
);
