/** The settings of storage over HTTP: who sets them, what they change on every node, and what stays where it was. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasS3, startS3, type TestS3 } from '../store/test-s3.ts';
import { type Account, type Answer, coded, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { collectGarbage } from '../test-garbage.ts';

let app: TestApp;
let ada: Account;
let s3: TestS3 | null = null;

beforeAll(async () => {
  s3 = hasS3 ? await startS3() : null;
  const endpoint = s3?.settings.endpoint;
  app = await testApp({ settings: { mode: 'multi', outboundAllow: endpoint ? [endpoint] : [] } });
  ada = await app.register('ada');
});
afterAll(async () => {
  await app.close();
  await s3?.stop();
});

const path = '/api/v1/settings/storage';
const read = () => app.request('GET', path, { token: app.operatorKey });
const probe = (one = app) => one.request('POST', `${path}/test`, { token: app.operatorKey });

async function change(body: object, ifMatch?: string): Promise<Answer> {
  const tag = ifMatch ?? (await read()).headers.get('etag') ?? '';
  return app.request('PATCH', path, {
    token: app.operatorKey,
    body,
    headers: { ...mergePatch, 'if-match': tag },
  });
}

async function upload(text: string, one = app): Promise<Answer> {
  const form = new FormData();
  form.append('file', new Blob([text]), 'a.txt');
  const headers = { authorization: `Bearer ${ada.token}` };
  const answer = await fetch(`${one.url}/api/v1/files`, { method: 'POST', headers, body: form });
  return { status: answer.status, headers: answer.headers, body: await answer.json() };
}

async function download({ body }: Answer): Promise<string> {
  return (await app.stream('GET', `/api/v1/files/${body.id}/content`, { token: ada.token })).text();
}

/** The bucket of the test as a setting. */
function bucket() {
  const { credentials, endpoint, bucket, prefix } = s3?.settings ?? {};
  const { accessKeyId, secretAccessKey } = credentials ?? {};
  return { endpoint, bucket, prefix, access_key_id: accessKeyId, secret_access_key: secretAccessKey };
}

test('they are the disk and 100 MiB at first, for the operator alone, and change with their ETag', async () => {
  const first = await read();
  expect(first.body).toMatchObject({ backend: 'fs', source: 'default', max_file_bytes: 104_857_600 });
  expect(coded(await app.request('GET', path, { token: ada.token }))).toEqual([403, 'role_required']);
  const headers = { 'if-none-match': first.headers.get('etag') ?? '' };
  expect((await app.request('GET', path, { token: app.operatorKey, headers })).status).toBe(304);
  const without = { token: app.operatorKey, body: { retention_days: 1 }, headers: mergePatch };
  expect(coded(await app.request('PATCH', path, without))).toEqual([428, 'precondition_required']);

  const changed = await change({ max_file_bytes: 1000, retention_days: 30 });
  expect(changed.body).toMatchObject({ source: 'setting', max_file_bytes: 1000, retention_days: 30 });
  expect(coded(await change({ max_file_bytes: 5 }, first.headers.get('etag') ?? ''))).toEqual([
    412,
    'precondition_failed',
  ]);
  expect(coded(await upload('x'.repeat(1001)))).toEqual([413, 'body_too_large']);
  const kept = await upload(randomUUID());
  expect(kept.status).toBe(201);
  const { files } = app.services.store;
  expect(await files.expire(new Date(Date.now() + 29 * 86_400_000))).toBe(0);
  expect(await files.expire(new Date(Date.now() + 31 * 86_400_000))).toBe(1);
  expect((await app.request('GET', `/api/v1/files/${kept.body.id}`, { token: ada.token })).status).toBe(404);
  expect((await change({ retention_days: null, max_file_bytes: 2000 })).body.retention_days).toBeNull();
  expect(await files.expire(new Date('2100-01-01'))).toBe(0);
  const { body } = await app.request('GET', '/api/v1/audit/logs?action=storage.update', {
    token: app.operatorKey,
  });
  expect(body.data).toHaveLength(2);
});

test.each([
  [{ bucket: 'files' }, '/bucket'],
  [{ backend: 's3' }, '/bucket'],
  [{ backend: 's3', bucket: 'files' }, '/access_key_id'],
  [{ backend: 's3', bucket: 'files', access_key_id: 'key' }, '/secret_access_key'],
  [{ backend: 's3', bucket: 'files', endpoint: 'http://10.0.0.1:9000' }, '/endpoint'],
  [{ backend: 's3', bucket: 'files', endpoint: 'http://host/with/path' }, '/endpoint'],
  [{ backend: 's3', bucket: 'files', prefix: 'a/../b' }, '/prefix'],
  [{ max_file_bytes: 5_368_709_121 }, '/max_file_bytes'],
  [{ retention_days: 0 }, '/retention_days'],
])('%j is refused, and nothing changes', async (body, pointer) => {
  const before = (await read()).body;
  const answer = await change(body);
  expect(coded(answer)).toEqual([400, 'invalid_request']);
  expect(answer.body.errors).toContainEqual(expect.objectContaining({ pointer }));
  expect((await read()).body).toEqual(before);
});

const mebibyte = 2 ** 20;

/** Sent piece by piece, as they are wanted; answers with what the process held more than before, at most. */
async function mostHeldWhile(
  send: (content: ReadableStream<Uint8Array>) => Promise<Answer>,
  mebibytes: number,
) {
  const held = () => {
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = held();
  let most = before;
  const piece = new Uint8Array(mebibyte).fill(120);
  const head = `--x\r\nContent-Disposition: form-data; name="file"; filename="large"\r\n\r\n`;
  let sent = 0;
  const content = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(Buffer.from(head)),
    pull(controller) {
      if (sent % 16 === 0) most = Math.max(most, held());
      sent += 1;
      if (sent <= mebibytes) return controller.enqueue(piece);
      controller.enqueue(Buffer.from('\r\n--x--\r\n'));
      controller.close();
    },
  });
  const answer = await send(content);
  return { answer, mebibytes: (Math.max(most, held()) - before) / mebibyte };
}

describe.each([
  ['the disk', 'fs', true],
  ['a bucket', 's3', hasS3],
] as const)('a large file on its way to %s', (_, backend, here) => {
  test.skipIf(!here)(
    'passes through the memory of the server in small parts',

    async () => {
      const size = 300;
      const place = backend === 's3' ? bucket() : {};
      const limit = { max_file_bytes: size * mebibyte };
      expect((await change({ backend, ...place, ...limit })).status).toBe(200);
      try {
        const { answer, mebibytes } = await mostHeldWhile(async (body) => {
          const headers = {
            ...{ authorization: `Bearer ${ada.token}`, 'content-type': 'multipart/form-data; boundary=x' },
          };
          const given = { method: 'POST', headers, body, duplex: 'half' as const };
          const sent = await fetch(`${app.url}/api/v1/files`, given);
          return { status: sent.status, headers: sent.headers, body: await sent.json() };
        }, size);
        expect(answer).toMatchObject({ status: 201, body: { size: size * mebibyte } });
        // To S3 four parts of 8 MiB are on their way at a time, and the client copies what it signs.
        expect(mebibytes).toBeLessThan(size / 2);
        const one = `/api/v1/files/${answer.body.id}`;
        await app.request('DELETE', one, { token: ada.token, headers: { 'if-match': '*' } });
      } finally {
        await change({ backend: 'fs', max_file_bytes: 2000 });
      }
    },
  );
});

describe.skipIf(!hasS3)('a bucket', () => {
  test('takes new files on every node, and each file is read from where it lies', async () => {
    const node = await testApp({ settings: app.services.settings });
    const onDisk = await upload('on disk');
    expect((await probe()).body).toMatchObject({ ok: true, backend: 'fs' });
    const set = await change({ backend: 's3', ...bucket() });
    expect(set.body).toMatchObject({ backend: 's3', bucket: 'bucket', credentials_set: true });
    expect(JSON.stringify([set.body, (await read()).body])).not.toContain('secret/');
    expect((await probe(node)).body).toMatchObject({ ok: true, backend: 's3' });
    expect(await s3?.stored()).toEqual([]);
    const inBucket = await upload('in the bucket', node);
    expect(await s3?.stored()).toHaveLength(1);
    expect([await download(onDisk), await download(inBucket)]).toEqual(['on disk', 'in the bucket']);

    const elsewhere = await change({ prefix: 'another' });
    expect(coded(elsewhere)).toEqual([400, 'invalid_request']);
    await change({ ...bucket(), prefix: 'another' });
    await upload('below another prefix');
    expect(await s3?.stored()).toHaveLength(2);
    expect((await change({ backend: 'fs' })).body).toMatchObject({ bucket: null, endpoint: null });
    await upload('on disk again', node);
    expect(await s3?.stored()).toHaveLength(2);
    expect(await download(inBucket)).toBe('in the bucket');
    // What was set before is known, its key too.
    const { endpoint, bucket: name, prefix } = bucket();
    expect((await change({ backend: 's3', endpoint, bucket: name, prefix })).status).toBe(200);
    expect((await probe()).status).toBe(200);
    await node.close();
  });

  test('that cannot be used is told of by its test, and by nothing secret', async () => {
    await change({ backend: 's3', ...bucket(), secret_access_key: 'another' });
    const answer = await probe();
    expect(coded(answer)).toEqual([502, 'storage_test_failed']);
    expect(answer.body.detail).toMatch(/: SignatureDoesNotMatch\./);
    expect(coded(await upload('nowhere'))).toEqual([503, 'storage_unavailable']);
    await change({ ...bucket(), bucket: 'none' });
    expect((await probe()).body.detail).toMatch(/: NoSuchBucket\./);
    expect(await app.services.store.files.sweep(new Date(Date.now() + 3_600_000))).toBe(0);
    await change({ ...bucket() });
    expect((await probe()).status).toBe(200);
    // What could not be deleted is tried again an hour later.
    expect(await app.services.store.files.sweep(new Date(Date.now() + 7_200_000))).toBeGreaterThan(0);
  });

  test('that is away is told of by /ready, by its test and by uploads, and used again when it is back', async () => {
    const back = await s3?.interrupt();
    expect(coded(await app.request('GET', '/ready'))).toEqual([503, 'storage_unavailable']);
    expect(coded(await probe())).toEqual([502, 'storage_test_failed']);
    expect(coded(await upload('nowhere'))).toEqual([503, 'storage_unavailable']);
    await back?.();
    await expect.poll(async () => (await app.request('GET', '/ready')).status).toBe(200);
    expect((await upload('there again')).status).toBe(201);
  });

  test('that the environment names is not changed here', async () => {
    const other = await testApp({ settings: { storage: s3?.settings ?? null } });
    const token = other.operatorKey;
    const { body, headers } = await other.request('GET', path, { token });
    expect(body).toMatchObject({ backend: 's3', source: 'environment', bucket: 'bucket' });
    const refused = await other.request('PATCH', path, {
      ...{ token, body: { max_file_bytes: 5 } },
      headers: { ...mergePatch, 'if-match': headers.get('etag') ?? '' },
    });
    expect(coded(refused)).toEqual([409, 'set_by_environment']);
    expect((await other.request('POST', `${path}/test`, { token })).status).toBe(200);
    await other.close();
  });
});
