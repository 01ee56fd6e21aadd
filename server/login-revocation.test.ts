/** What is revoked on one node is over on the other: at once for requests, within five seconds for open streams. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type {
  AccountCreated,
  ApiKeyCreated,
  DeviceLoginStarted,
  LoginPage,
  Me,
  TokenPair,
} from './contract/api.ts';
import { scriptedSettings, startServer, temporaryFolder, writeSettings } from './server-process.ts';
import { type AnyBody, clientOf } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';
import { revokedWithinMs } from './test-revocation.ts';

const postgresUrl = inject('postgresUrl');
let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const person = { email: 'ada@example.com', password: 'correct-horse-battery' };

/** Two processes over one database, and the operator on the first of them. */
async function twoNodes(settings: object = {}) {
  const folder = await temporaryFolder();
  await writeSettings(folder, settings);
  const variables = {
    DATABASE_URL: await newDatabase(),
    SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
    SERVICE_ADMIN_EMAIL: person.email,
    SERVICE_ADMIN_PASSWORD: person.password,
  };
  return await Promise.all([startServer({ folder, variables }), startServer({ folder, variables })]);
}

describe.skipIf(postgresUrl === null)('on two nodes', () => {
  test('each kind of credential, however it ends, takes its streams and requests along', async () => {
    const [first, second] = await twoNodes();
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
      expect(performance.now() - endedAt).toBeLessThan(revokedWithinMs);
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
  });

  test('a key that is revoked, disabled or narrowed dies in the middle of an answer', async () => {
    const [first, second] = await twoNodes(scriptedSettings(upstream.url));
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
      expect(performance.now() - endedAt).toBeLessThan(revokedWithinMs);
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
  });

  test('whoever is suspended, taken out or given a lower role is so on the other, and loses the streams there', async () => {
    const [first, second] = await twoNodes();
    const visitor = clientOf(first);
    const { body: login } = await visitor.post<TokenPair>('/api/v1/auth/login', person);
    const operator = clientOf(first, login.access_token);
    const { body: me } = await operator.get<Me>('/api/v1/users/me');
    const organization = me.memberships[0]?.organization_id ?? '';

    const employ = async (name: string) => {
      const account = { email: `${name}@example.com`, password: person.password };
      const made = { email: account.email, role: 'member', send_invite: false };
      const { body: created } = await operator.post<AccountCreated>('/api/v1/users', made);
      const chosen = { token: created.password_link?.token, password: account.password };
      await visitor.post('/api/v1/auth/password/reset', chosen);
      const { body } = await visitor.post<TokenPair>('/api/v1/auth/login', account);
      const client = clientOf(second, body.access_token);
      return { client, id: created.user.id, stream: await client.stream('/api/v1/events') };
    };
    type Employee = Awaited<ReturnType<typeof employ>>;

    /** Asks the other node at once, and waits for its stream to end. */
    const loses = async (
      { client, stream }: Employee,
      end: () => Promise<{ readonly status: number }>,
      refused: readonly [number, string],
    ) => {
      const endedAt = performance.now();
      expect((await end()).status).toBeLessThan(300);
      const { status, body } = await client.post('/api/v1/sessions', {});
      expect([status, body.code]).toEqual(refused);
      await stream.ended;
      expect(performance.now() - endedAt).toBeLessThan(revokedWithinMs);
      expect(stream.events.at(-1)).toMatchObject({
        name: 'error',
        data: { error: expect.stringMatching(/^credential_invalid: /) },
      });
    };

    const [suspended, removed, lowered] = [
      await employ('suspended'),
      await employ('removed'),
      await employ('lowered'),
    ];
    const suspend = () =>
      fetch(`${first.url}/api/v1/users/${suspended.id}`, {
        method: 'PATCH',
        headers: {
          authorization: `Bearer ${login.access_token}`,
          'content-type': 'application/merge-patch+json',
        },
        body: JSON.stringify({ status: 'suspended' }),
      });
    const member = ({ id }: Employee) => `/api/v1/organizations/${organization}/members/${id}`;
    await Promise.all([
      loses(suspended, suspend, [401, 'credential_invalid']),
      loses(removed, () => operator.send('DELETE', member(removed)), [404, 'not_found']),
      loses(lowered, () => operator.send('PUT', member(lowered), { role: 'viewer' }), [403, 'role_required']),
    ]);
  });
});
