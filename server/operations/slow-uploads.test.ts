/** Files that are sent slowly, while what they are sent with ends: nothing is made of them. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { makePeople, type People } from '../test-people.ts';

let app: TestApp;

beforeAll(async () => {
  app = await testApp();
});
afterAll(() => app.close());

/** Begins a request, of which the rest comes later; by then its credential was found good. */
async function begun(
  method: string,
  path: string,
  token: string,
  headers: Record<string, string>,
  begin: string,
) {
  const request = httpRequest(app.url + path, {
    ...{ method },
    headers: { authorization: `Bearer ${token}`, expect: '100-continue', ...headers },
  });
  const answer = new Promise<[number | undefined, string | undefined]>((resolve, reject) => {
    request.on('error', reject);
    request.on('response', async (response) => {
      const body = await text(response);
      resolve([response.statusCode, body === '' ? undefined : JSON.parse(body).code]);
    });
  });
  request.flushHeaders();
  await once(request, 'continue');
  request.write(begin);
  return {
    async end(rest: string) {
      request.end(rest);
      return answer;
    },
  };
}

const form = { 'content-type': 'multipart/form-data; boundary=b' };
const field = (name: string, value: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const fileOf = (name: string, content: string) =>
  `--b\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\n\r\n${content}`;

const newKey = async (people: People): Promise<Json> => {
  const body = { name: 'k' };
  return (await app.request('POST', '/api/v1/auth/api-keys', { token: people.member.token, body })).body;
};

const ends: Record<string, (people: People, key: Json) => Promise<{ readonly status: number }>> = {
  'key is revoked': ({ member }, key) =>
    app.request('DELETE', `/api/v1/auth/api-keys/${key.api_key.id}`, { token: member.token }),
  'person is removed': ({ owner, member, organizationId }) =>
    app.request('DELETE', `/api/v1/organizations/${organizationId}/members/${member.user.id}`, owner),
  'person is suspended': ({ owner, member }) =>
    app.request('PATCH', `/api/v1/users/${member.user.id}`, {
      ...{ token: owner.token, headers: mergePatch, body: { status: 'suspended' } },
    }),
};

test.each(Object.entries(ends))('a file whose %s before it is whole is not made', async (name, end) => {
  const people = await makePeople(app, name.replaceAll(' ', '-'));
  const key = await newKey(people);
  const begin = field('workspace_id', people.workspaceId) + fileOf('a.txt', 'first half, ');
  const sending = await begun('POST', '/api/v1/files', key.key, form, begin);
  await sleep(300);
  expect((await end(people, key)).status).toBeLessThan(300);
  expect(await sending.end('second half\r\n--b--\r\n')).toEqual([401, 'credential_invalid']);
  const { body } = await app.request('GET', '/api/v1/files', { token: people.owner.token });
  expect(body.data).toEqual([]);
});

test('with an Idempotency-Key neither', async () => {
  const people = await makePeople(app, 'keyed');
  const key = await newKey(people);
  const begin = field('workspace_id', people.workspaceId) + fileOf('a.txt', 'first half, ');
  const sending = await begun('POST', '/api/v1/files', key.key, { ...form, 'idempotency-key': 'one' }, begin);
  await sleep(300);
  await ends['key is revoked']?.(people, key);
  expect(await sending.end('second half\r\n--b--\r\n')).toEqual([401, 'credential_invalid']);
  const { body } = await app.request('GET', '/api/v1/files', { token: people.owner.token });
  expect(body.data).toEqual([]);
});

test('bytes of an upload that is gone on with are told as refused, too', async () => {
  const people = await makePeople(app, 'parts');
  const key = await newKey(people);
  const sha256 = createHash('sha256').update('first half, second half').digest('hex');
  const upload = { filename: 'a', size: 23, sha256, workspace_id: people.workspaceId };
  const { body } = await app.request('POST', '/api/v1/files/uploads', { token: key.key, body: upload });
  const headers = { 'content-type': 'application/octet-stream', 'upload-offset': '0' };
  const sending = await begun('PATCH', `/api/v1/files/uploads/${body.id}`, key.key, headers, 'first half, ');
  await sleep(300);
  await ends['key is revoked']?.(people, key);
  expect(await sending.end('second half')).toEqual([401, 'credential_invalid']);
});

test('memories that come in slowly stop within seconds', async () => {
  const people = await makePeople(app, 'memories');
  const key = await newKey(people);
  const line = (content: string) => `${JSON.stringify({ content, scope: 'user' })}\n`;
  const sending = await begun(
    'POST',
    '/api/v1/memories/import',
    key.key,
    form,
    fileOf('a.jsonl', line('First.')),
  );
  const kept = async () => {
    const { body } = await app.request('GET', '/api/v1/memories', { token: people.member.token });
    return body.data.map(({ content }: Json) => content);
  };
  await expect.poll(kept).toEqual(['First.']);
  await ends['key is revoked']?.(people, key);
  await sleep(5000);
  expect(await sending.end(`${line('Second.')}\r\n--b--\r\n`)).toEqual([401, 'credential_invalid']);
  expect(await kept()).toEqual(['First.']);
});
