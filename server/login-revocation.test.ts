/** What is revoked on one node is over on the other: at once for requests, within five seconds for open streams. */
import { describe, expect, inject, test } from 'vitest';
import type { DeviceLoginStarted, LoginPage, TokenPair } from './contract/api.ts';
import { startServer, temporaryFolder } from './server-process.ts';
import { type AnyBody, clientOf } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const postgresUrl = inject('postgresUrl');
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
});
