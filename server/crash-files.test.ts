/** Uploads whose server is killed: what was acknowledged is there, no row is without its bytes, and the rest is swept. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { systemClock } from './clock.ts';
import { ask, expectSound, randomFrom, seed } from './crash-checks.ts';
import { createLog } from './log.ts';
import { type ServerProcess, startServer, temporaryFolder } from './server-process.ts';
import { readServerSettings } from './server-settings/server-settings.ts';
import { openStore } from './store/store.ts';
import { hasS3, startS3, type TestS3 } from './store/test-s3.ts';
import type { Json } from './test-app.ts';

const megabyte = 1024 * 1024;

/** What is sent when the server dies: by then it has reserved room, or it has stored a part of the bytes. */
const stages = [10, 9 * megabyte];
/** Kills at any moment between the first byte and the answer. */
const randomKills = Number(process.env.CRASH_KILLS ?? 3);

test.each(['disk', 'S3'])(
  'on %s no kill leaves a row without its bytes, or bytes for good that no row has',
  { skip: !hasS3, timeout: 60_000 + (stages.length + randomKills) * 30_000 },
  async (backend) => {
    console.info(`crash test of files: CRASH_SEED=${seed}`);
    const random = randomFrom(seed);
    const s3 = backend === 'S3' ? await startS3() : null;
    try {
      const folder = await temporaryFolder();
      const variables = s3 ? { STORAGE_URL: s3.url } : {};
      let server = await startServer({ folder, variables });
      const { key } = server;
      const acknowledged = new Map<string, string>();
      const resumed = await beginResumed(server, key);
      const repeated = new Set<string>();
      for (const sent of [...stages, ...Array<null>(randomKills).fill(null)]) {
        const before = { rows: await uploading(folder), objects: (await stored(folder, s3)).length };
        const uploads = sent === null ? many(server, key) : [held(server, key, sent)];
        const others = sent === null ? [goOn(server, key, resumed), repeat(server, key, repeated)] : [];
        // One that is acknowledged, and others that are under way.
        if (sent === null) await Promise.all([uploads[0], sleep(random() * 300)]);
        else await expect.poll(() => uploading(folder)).toBeGreaterThan(before.rows);
        if (sent !== null && sent > megabyte)
          await expect.poll(async () => (await stored(folder, s3)).length).toBeGreaterThan(before.objects);
        await server.kill9();
        await Promise.all(others);
        for (const file of await Promise.all(uploads)) if (file) acknowledged.set(file.id, file.sha256);
        server = await startServer({ folder, variables });
        await expectWhole(server, key, acknowledged);
        await expectSound(join(folder, 'data/service.db'));
      }
      expect(acknowledged.size).toBeGreaterThan(0);
      await expectResumed(server, key, resumed);
      await repeat(server, key, repeated);
      expect(repeated.size).toBe(1);
      expect(await listed(server, key, `&sha256=${hashOf(repeatedBytes)}`)).toEqual(
        new Map([...repeated].map((id) => [id, hashOf(repeatedBytes)])),
      );
      await server.stop();
      await expectSwept(folder, variables, s3);
    } finally {
      await s3?.stop();
    }
  },
);

/** The file that was answered with; null where nothing was. */
type Upload = Promise<{ readonly id: string; readonly sha256: string } | null>;

function many(server: ServerProcess, key: string): Upload[] {
  return [10, 100, 300_000, 9 * megabyte, 17 * megabyte].map((size) => {
    const bytes = randomBytes(size);
    const form = new FormData();
    form.append('file', new Blob([bytes]), 'a.bin');
    return send(server, key, form, hashOf(bytes));
  });
}

const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** The same request under one key, over all kills. */
const repeatedBytes = randomBytes(9 * megabyte);

async function repeat(server: ServerProcess, key: string, made: Set<string>): Promise<void> {
  const form = new FormData();
  form.append('file', new Blob([repeatedBytes]), 'once.bin');
  const file = await send(server, key, form, hashOf(repeatedBytes), { 'idempotency-key': 'once' });
  if (file) made.add(file.id);
}

/** An upload that is gone on with, over all kills. */
interface Resumed {
  readonly id: string;
  readonly bytes: Buffer;
  /** So many of them have been acknowledged. */
  acknowledged: number;
}

async function beginResumed({ url }: ServerProcess, key: string): Promise<Resumed> {
  const bytes = randomBytes(30 * megabyte);
  const answer = await fetch(`${url}/api/v1/files/uploads`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ filename: 'long.bin', size: bytes.length, sha256: hashOf(bytes) }),
  });
  expect(answer.status).toBe(201);
  const { id }: Json = await answer.json();
  return { id, bytes, acknowledged: 0 };
}

/** The next part; null where the server is gone. */
async function append(
  { url }: ServerProcess,
  key: string,
  { id }: Resumed,
  offset: number,
  part: Uint8Array,
) {
  return await fetch(`${url}/api/v1/files/uploads/${id}`, {
    method: 'PATCH',
    headers: {
      ...{ authorization: `Bearer ${key}`, 'content-type': 'application/octet-stream' },
      'upload-offset': String(offset),
    },
    body: part as Uint8Array<ArrayBuffer>, // of memory that nobody shares
  }).catch((error: unknown) => {
    if (error instanceof TypeError) return null;
    throw error;
  });
}

/** Goes on from where the server says, which is never before what it has acknowledged. */
async function goOn(server: ServerProcess, key: string, resumed: Resumed): Promise<void> {
  const asked = await append(server, key, resumed, 5_000_000_000, Buffer.from('x'));
  if (!asked) return;
  expect(asked.status).toBe(409);
  const offset = Number(asked.headers.get('upload-offset'));
  expect(offset).toBeGreaterThanOrEqual(resumed.acknowledged);
  const part = resumed.bytes.subarray(offset, offset + 10 * megabyte);
  if (part.length === 0) return;
  const answer = await append(server, key, resumed, offset, part);
  if (!answer) return;
  expect(answer.status).toBe(204);
  resumed.acknowledged = Number(answer.headers.get('upload-offset'));
}

/** Its bytes are all there in the end, each once. */
async function expectResumed(server: ServerProcess, key: string, resumed: Resumed): Promise<void> {
  const { id, bytes } = resumed;
  while (resumed.acknowledged < bytes.length) await goOn(server, key, resumed);
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${server.url}/api/v1/files/uploads/${id}/complete`, {
    ...{ method: 'POST', headers },
  });
  expect(await answer.json()).toMatchObject({ size: bytes.length, sha256: hashOf(bytes) });
}

/** Sends so many bytes, and then waits for an end that does not come. */
function held(server: ServerProcess, key: string, size: number): Upload {
  const head = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n';
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(Buffer.concat([Buffer.from(head), randomBytes(size)]));
    },
  });
  return send(server, key, body, '', { 'content-type': 'multipart/form-data; boundary=x' });
}

async function send(
  server: ServerProcess,
  key: string,
  body: FormData | ReadableStream<Uint8Array>,
  sha256: string,
  headers: Record<string, string> = {},
): Upload {
  try {
    const answer = await fetch(`${server.url}/api/v1/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, ...headers },
      body,
      ...(body instanceof ReadableStream && { duplex: 'half' as const }),
    });
    const file: Json = await answer.json();
    expect(answer.status).toBe(201);
    return { id: file.id, sha256 };
  } catch (error) {
    // The server is gone, as it was meant to.
    if (error instanceof TypeError) return null;
    throw error;
  }
}

/** Every file that is listed, acknowledged or not, is downloaded as it was sent. */
async function expectWhole(server: ServerProcess, key: string, acknowledged: ReadonlyMap<string, string>) {
  const headers = { authorization: `Bearer ${key}` };
  const found = await listed(server, key);
  expect([...found]).toEqual(expect.arrayContaining([...acknowledged]));
  for (const [id, sha256] of found) {
    const answer = await fetch(`${server.url}/api/v1/files/${id}/content`, { headers });
    const bytes = Buffer.from(await answer.arrayBuffer());
    expect(hashOf(bytes)).toBe(sha256);
  }
}

/** Hashes by id. */
async function listed({ url }: ServerProcess, key: string, query = ''): Promise<Map<string, string>> {
  const headers = { authorization: `Bearer ${key}` };
  const list: Json = await (await fetch(`${url}/api/v1/files?limit=100${query}`, { headers })).json();
  return new Map(list.data.map(({ id, sha256 }: Json) => [id, sha256]));
}

/** As an hour later, or by another node: what is in the storage is what files need, and nothing else has a row. */
async function expectSwept(folder: string, variables: Record<string, string>, s3: TestS3 | null) {
  const { storage } = readServerSettings([], { ...variables, HOME: folder }).settings;
  const store = await openStore(`sqlite:${join(folder, 'data/service.db')}`, {
    clock: systemClock,
    log: createLog('silent'),
    storage: {
      directory: join(folder, 'data/files'),
      environment: storage,
      means: async () => ({ ...nothing, fetch: { environment: fetch, setting: fetch } }),
    },
  });
  await store.files.sweep(new Date(Date.now() + 3_600_000));
  await store.close();
  const rows = await ask(folder, (sql) => sql('stored_objects').select('key', 'state'));
  expect(rows.filter(({ state }) => state !== 'kept')).toEqual([]);
  expect((await stored(folder, s3)).sort()).toEqual(rows.map(({ key }) => key).sort());
  expect(await ask(folder, (sql) => sql('files').pluck('object_key'))).toHaveLength(rows.length);
}

const refuse = () => {
  throw new Error('Nothing is sealed here.');
};
const nothing = { unseal: refuse, seal: refuse, refusalOf: () => null, sentence: String };

async function stored(folder: string, s3: TestS3 | null): Promise<string[]> {
  if (s3) return s3.stored();
  const place = join(folder, 'data/files');
  // It is made with the first object.
  await mkdir(place, { recursive: true });
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

async function uploading(folder: string): Promise<number> {
  return (await ask(folder, (sql) => sql('stored_objects').where({ state: 'uploading' }).pluck('key')))
    .length;
}
