/** What is revoked on one node is over on the other: at once for requests, within five seconds for open streams. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { ApiKeyCreated, DeviceLoginStarted, LoginPage, TokenPair } from './contract/api.ts';
import { scriptedSettings, startServer, temporaryFolder, writeSettings } from './server-process.ts';
import { type AnyBody, clientOf } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const postgresUrl = inject('postgresUrl');
let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const person = { email: 'ada@example.com', password: 'correct-horse-battery' };

describe.skipIf(postgresUrl === null)('on two nodes', () => {
  test('each kind of credential, however it ends, takes its streams and requests along', async () => {
    const folder = await temporaryFolder();
    const variables = {
      DATABASE_URL: await newDatabase(),
      SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
      SERVICE_ADMIN_EMAIL: person.email,
      SERVICE_ADMIN_PASSWORD: person.password,
    };
    const [first, second] = [
      await startServer({ folder, variables }),
      await startServer({ folder, variables }),
    ];
    const visitor = clientOf(first);
    const logIn = async () => (await visitor.post<TokenPair>('/api/v1/auth/login', person)).body.access_token;
    const owner = clientOf(first, await logIn());

    /** Logs in on one node, opens a stream on the other, and ends the credential on the first. */
    const dies = async (token: string, end: () => Promise<{ readonly status: number }>) => {
      const client = clientOf(second, token);
      const stream = await client.stream('/api/v1/query/stream', { prompt: 'Write a file named hello.txt' });
      await stream.until(({ data }) => 'type' in data && data.type === 'permission_requested');
      const endedAt = performance.now();
      expect((await end()).status).toBe(204);
      expect((await client.get('/api/v1/users/me')).status).toBe(401);
      await stream.ended;
      expect(performance.now() - endedAt).toBeLessThan(5000);
      expect(stream.events.at(-1)).toMatchObject({
        name: 'error',
        data: { error: expect.stringMatching(/^credential_invalid: /) },
      });
    };

    const newestLogin = async (method: string) => {
      const { body } = await owner.get<LoginPage>('/api/v1/auth/logins');
      return body.data.find((login) => login.method === method)?.id ?? '';
    };
    const device = async () => {
      const { body } = await visitor.post<DeviceLoginStarted>('/api/v1/auth/device/code', {});
      await owner.post('/api/v1/auth/device/reply', { user_code: body.user_code, decision: 'allow' });
      const poll = { device_code: body.device_code };
      return (await visitor.post<TokenPair>('/api/v1/auth/device/token', poll)).body.access_token;
    };
    const key = await owner.post<AnyBody & { key: string; api_key: AnyBody }>('/api/v1/auth/api-keys', {
      name: 'k',
    });

    const [byList, byDevice, byItself] = [await logIn(), await device(), await logIn()];
    const [deviceId] = [await newestLogin('device')];
    const listed = await clientOf(first, byList).get<LoginPage>('/api/v1/auth/logins');
    const listedId = listed.body.data.find(({ current }) => current)?.id ?? '';
    await Promise.all([
      dies(byList, () => owner.send('DELETE', `/api/v1/auth/logins/${listedId}`)),
      dies(byDevice, () => owner.send('DELETE', `/api/v1/auth/logins/${deviceId}`)),
      dies(byItself, () => clientOf(first, byItself).post('/api/v1/auth/logout', {})),
      dies(key.body.key, () => owner.send('DELETE', `/api/v1/auth/api-keys/${key.body.api_key.id}`)),
    ]);
    const last = await logIn();
    await dies(last, () => owner.post('/api/v1/auth/logout', { all_devices: true }));
  }, 60_000);

  test('a key that is revoked, disabled or narrowed dies in the middle of an answer', async () => {
    const folder = await temporaryFolder();
    await writeSettings(folder, scriptedSettings(upstream.url));
    const variables = {
      DATABASE_URL: await newDatabase(),
      SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
      SERVICE_ADMIN_EMAIL: person.email,
      SERVICE_ADMIN_PASSWORD: person.password,
    };
    const [first, second] = await Promise.all([
      startServer({ folder, variables }),
      startServer({ folder, variables }),
    ]);
    // Far more than is told before the end, so that it is never the answer that ends the stream.
    await upstream.script([{ reply: { text: 'word ', repeat: 2000, chunk_size: 5, chunk_delay_ms: 50 } }]);
    const login = await clientOf(first).post<TokenPair>('/api/v1/auth/login', person);
    const owner = clientOf(first, login.body.access_token);

    /** Reads an answer on one node, ends the key on the other while the words come, and sees no more of them. */
    const dies = async (end: (id: string) => Promise<{ readonly status: number }>, after: number) => {
      const made = await owner.post<ApiKeyCreated>('/api/v1/auth/api-keys', { name: 'k' });
      const stream = await clientOf(second, made.body.key).stream('/api/v1/query/stream', {
        prompt: 'Go on.',
      });
      await stream.until(({ data }) => 'type' in data && data.type === 'text_delta');
      const endedAt = performance.now();
      expect((await end(made.body.api_key.id)).status).toBeLessThan(300);
      const refused = await clientOf(second, made.body.key).post('/api/v1/query', { prompt: 'Go on.' });
      expect(refused.status).toBe(after);
      await stream.ended;
      expect(performance.now() - endedAt).toBeLessThan(5000);
      expect(stream.events.at(-1)).toMatchObject({
        name: 'error',
        data: { error: expect.stringMatching(/^credential_invalid: /) },
      });
      expect(stream.events.at(-2)?.data).toMatchObject({ type: 'text_delta' });
    };

    const path = (id: string) => `/api/v1/auth/api-keys/${id}`;
    const change = (id: string, body: object) =>
      fetch(first.url + path(id), {
        method: 'PATCH',
        headers: {
          authorization: `Bearer ${login.body.access_token}`,
          'content-type': 'application/merge-patch+json',
          'if-match': '*',
        },
        body: JSON.stringify(body),
      });
    await Promise.all([
      dies((id) => owner.send('DELETE', path(id)), 401),
      dies((id) => change(id, { disabled: true }), 401),
      dies((id) => change(id, { scopes: ['sessions:read'] }), 403),
    ]);
  }, 60_000);
});
