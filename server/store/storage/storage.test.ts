/** What every storage keeps to, on disk and in a real S3 storage, from one text. */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { glob, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createRelay, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { newId } from '../../ids.ts';
import { mountsOfItsOwn, smallDisk } from '../../test-disk.ts';
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

    test('its size is told, and bytes of another one are not begun', async () => {
      const key = await write(randomBytes(1000));
      expect(await kept.storage.sizeOf(key)).toBe(1000);
      expect(await kept.storage.sizeOf(newId('storedObject'))).toBeNull();
      for (const range of [undefined, { first: 0, last: 9 }]) {
        expect((await buffer(await kept.storage.read(key, range, 1000))).length).toBe(range ? 10 : 1000);
        const other = kept.storage.read(key, range, 1001);
        await expect(other).rejects.toMatchObject({ code: 'storage_unavailable' });
      }
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
      await kept.storage.ping(AbortSignal.timeout(60_000));
      await kept.storage.delete(key);
    });
  });

test('a storage that breaks off in the middle of an object is away', async () => {
  const server = createServer((_, answer) => {
    answer.writeHead(200, { 'content-length': 9_000_000 });
    answer.write(Buffer.alloc(1000), () => answer.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const endpoint = `http://127.0.0.1:${port}`;
  const storage = s3Storage(
    { bucket: 'files', endpoint, region: 'us-east-1', prefix: '', pathStyle: true },
    { accessKeyId: 'key', secretAccessKey: 'secret' },
    fetch,
  );
  try {
    await expect(storage.read(newId('storedObject')).then(buffer)).rejects.toMatchObject({
      code: 'storage_unavailable',
    });
  } finally {
    server.close();
  }
});

describe.skipIf(!mountsOfItsOwn)('a disk', () => {
  const read = (file: string) => JSON.stringify(join(import.meta.dirname, file));

  /** Writes in a process that alone sees a small disk, and answers with what became of it. */
  async function attempt(size: string, body: string): Promise<Record<string, unknown>> {
    const folder = await mkdtemp(join(tmpdir(), 'service-small-'));
    const script = `
      import { execFileSync } from 'node:child_process';
      import { writeFileSync } from 'node:fs';
      import { diskStorage } from ${read('disk.ts')};
      const [folder] = process.argv.slice(-1);
      const storage = diskStorage(folder);
      const only = async function* (bytes) { yield bytes; };
      const write = (key, bytes = Buffer.from('x')) => storage.write(key, only(bytes));
      const all = async () => { ${body} };
      const told = await all().then(() => ({}), ({ name, code, message, cause }) =>
        ({ name, code, message, cause: cause?.code }));
      process.stdout.write(JSON.stringify(told));`;
    try {
      const [command = '', ...words] = await smallDisk(join(folder, 'disk'), size);
      const node = [process.execPath, '--input-type=module', '--eval', script, '--', join(folder, 'disk')];
      return JSON.parse(execFileSync(command, [...words, ...node], { encoding: 'utf8' }));
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  test.each([
    ['bytes', '64k', `await write('obj_aaaa', Buffer.alloc(100_000));`],
    ['folders', '64k,nr_inodes=4', `await write('obj_aaaa');`],
    ['names', '64k,nr_inodes=7', `await write('obj_aaaa'); await write('obj_aabb');`],
  ])('without room for %s is full', async (_, size, body) => {
    expect(await attempt(size, body)).toMatchObject({ code: 'storage_full', cause: 'ENOSPC' });
  });

  const readOnly = `execFileSync('mount', ['-o', 'remount,ro', folder]);`;
  test.each([
    ['is read-only', `await write('obj_aaaa'); ${readOnly} await write('obj_bbbb');`, 'EROFS'],
    ['is read-only, and empty', `${readOnly} await write('obj_bbbb');`, expect.any(String)],
    [
      'has something else there',
      `writeFileSync(folder + '/objects', ''); await write('obj_bbbb');`,
      'ENOTDIR',
    ],
    [
      'may open no file more',
      `await write('obj_aaaa');
      const { openSync } = await import('node:fs');
      execFileSync('prlimit', ['--nofile=60', '--pid', String(process.pid)]);
      try { while (true) openSync(folder); } catch {}
      await write('obj_aaab');`,
      'EMFILE',
    ],
  ])('that %s is away', async (_, body, cause) => {
    expect(await attempt('64k', body)).toMatchObject({ code: 'storage_unavailable', cause });
  });

  test('has no part in what its caller fails with', async () => {
    const failing = `await storage.write('obj_aaaa', (async function* () {
      yield Buffer.from('x');
      throw Object.assign(new Error('the pipe of the caller'), { code: 'EIO' });
    })());`;
    const told = await attempt('64k', failing);
    expect(told).toMatchObject({ name: 'Error', code: 'EIO', message: 'the pipe of the caller' });
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
      () => storage.ping(AbortSignal.timeout(60_000)),
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

  test('is left by whoever never begins to read', async () => {
    const { credentials, ...bucket } = server.settings;
    const way = await wayTo(bucket.endpoint ?? '');
    const storage = s3Storage({ ...bucket, endpoint: way.url }, credentials, fetch);
    const key = newId('storedObject');
    // More than fits into what lies between the storage and its reader.
    await storage.write(key, Readable.from([Buffer.alloc(8 * 1024 * 1024)]));
    const opened = await Promise.all(Array.from({ length: 20 }, () => storage.read(key)));
    expect(way.open()).toBeGreaterThanOrEqual(20);
    for (const bytes of opened) bytes.destroy();
    // Those that are idle are closed after some seconds.
    await expect.poll(way.open).toBe(0);
    await way.close();
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

    describe('takes those that a service lends', () => {
      const role = 'arn:aws:iam::123456789012:role/files';
      /** What the service was asked. */
      let asked: { readonly url: string; readonly headers: IncomingHttpHeaders; readonly body: string }[] =
        [];
      let lender: Server;

      beforeAll(async () => {
        lender = createServer(async (request, response) => {
          const { url = '', headers } = request;
          const body = (await buffer(request)).toString();
          asked.push({ url, headers, body });
          response.end(url.startsWith('/federation') ? lentAsJson() : lentAsXml(body));
        }).listen(0, '127.0.0.1');
        await once(lender, 'listening');
      });
      afterAll(() => lender.close());
      beforeEach(async () => {
        asked = [];
        const { port } = lender.address() as AddressInfo; // it listens on a port
        const url = `http://127.0.0.1:${port}`;
        for (const service of ['STS', 'SSO']) vi.stubEnv(`AWS_ENDPOINT_URL_${service}`, url);
        vi.stubEnv('AWS_REGION', 'us-east-1');
        vi.stubEnv('HOME', home);
      });

      const lent = {
        accessKeyId: 'lent-key',
        secretAccessKey: 'lent secret',
        sessionToken: 'lent for an hour',
      };
      const expiration = Date.now() + 3_600_000;
      const lentAsJson = () => JSON.stringify({ roleCredentials: { ...lent, expiration } });
      const lentAsXml = (body: string) => {
        const action = new URLSearchParams(body).get('Action');
        return `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result><Credentials>
          <AccessKeyId>${lent.accessKeyId}</AccessKeyId><SecretAccessKey>${lent.secretAccessKey}</SecretAccessKey>
          <SessionToken>${lent.sessionToken}</SessionToken>
          <Expiration>${new Date(expiration).toISOString()}</Expiration>
          </Credentials></${action}Result></${action}Response>`;
      };

      /** What the bucket is asked with: the server of the tests lends nothing, and refuses every key that is lent. */
      const keyShown = async () => {
        const { credentials: _, ...bucket } = server.settings;
        const shown: Headers[] = [];
        const storage = s3Storage(bucket, null, (url, given) => {
          if (String(url).startsWith(bucket.endpoint ?? '?')) shown.push(new Headers(given?.headers));
          return fetch(url, given);
        });
        await expect(storage.ping(AbortSignal.timeout(60_000))).rejects.toMatchObject({
          code: 'storage_unavailable',
        });
        return [
          shown[0]?.get('authorization')?.match(/Credential=([^/]*)/)?.[1],
          shown[0]?.get('x-amz-security-token'),
        ];
      };
      const keyLent = [lent.accessKeyId, lent.sessionToken];
      const useProfile = async (name: string, config: string) => {
        await writeFile(join(home, `config-${name}`), `[profile ${name}]\n${config}\n`);
        vi.stubEnv('AWS_CONFIG_FILE', join(home, `config-${name}`));
        vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(home, 'none'));
        vi.stubEnv('AWS_PROFILE', name);
      };

      test('to a role that another key may take', async () => {
        const other = 'aws_access_key_id = the-key-of-somebody\naws_secret_access_key = a secret';
        await useProfile('role', `role_arn = ${role}\nsource_profile = other\n[profile other]\n${other}`);
        expect(await keyShown()).toEqual(keyLent);
        const [{ body, headers } = { body: '', headers: {} }] = asked;
        expect(Object.fromEntries(new URLSearchParams(body))).toMatchObject({
          Action: 'AssumeRole',
          RoleArn: role,
        });
        expect(headers.authorization).toContain('Credential=the-key-of-somebody/');
      });

      test('to who shows a token of its cluster', async () => {
        await writeFile(join(home, 'token'), 'header.claims.signature');
        vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', join(home, 'token'));
        vi.stubEnv('AWS_ROLE_ARN', role);
        vi.stubEnv('AWS_CONFIG_FILE', join(home, 'none'));
        vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(home, 'none'));
        expect(await keyShown()).toEqual(keyLent);
        expect(Object.fromEntries(new URLSearchParams(asked[0]?.body))).toMatchObject({
          Action: 'AssumeRoleWithWebIdentity',
          RoleArn: role,
          WebIdentityToken: 'header.claims.signature',
        });
      });

      test('to a person who has signed in there', async () => {
        const start = 'https://people.example/start';
        const cache = join(home, '.aws/sso/cache');
        await mkdir(cache, { recursive: true });
        const signedIn = {
          accessToken: 'of a person',
          expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
        };
        const name = createHash('sha1').update(start).digest('hex');
        await writeFile(join(cache, `${name}.json`), JSON.stringify({ startUrl: start, ...signedIn }));
        const account = { sso_account_id: '123456789012', sso_role_name: 'files', sso_region: 'us-east-1' };
        const lines = Object.entries({ sso_start_url: start, ...account }).map(
          ([key, value]) => `${key} = ${value}`,
        );
        await useProfile('person', lines.join('\n'));
        expect(await keyShown()).toEqual(keyLent);
        expect(asked[0]?.url).toMatch(/^\/federation\/credentials\?.*role_name=files/);
        expect(asked[0]?.headers['x-amz-sso_bearer_token']).toBe('of a person');
      });
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
    await storage.ping(AbortSignal.timeout(60_000));
  });
});

/** A way to a server that tells how many connections are open. */
async function wayTo(endpoint: string) {
  const { hostname, port } = new URL(endpoint);
  const open = new Set<Socket>();
  const way = createRelay((near) => {
    open.add(near);
    const far = connect(Number(port), hostname);
    near.pipe(far).pipe(near);
    near
      .on('error', () => undefined)
      .on('close', () => {
        open.delete(near);
        far.destroy();
      });
    far.on('error', () => undefined).on('close', () => near.destroy());
  }).listen(0, '127.0.0.1');
  await once(way, 'listening');
  const { port: ownPort } = way.address() as AddressInfo; // it listens on a port
  return {
    url: `http://127.0.0.1:${ownPort}`,
    open: () => open.size,
    close: () => new Promise((resolve) => way.close(resolve)),
  };
}
