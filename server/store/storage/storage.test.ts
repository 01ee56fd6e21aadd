/** What every storage keeps to, on disk and in a real S3 storage, from one text. */
import { randomBytes } from 'node:crypto';
import { glob, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { newId } from '../../ids.ts';
import { hasS3, startS3, type TestS3 } from '../test-s3.ts';
import { diskStorage } from './disk.ts';
import { s3Storage } from './s3.ts';
import type { Storage } from './storage.ts';

interface Kept {
  readonly storage: Storage;
  stored(): Promise<string[]>;
  remove(): Promise<void>;
}

async function onDisk(): Promise<Kept> {
  const folder = await mkdtemp(join(tmpdir(), 'service-storage-'));
  return {
    storage: diskStorage(folder),
    async stored() {
      const found: string[] = [];
      for await (const entry of glob('**', { cwd: folder, withFileTypes: true }))
        if (entry.isFile()) found.push(entry.name);
      return found;
    },
    remove: () => rm(folder, { recursive: true }),
  };
}

async function inBucket(): Promise<Kept> {
  const server = await startS3();
  const { credentials, ...bucket } = server.settings;
  return { storage: s3Storage(bucket, credentials, fetch), stored: server.stored, remove: server.stop };
}

const backends = [
  ['disk', onDisk, true],
  ['S3', inBucket, hasS3],
] as const;

for (const [title, open, here] of backends)
  describe.skipIf(!here)(`on ${title}`, () => {
    let kept: Kept;
    const write = async (bytes: Uint8Array | AsyncIterable<Uint8Array>) => {
      const key = newId('storedObject');
      await kept.storage.write(key, bytes instanceof Uint8Array ? Readable.from([bytes]) : bytes);
      return key;
    };
    const read = async (key: string, range?: { first: number; last: number }) =>
      buffer(await kept.storage.read(key, range));

    beforeAll(async () => {
      kept = await open();
    });
    afterAll(() => kept.remove());

    // Below, at and above the size of a part, and of two.
    test.each([0, 1, 8 * 1024 * 1024, 8 * 1024 * 1024 + 1, 20_000_000])(
      '%d bytes come back as they went in, and are gone when they are deleted',
      async (size) => {
        const bytes = randomBytes(size);
        const key = await write(bytes);
        expect((await read(key)).equals(bytes)).toBe(true);
        expect(await kept.stored()).toEqual([key]);
        await kept.storage.delete(key);
        await expect(kept.storage.read(key)).rejects.toMatchObject({ code: 'storage_unavailable' });
        expect(await kept.stored()).toEqual([]);
        await kept.storage.delete(key);
      },
    );

    test('a range is its bytes alone, across parts too', async () => {
      const bytes = randomBytes(8 * 1024 * 1024 + 100);
      const key = await write(bytes);
      for (const [first, last] of [
        [0, 0],
        [10, 20],
        [bytes.length - 150, bytes.length - 1],
      ] as const)
        expect((await read(key, { first, last })).equals(bytes.subarray(first, last + 1))).toBe(true);
      await kept.storage.delete(key);
    });

    test('what breaks off is read by nobody, and leaves nothing once it is deleted', async () => {
      const key = newId('storedObject');
      async function* broken() {
        yield randomBytes(9 * 1024 * 1024);
        throw new Error('the caller has gone');
      }
      await expect(kept.storage.write(key, broken())).rejects.toThrow('the caller has gone');
      expect(await kept.stored()).not.toEqual([]);
      await expect(kept.storage.read(key)).rejects.toMatchObject({ code: 'storage_unavailable' });
      await kept.storage.delete(key);
      expect(await kept.stored()).toEqual([]);
    });

    test('whoever stops reading keeps nothing open', async () => {
      const key = await write(randomBytes(9 * 1024 * 1024));
      for (let times = 0; times < 20; times += 1)
        for await (const chunk of await kept.storage.read(key)) {
          expect(chunk.length).toBeGreaterThan(0);
          break;
        }
      await kept.storage.ping(AbortSignal.timeout(5000));
      await kept.storage.delete(key);
    });
  });

describe.skipIf(!hasS3)('a bucket', () => {
  let server: TestS3;
  beforeAll(async () => {
    server = await startS3();
  });
  afterAll(() => server.stop());

  test.each([
    ['a wrong secret', { secretAccessKey: 'another' }, {}],
    ['a bucket that is not there', {}, { bucket: 'elsewhere' }],
  ])('with %s is away, and neither is told in an error', async (_, otherCredentials, otherBucket) => {
    const { credentials, ...bucket } = server.settings;
    if (!credentials) throw new Error('There are credentials.');
    const storage = s3Storage({ ...bucket, ...otherBucket }, { ...credentials, ...otherCredentials }, fetch);
    const key = newId('storedObject');
    for (const attempt of [
      () => storage.ping(AbortSignal.timeout(5000)),
      () => storage.write(key, Readable.from([Buffer.from('x')])),
      () => storage.read(key),
      () => storage.delete(key),
    ])
      await expect(attempt()).rejects.toMatchObject({
        code: 'storage_unavailable',
        message: expect.not.stringMatching(/elsewhere|another|test-key/),
      });
  });

  test('takes a key once, and once more what an attempt has brought whose answer was lost', async () => {
    const { credentials, ...bucket } = server.settings;
    const storage = s3Storage(bucket, credentials, fetch);
    const key = newId('storedObject');
    const write = (text: string) => storage.write(key, Readable.from([Buffer.from(text)]));
    await write('first');
    await write('first');
    await expect(write('second one')).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect((await buffer(await storage.read(key))).toString()).toBe('first');
  });

  describe('without credentials of its own', () => {
    const profile = 'service-storage-test';
    let home: string;
    beforeAll(async () => {
      home = await mkdtemp(join(tmpdir(), 'service-aws-'));
    });
    afterAll(() => rm(home, { recursive: true }));
    afterEach(() => vi.unstubAllEnvs());

    const tryIt = async () => {
      const { credentials: _, ...bucket } = server.settings;
      const storage = s3Storage(bucket, null, fetch);
      const key = newId('storedObject');
      await storage.write(key, Readable.from([Buffer.from('mine')]));
      return (await buffer(await storage.read(key))).toString();
    };
    const given = () => {
      const { credentials } = server.settings;
      if (!credentials) throw new Error('The test server has a key.');
      return credentials;
    };

    test('takes those of the environment', async () => {
      vi.stubEnv('AWS_ACCESS_KEY_ID', given().accessKeyId);
      vi.stubEnv('AWS_SECRET_ACCESS_KEY', given().secretAccessKey);
      expect(await tryIt()).toBe('mine');
      vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'another');
      await expect(tryIt()).rejects.toMatchObject({ code: 'storage_unavailable' });
    });

    test('takes those of a profile, written down or told by a program', async () => {
      const { accessKeyId, secretAccessKey } = given();
      const told = JSON.stringify({
        ...{ Version: 1, AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey },
      });
      await writeFile(join(home, 'told.json'), told);
      await writeFile(
        join(home, 'credentials'),
        `[${profile}]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`,
      );
      await writeFile(
        join(home, 'config'),
        `[profile ${profile}-program]\ncredential_process = cat ${join(home, 'told.json')}\n`,
      );
      vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(home, 'credentials'));
      vi.stubEnv('AWS_CONFIG_FILE', join(home, 'config'));
      for (const name of [profile, `${profile}-program`]) {
        vi.stubEnv('AWS_PROFILE', name);
        expect(await tryIt()).toBe('mine');
      }
    });
  });

  test('that goes away is told of within seconds, and is used again when it is back', async () => {
    const { credentials, ...bucket } = server.settings;
    const storage = s3Storage(bucket, credentials, fetch);
    const back = await server.interrupt();
    const began = performance.now();
    await expect(storage.ping(AbortSignal.timeout(2000))).rejects.toMatchObject({
      code: 'storage_unavailable',
    });
    await expect(storage.read(newId('storedObject'))).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect(performance.now() - began).toBeLessThan(15_000);
    await back();
    await storage.ping(AbortSignal.timeout(5000));
  });
});
