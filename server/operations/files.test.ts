/** The files family over HTTP: what comes in as it arrives, what goes out in parts, and what is left of neither. */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { glob, rm, truncate } from 'node:fs/promises';
import { createServer, request as httpRequest } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { basename, join } from 'node:path';
import { json } from 'node:stream/consumers';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makePdf } from '../knowledge/parsing/test-documents.ts';
import { startS3, type TestS3 } from '../store/test-s3.ts';
import {
  type Account,
  type Answer,
  coded,
  type Json,
  mergePatch,
  type TestApp,
  testApp,
} from '../test-app.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;
let s3: TestS3 | null = null;

const path = '/api/v1/files';

/** A part of a form; the last one of most is the file. */
type Part = readonly [name: string, value: string | Uint8Array<ArrayBuffer>, filename?: string];

async function upload(parts: readonly Part[], token = ada.token): Promise<Answer> {
  const form = new FormData();
  for (const [name, value, filename] of parts)
    if (filename === undefined && typeof value === 'string') form.append(name, value);
    else form.append(name, new Blob([value]), filename);
  return post(form, token);
}

async function post(
  body: string | FormData | ReadableStream<Uint8Array>,
  token: string,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Answer> {
  const answer = await fetch(app.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, ...headers },
    body,
    ...(body instanceof ReadableStream && { duplex: 'half' as const }),
    ...(signal && { signal }),
  });
  return { status: answer.status, headers: answer.headers, body: await answer.json() };
}

/** The bytes of a form as they stand on the wire. */
function wire(parts: readonly string[], end = '--x--\r\n'): string {
  return parts.map((part) => `--x\r\n${part}\r\n`).join('') + end;
}

/**
 * Sends what begins and never ends, until the caller goes away. What is `sent` reaches the server, whoever leaves then;
 * `gone` says how the caller was told.
 */
function sendUntilGone(method: string, at: string, begin: Uint8Array, more: Record<string, string>) {
  const headers = { authorization: `Bearer ${ada.token}`, ...more };
  const request = httpRequest(app.url + at, { method, headers });
  const gone = new Promise<string>((resolve, reject) => {
    request.on('error', ({ message }) => resolve(message));
    request.on('response', (answer) => json(answer).then((body) => resolve((body as Json).code), reject));
  });
  const sent = new Promise<void>((resolve) => void request.write(begin, () => resolve()));
  return { leave: () => request.destroy(new Error('left')), sent, gone };
}

const typed = { 'content-type': 'multipart/form-data; boundary=x' };
/** More than a part in S3, so that something is there before the end. */
const manyBytes = 'x'.repeat(9 * 1024 * 1024);
const filePart = 'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nabc';
const beginning = Buffer.from(wire([filePart], '') + manyBytes);

async function uploaded(text: string, name = 'a.txt', token = ada.token): Promise<Json> {
  const answer = await upload([['file', text, name]], token);
  expect(coded(answer)).toEqual([201, null]);
  return answer.body;
}

async function download(id: string, headers: Record<string, string> = {}, token = ada.token) {
  const answer = await app.stream('GET', `${path}/${id}/content`, { token, headers });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

/** Every file below the folder of the storage, drafts among them; or what the bucket has, parts among it. */
async function stored(): Promise<string[]> {
  return s3 ? s3.stored() : (await storedFiles()).map((file) => basename(file));
}

/** The same, and where it lies. */
async function storedFiles(): Promise<string[]> {
  const folder = s3?.folder ?? join(app.services.settings.dataDirectory, 'files');
  const found: string[] = [];
  for await (const entry of glob('**', { cwd: folder, withFileTypes: true }))
    if (entry.isFile()) found.push(join(entry.parentPath, entry.name));
  return found;
}

describe.each([
  ['on disk', false],
  ['in S3', true],
] as const)('%s', (_, inBucket) => {
  beforeAll(async () => {
    s3 = inBucket ? await startS3() : null;
    app = await testApp({ settings: { storage: s3?.settings ?? null } });
    ada = await app.register('ada');
    mallory = await app.register('mallory');
  });
  afterAll(async () => {
    await app.close();
    await s3?.stop();
  });

  describe('a file', () => {
    test('is uploaded, named by its Location, listed, changed by who has read it, downloaded, and deleted', async () => {
      const answer = await upload([
        ['purpose', 'knowledge'],
        ['metadata', '{"ticket":"A-1"}'],
        ['file', '# Title\n', 'Notes of Mai — «1».md'],
      ]);
      expect(answer.status).toBe(201);
      const file = answer.body;
      expect(answer.headers.get('location')).toBe(`${path}/${file.id}`);
      expect(file).toMatchObject({
        filename: 'Notes of Mai — «1».md',
        size: 8,
        sha256: createHash('sha256').update('# Title\n').digest('hex'),
        media_type: 'text/markdown',
        purpose: 'knowledge',
        metadata: { ticket: 'A-1' },
        created_by: ada.user.id,
      });
      const { token } = ada;
      const read = await app.request('GET', `${path}/${file.id}`, { token });
      expect(read.body).toEqual(file);
      const list = (query: string) => app.request('GET', `${path}?${query}`, { token });
      expect((await list(`sha256=${file.sha256}&purpose=knowledge&q=notes`)).body.data).toEqual([file]);
      for (const query of ['purpose=attachment', 'q=otes', `sha256=${'0'.repeat(64)}`])
        expect((await list(query)).body.data).toEqual([]);

      const etag = read.headers.get('etag') ?? '';
      const change = (ifMatch: string) =>
        app.request('PATCH', `${path}/${file.id}`, {
          token,
          headers: { ...mergePatch, 'if-match': ifMatch },
          body: { filename: 'Renamed.md', metadata: { ticket: null, kind: 'x' } },
        });
      const changed = await change(etag);
      expect(changed.body).toMatchObject({ filename: 'Renamed.md', metadata: { kind: 'x' }, size: 8 });
      expect(coded(await change(etag))).toEqual([412, 'precondition_failed']);
      expect((await list('q=RENAMED')).body.data).toEqual([changed.body]);

      const bytes = await download(file.id);
      expect([bytes.status, bytes.text]).toEqual([200, '# Title\n']);
      expect((await app.request('DELETE', `${path}/${file.id}`, { token })).status).toBe(204);
      expect((await download(file.id)).status).toBe(404);
      expect(await stored()).toEqual([]);
    });

    test('whose bytes the organization has is kept once, until the last one goes', async () => {
      const [one, two] = [await uploaded('twice'), await uploaded('twice', 'b.txt')];
      expect(await stored()).toHaveLength(1);
      await app.request('DELETE', `${path}/${one.id}`, { token: ada.token });
      expect((await download(two.id)).text).toBe('twice');
      await app.request('DELETE', `${path}/${two.id}`, { token: ada.token });
      expect(await stored()).toEqual([]);
    });

    test.each<[string, (file: string) => Promise<void>]>([
      ['lost', (file) => rm(file)],
      ['cut off', (file) => truncate(file, 3)],
    ])('whose bytes are %s is refused, and there again once they are uploaded again', async (fate, harm) => {
      const text = `precious, and ${fate}`;
      const files = [await uploaded(text), await uploaded(text, 'b.txt')];
      for (const file of await storedFiles()) await harm(file);
      for (const headers of [{}, { range: 'bytes=0-1' }] as const) {
        const refused = await download(files[0]?.id, headers);
        expect([refused.status, JSON.parse(refused.text).code]).toEqual([503, 'storage_unavailable']);
        const head = await app.stream('HEAD', `${path}/${files[0]?.id}/content`, {
          token: ada.token,
          headers,
        });
        expect(head.status).toBe(503);
      }
      files.push(await uploaded(text, 'c.txt'), await uploaded(text, 'd.txt'));
      for (const { id } of files) expect((await download(id)).text).toBe(text);
      await app.services.store.files.sweep(new Date());
      expect(await stored()).toHaveLength(1);
      for (const { id } of files) await app.request('DELETE', `${path}/${id}`, { token: ada.token });
      expect(await stored()).toEqual([]);
    });

    test('uploaded many times at once is kept once', async () => {
      const bytes = randomBytes(200_000).toString('hex');
      const files = await Promise.all(Array.from({ length: 8 }, (_, at) => uploaded(bytes, `${at}.txt`)));
      expect(await stored()).toHaveLength(1);
      await Promise.all(files.map(({ id }) => app.request('DELETE', `${path}/${id}`, { token: ada.token })));
      expect(await stored()).toEqual([]);
    });

    test('whose bytes another organization has is stored all the same, and neither sees the other', async () => {
      const [hers, theirs] = [await uploaded('shared'), await uploaded('shared', 'a.txt', mallory.token)];
      expect(await stored()).toHaveLength(2);
      const found = await app.request('GET', `${path}?sha256=${hers.sha256}`, { token: mallory.token });
      expect(found.body.data.map(({ id }: Json) => id)).toEqual([theirs.id]);
      for (const [method, at] of [
        ['GET', ''],
        ['DELETE', ''],
        ['GET', '/content'],
      ] as const)
        expect(coded(await app.request(method, `${path}/${hers.id}${at}`, { token: mallory.token }))).toEqual(
          [404, 'not_found'],
        );
      const workspace_id = hers.workspace_id;
      const strange = await upload(
        [
          ['workspace_id', workspace_id],
          ['file', 'x', 'x'],
        ],
        mallory.token,
      );
      expect(coded(strange)).toEqual([404, 'not_found']);
      for (const [{ id }, token] of [
        [hers, ada.token],
        [theirs, mallory.token],
      ] as const)
        await app.request('DELETE', `${path}/${id}`, { token });
    });

    test('goes with its workspace: its bytes with the next sweep', async () => {
      const { body: workspace } = await app.request('POST', '/api/v1/workspaces', {
        token: ada.token,
        body: { name: 'Passing' },
      });
      await upload([
        ['workspace_id', workspace.id],
        ['file', 'passing', 'p.txt'],
      ]);
      expect(
        (await app.request('DELETE', `/api/v1/workspaces/${workspace.id}`, { token: ada.token })).status,
      ).toBe(204);
      expect(await app.services.store.files.sweep(new Date())).toBe(1);
      expect(await stored()).toEqual([]);
    });
  });

  describe('the type of a file', () => {
    test.each<[string, string | Uint8Array<ArrayBuffer>, string]>([
      ['page.png', '<html><script>alert(1)</script></html>', 'text/plain'],
      ['picture.txt', Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'), 'image/png'],
      ['report.html', '%PDF-1.7\n', 'application/pdf'],
      ['table.csv', 'a,b\n1,2\n', 'text/csv'],
      ['latin.txt', Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x20]), 'application/octet-stream'],
      ['empty', '', 'text/plain'],
    ])('%s is told by its bytes', async (name, bytes, type) => {
      const { body } = await upload([['file', bytes, name]]);
      expect(body.media_type).toBe(type);
      const answer = await download(body.id);
      expect(answer.headers.get('content-type')).toBe('application/octet-stream');
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
      expect(answer.headers.get('content-disposition')).toMatch(/^attachment; /);
      await app.request('DELETE', `${path}/${body.id}`, { token: ada.token });
    });
  });

  describe('the name of a file', () => {
    test.each([
      ['../../etc/passwd', 'passwd'],
      ['/absolute/name.txt', 'name.txt'],
      ['C:\\Users\\name.txt', 'name.txt'],
      ['quote".txt', 'quote".txt'],
      ["it's (1)*.txt", "it's (1)*.txt"],
    ])('%s is kept without any folder, and cannot break the header of a download', async (given, name) => {
      const part = `Content-Disposition: form-data; name="file"; filename="${given.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"\r\n\r\nx`;
      const { status, body } = await post(wire([part]), ada.token, typed);
      expect([status, body.filename]).toEqual([201, name]);
      const disposition = (await download(body.id)).headers.get('content-disposition') ?? '';
      expect(decodeURIComponent(disposition.split("''")[1] ?? '')).toBe(name);
      await app.request('DELETE', `${path}/${body.id}`, { token: ada.token });
    });

    test.each(['..', 'line\r\nbreak', 'turned\u202etxt', 'a\u0000b', 'n'.repeat(256)])(
      '%j is refused',
      async (filename) => {
        const answer = await upload([
          ['filename', filename],
          ['file', 'x', 'x'],
        ]);
        expect(coded(answer)).toEqual([400, 'invalid_request']);
      },
    );
  });

  describe('a download', () => {
    let id = '';
    beforeAll(async () => {
      ({ id } = await uploaded('0123456789'));
    });

    test.each<[string, number, string, string | null]>([
      ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
      ['bytes=4-', 206, '456789', 'bytes 4-9/10'],
      ['bytes=-3', 206, '789', 'bytes 7-9/10'],
      ['bytes=-30', 206, '0123456789', 'bytes 0-9/10'],
      ['bytes=8-99', 206, '89', 'bytes 8-9/10'],
      ['bytes=9-9', 206, '9', 'bytes 9-9/10'],
      ['bytes=0-1,4-5', 200, '0123456789', null],
      ['bytes=3-1', 200, '0123456789', null],
      ['lines=1-2', 200, '0123456789', null],
      ['bytes=-', 200, '0123456789', null],
    ])('of %s', async (range, status, text, contentRange) => {
      const answer = await download(id, { range });
      expect([answer.status, answer.text]).toEqual([status, text]);
      expect(answer.headers.get('content-range')).toBe(contentRange);
      expect(answer.headers.get('content-length')).toBe(String(text.length));
    });

    test.each(['bytes=10-', 'bytes=99-100', 'bytes=-0'])('of %s is refused with the size', async (range) => {
      const answer = await download(id, { range });
      expect([answer.status, answer.headers.get('content-range')]).toEqual([416, 'bytes */10']);
    });

    test.each([
      ['application/problem+json', 200],
      ['application/problem+json;q=0', 406],
      ['application/json', 406],
    ])(
      'is given to who accepts %s with %i: generated clients name the type of refusals alone',
      async (accept, status) => {
        expect((await download(id, { accept })).status).toBe(status);
      },
    );

    test('is not sent again to whoever has it, and a range only of the bytes that were begun', async () => {
      const etag = (await download(id)).headers.get('etag') ?? '';
      expect(await download(id, { 'if-none-match': etag })).toMatchObject({ status: 304, text: '' });
      expect((await download(id, { range: 'bytes=0-0', 'if-range': etag })).status).toBe(206);
      expect((await download(id, { range: 'bytes=0-0', 'if-range': '"other"' })).status).toBe(200);
      const head = await app.stream('HEAD', `${path}/${id}/content`, { token: ada.token });
      expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '10', '']);
    });
  });

  describe('an upload', () => {
    test.each<[string, string]>([
      ['without a file', wire(['Content-Disposition: form-data; name="purpose"\r\n\r\ngeneral'])],
      [
        'whose file is not last',
        wire([filePart, 'Content-Disposition: form-data; name="purpose"\r\n\r\ngeneral']),
      ],
      ['of two files', wire([filePart, filePart])],
      [
        'of a field that nobody knows',
        wire(['Content-Disposition: form-data; name="owner"\r\n\r\nme', filePart]),
      ],
      ['of a file by another name', wire([filePart.replace('"file"', '"document"')])],
      [
        'of a field twice',
        wire([...Array(2).fill('Content-Disposition: form-data; name="purpose"\r\n\r\ngeneral'), filePart]),
      ],
      [
        'of metadata that is no JSON',
        wire(['Content-Disposition: form-data; name="metadata"\r\n\r\n{', filePart]),
      ],
      [
        'of metadata that poisons',
        wire(['Content-Disposition: form-data; name="metadata"\r\n\r\n{"__proto__":"x"}', filePart]),
      ],
      ['that breaks off', wire([filePart], '')],
      ['that is no form', 'abc'],
      ['of nothing', ''],
    ])('%s is refused, and leaves nothing', async (_, body) => {
      const before = await stored();
      const answer = await post(body, ada.token, typed);
      expect(answer.status).toBe(400);
      expect(['invalid_request', 'invalid_json']).toContain(answer.body.code);
      await expect.poll(stored).toEqual(before);
    });

    test.each<[string, Record<string, string>, number]>([
      ['as JSON', { 'content-type': 'application/json' }, 415],
      ['without a boundary', { 'content-type': 'multipart/form-data' }, 400],
      ['that is compressed', { ...typed, 'content-encoding': 'gzip' }, 415],
    ])('%s is refused', async (_, headers, status) => {
      expect((await post(wire([filePart]), ada.token, headers)).status).toBe(status);
    });

    test('that says how long it is, and is too long for a file, is refused unread', async () => {
      const socket = connect(Number(new URL(app.url).port), '127.0.0.1');
      socket.write(
        `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ada.token}\r\n` +
          `Content-Type: ${typed['content-type']}\r\nContent-Length: 1000000000\r\n\r\n${wire([filePart], '')}`,
      );
      const [answer] = await new Promise<string[]>((resolve) =>
        socket.once('data', (data) => resolve([String(data)])),
      );
      expect(answer).toMatch(/^HTTP\/1.1 413 /);
      socket.destroy();
    });

    test('whose caller goes away leaves neither bytes nor a reservation', async () => {
      const before = await stored();
      const { leave, gone } = sendUntilGone('POST', path, beginning, typed);
      await expect.poll(async () => (await stored()).length).toBe(before.length + 1);
      leave();
      expect(await gone).toBe('left');
      await expect.poll(stored).toEqual(before);
    });

    test('that a killed process has left is taken away by the sweep, and counts for nobody meanwhile', async () => {
      const before = await stored();
      const late = new Date(Date.now() + 3_600_000);
      const { leave, gone } = sendUntilGone('POST', path, beginning, typed);
      await expect.poll(async () => (await stored()).length).toBe(before.length + 1);
      // As another process does, long after the last sign of life of this one.
      expect(await app.services.store.files.sweep(late)).toBe(1);
      expect(await stored()).toEqual(before);
      leave();
      await gone;
      expect(await app.services.store.files.sweep(late)).toBe(0);
    });

    test('of many bytes comes back as it went in', async () => {
      const bytes = randomBytes(8 * 1024 * 1024);
      const { body } = await upload([['file', Uint8Array.from(bytes), 'big']]);
      expect(body).toMatchObject({
        size: bytes.length,
        sha256: createHash('sha256').update(bytes).digest('hex'),
      });
      const answer = await app.stream('GET', `${path}/${body.id}/content`, { token: ada.token });
      expect(bytes.equals(Buffer.from(await answer.arrayBuffer()))).toBe(true);
      await app.request('DELETE', `${path}/${body.id}`, { token: ada.token });
    });

    test('counts for the quota of storage: of many at once only those go in for which there is room', async () => {
      const bob = await app.register('bob');
      await app.request('PUT', `/api/v1/quotas/user/${bob.user.id}`, {
        token: app.operatorKey,
        body: { limits: { storage: { hard: 5000, soft: 10 } } },
      });
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, at) => upload([['file', String(at).repeat(1500), 'a']], bob.token)),
      );
      const used = answers.filter(({ status }) => status === 201);
      expect(used.length).toBeGreaterThan(0);
      expect(used.length).toBeLessThanOrEqual(3);
      const refused = answers.find(({ status }) => status !== 201);
      expect(refused && coded(refused)).toEqual([429, 'quota_exceeded']);
      const { body } = await app.request('GET', '/api/v1/quotas', { token: bob.token });
      expect(body.data.find(({ resource }: Json) => resource === 'storage').used).toBe(used.length * 1500);
      // What is stored does not keep anybody from asking.
      const asked = await app.request('POST', '/api/v1/query', {
        token: bob.token,
        body: { prompt: 'Hello', model: 'demo:demo-1' },
      });
      expect(coded(asked)).toEqual([200, null]);
      for (const { body: file } of used)
        await app.request('DELETE', `${path}/${file.id}`, { token: bob.token });
      expect((await upload([['file', 'room again', 'a']], bob.token)).headers.get('x-quota-notice')).toMatch(
        /soft limit/,
      );
    });
  });

  describe('the text of a file', () => {
    const textOf = (id: string, query = '') =>
      app.request('GET', `${path}/${id}/text?wait_seconds=30&${query}`, { token: ada.token });

    test('is told in parts that are cut between characters, and where they lie', async () => {
      const { id } = await uploaded('# One 🙂\n\nTwo 🙂🙂 three.\n', 'notes.md');
      const { status, body: whole } = await textOf(id);
      expect(status).toBe(200);
      expect(whole).toMatchObject({ file_id: id, status: 'ready', media_type: 'text/markdown', offset: 0 });
      expect(whole).toMatchObject({ characters: [...whole.text].length, next_offset: null, pages: null });
      expect(whole.text).toContain('Two 🙂🙂 three.');
      let [at, text]: [number | null, string] = [0, ''];
      while (at !== null) {
        const { body } = await textOf(id, `offset=${at}&limit=3`);
        expect(body.offset).toBe(at);
        text += body.text;
        at = body.next_offset;
      }
      expect(text).toBe(whole.text);
      const beyond = { text: '', offset: whole.characters, next_offset: null };
      expect((await textOf(id, 'offset=1000')).body).toMatchObject(beyond);
    });

    test('has the pages of a document where they stand', async () => {
      const sections = ['First', 'Second'].map((title) => ({ title, paragraphs: [`What ${title} says.`] }));
      const answer = await upload([['file', Uint8Array.from(makePdf(sections)), 'a.pdf']]);
      const { body } = await textOf(answer.body.id);
      expect(body.media_type).toBe('application/pdf');
      const cut = ({ start, end }: Json) => [...body.text].slice(start, end).join('');
      expect(body.pages.map(({ page }: Json) => page)).toEqual([1, 2]);
      expect(cut(body.pages[0])).toContain('What First says.');
      expect(cut(body.pages[1])).toContain('What Second says.');
      expect(body.pages[1].end).toBe(body.characters);
    });

    test('is there a little later for whoever does not wait, and then at once', async () => {
      const { id } = await uploaded('Read this.');
      const now = () => app.request('GET', `${path}/${id}/text?wait_seconds=0`, { token: ada.token });
      const pending = await now();
      expect([pending.status, pending.body]).toEqual([202, { file_id: id, status: 'reading' }]);
      expect(pending.headers.get('retry-after')).toBe('1');
      await expect.poll(async () => (await now()).status).toBe(200);
    });

    test('that nobody can read is refused with the reason', async () => {
      const { id } = await uploaded('%PDF-1.7 broken', 'a.pdf');
      const refused = await textOf(id);
      expect(coded(refused)).toEqual([422, 'file_unreadable']);
      expect(refused.body.detail).toContain('save it again');
      // What was found out is told without being looked for once more.
      const again = await app.request('GET', `${path}/${id}/text?wait_seconds=0`, { token: ada.token });
      expect(coded(again)).toEqual([422, 'file_unreadable']);
    });
  });

  describe('an upload with an Idempotency-Key', () => {
    const named = (key: string) => ({ 'idempotency-key': key });
    const once = (key: string, text: string, name = 'a.txt') => {
      const form = new FormData();
      form.append('file', new Blob([text]), name);
      return post(form, ada.token, named(key));
    };
    const filesWith = async (sha256: string): Promise<Json[]> =>
      (await app.request('GET', `${path}?sha256=${sha256}`, { token: ada.token })).body.data;
    const signs = ({ status, body, headers }: Answer) => [status, body, headers.get('etag')];
    /** One whose end is still to come. */
    const begun = (key: string, text: string, url = app.url) => {
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      const writer = writable.getWriter();
      const [head = '', end] = wire([filePart.replace('abc', () => `${text}|`)]).split('|');
      // Whoever was refused reads no more of it.
      const write = (more: string) => writer.write(Buffer.from(more)).catch(() => undefined);
      write(head);
      const answer = fetch(url + path, {
        ...{ method: 'POST', body: readable, duplex: 'half' as const },
        headers: { authorization: `Bearer ${ada.token}`, ...typed, ...named(key) },
      });
      return {
        async end(): Promise<Answer> {
          await write(end ?? '');
          await writer.close();
          const { status, headers } = await answer;
          return { status, headers, body: await (await answer).json() };
        },
      };
    };
    test('comes again and is answered as before; other bytes, another name and another operation are refused', async () => {
      const key = 'again';
      const first = await once(key, 'the same bytes');
      expect(coded(first)).toEqual([201, null]);
      const before = await stored();
      const again = await once(key, 'the same bytes');
      expect(signs(again)).toEqual(signs(first));
      expect(again.headers.get('location')).toBe(first.headers.get('location'));
      const reused = [422, 'idempotency_key_reused'];
      expect(coded(await once(key, 'other bytes'))).toEqual(reused);
      expect(coded(await once(key, 'the same bytes', 'b.txt'))).toEqual(reused);
      const body = { filename: 'a', size: 1, sha256: '0'.repeat(64) };
      const { token } = ada;
      const other = app.request('POST', `${path}/uploads`, { token, body, headers: named(key) });
      expect(coded(await other)).toEqual(reused);
      expect(await filesWith(first.body.sha256)).toHaveLength(1);
      expect(await stored()).toEqual(before);
    });

    test('is refused with 409 while the first one is under way, and answered as that one afterwards', async () => {
      const before = await stored();
      const first = begun('held', manyBytes);
      await expect.poll(async () => (await stored()).length).toBe(before.length + 1);
      expect(coded(await once('held', manyBytes))).toEqual([409, 'idempotency_key_in_use']);
      const answer = await first.end();
      expect(answer.status).toBe(201);
      expect(signs(await once('held', manyBytes))).toEqual(signs(answer));
      expect(await stored()).toHaveLength(before.length + 1);
    });

    test('that comes to two servers at once makes one file, and both answer with it', async () => {
      const node = await testApp({ settings: app.services.settings });
      const [before, bytes] = [await stored(), `${manyBytes}2`];
      const both = [app, node].map(({ url }) => begun('two', bytes, url));
      await expect.poll(async () => (await stored()).length).toBe(before.length + 2);
      const answers = await Promise.all(both.map(({ end }) => end()));
      expect(answers.map(({ status }) => status)).toEqual([201, 201]);
      expect(answers[1]?.body).toEqual(answers[0]?.body);
      expect(await filesWith(answers[0]?.body.sha256)).toHaveLength(1);
      await node.close();
      expect(await stored()).toHaveLength(before.length + 1);
    });

    test('that was refused leaves its key free, and nothing else', async () => {
      const before = await stored();
      const broken = await post(wire([filePart], '--x'), ada.token, { ...typed, ...named('free') });
      expect(coded(broken)).toEqual([400, 'invalid_request']);
      expect(await stored()).toEqual(before);
      expect((await once('free', 'whole')).status).toBe(201);
    });
  });

  describe('an upload that can be gone on with', () => {
    const uploads = `${path}/uploads`;
    const begin = async (bytes: Uint8Array, more: object = {}): Promise<Json> => {
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      const body = { filename: 'big.bin', size: bytes.length, sha256, ...more };
      const answer = await app.request('POST', uploads, { token: ada.token, body });
      expect(coded(answer)).toEqual([201, null]);
      expect(answer.headers.get('location')).toBe(`${uploads}/${answer.body.id}`);
      return answer.body;
    };
    const append = (id: string, offset: number, body: Uint8Array, token = ada.token) =>
      app.request('PATCH', `${uploads}/${id}`, {
        ...{ token, body },
        headers: { 'content-type': 'application/octet-stream', 'upload-offset': String(offset) },
      });
    const complete = (id: string) => app.request('POST', `${uploads}/${id}/complete`, { token: ada.token });
    const conflict = (answer: Answer) => [...coded(answer), answer.headers.get('upload-offset')];

    test('comes in pieces, is made a file by its hash, once, and leaves nothing else', async () => {
      const before = await stored();
      const bytes = randomBytes(9 * 1024 * 1024);
      const { id, offset } = await begin(bytes, { metadata: { ticket: 'A-1' }, purpose: 'knowledge' });
      expect(offset).toBe(0);
      const first = await append(id, 0, bytes.subarray(0, 100));
      expect([first.status, first.headers.get('upload-offset')]).toEqual([204, '100']);
      expect(conflict(await append(id, 0, bytes.subarray(0, 100)))).toEqual([409, 'upload_conflict', '100']);
      expect(conflict(await complete(id))).toEqual([409, 'upload_conflict', '100']);
      expect((await append(id, 100, bytes.subarray(100))).headers.get('upload-offset')).toBe(
        String(bytes.length),
      );
      expect(conflict(await append(id, bytes.length, Buffer.from('x')))).toEqual([
        409,
        'upload_conflict',
        String(bytes.length),
      ]);
      const made = await Promise.all([complete(id), complete(id)]);
      const file = made.find(({ status }) => status === 201)?.body;
      expect(file).toMatchObject({ size: bytes.length, purpose: 'knowledge', metadata: { ticket: 'A-1' } });
      expect((await complete(id)).body).toEqual(file);
      const answer = await app.stream('GET', `${path}/${file.id}/content`, { token: ada.token });
      expect(bytes.equals(Buffer.from(await answer.arrayBuffer()))).toBe(true);
      expect(await stored()).toHaveLength(before.length + 1);
      await app.request('DELETE', `${path}/${file.id}`, { token: ada.token });
      expect(coded(await complete(id))).toEqual([409, 'upload_conflict']);
      expect(await stored()).toEqual(before);
    });

    test('of other bytes than announced makes no file', async () => {
      const { id } = await begin(Buffer.from('these'));
      await append(id, 0, Buffer.from('those'));
      expect(coded(await complete(id))).toEqual([409, 'upload_conflict']);
      expect((await app.request('DELETE', `${uploads}/${id}`, { token: ada.token })).status).toBe(204);
      expect(coded(await complete(id))).toEqual([404, 'not_found']);
    });

    test('of nothing makes an empty file, and a part of nothing adds nothing', async () => {
      const { id } = await begin(Buffer.from(''));
      const part = await append(id, 0, Buffer.from(''));
      expect([part.status, part.headers.get('upload-offset')]).toEqual([204, '0']);
      const bare = { token: ada.token, headers: { 'upload-offset': '0' } };
      expect(coded(await app.request('PATCH', `${uploads}/${id}`, bare))).toEqual([400, 'invalid_request']);
      const { status, body } = await complete(id);
      expect([status, body.size]).toEqual([201, 0]);
      await app.request('DELETE', `${path}/${body.id}`, { token: ada.token });
    });

    test('whose line breaks keeps what has arrived, and another node goes on with it', async () => {
      const before = await stored();
      const bytes = randomBytes(10 * 1024 * 1024);
      const { id } = await begin(bytes);
      const part = { 'content-type': 'application/octet-stream', 'upload-offset': '0' };
      const begun = bytes.subarray(0, 9 * 1024 * 1024);
      const { leave, sent, gone } = sendUntilGone('PATCH', `${uploads}/${id}`, begun, part);
      await sent;
      leave();
      expect(await gone).toBe('left');
      // The first piece, and what had come of the second: at most a buffer less than all, where the end came with it.
      let offset = 0;
      const asked = async () => {
        const answer = await append(id, 1, Buffer.from('x'));
        expect(coded(answer)).toEqual([409, 'upload_conflict']);
        offset = Number(answer.headers.get('upload-offset'));
        return offset;
      };
      await expect.poll(asked).toBeGreaterThan(8.5 * 1024 * 1024);
      expect(offset).toBeLessThanOrEqual(begun.length);
      expect(await stored()).toHaveLength(before.length + 2);
      const node = await testApp({ settings: app.services.settings });
      const rest = await node.request('PATCH', `${uploads}/${id}`, {
        ...{ token: ada.token, body: bytes.subarray(offset) },
        headers: { 'content-type': 'application/octet-stream', 'upload-offset': String(offset) },
      });
      expect(rest.status).toBe(204);
      const { body } = await node.request('POST', `${uploads}/${id}/complete`, { token: ada.token });
      expect(body.size).toBe(bytes.length);
      await node.close();
      await app.request('DELETE', `${path}/${body.id}`, { token: ada.token });
      expect(await stored()).toEqual(before);
    });

    test('is given up after a day, with all that has come of it, and counts for the quota until then', async () => {
      const before = await stored();
      const carol = await app.register(`carol-${randomBytes(4).toString('hex')}`);
      await app.request('PUT', `/api/v1/quotas/user/${carol.user.id}`, {
        token: app.operatorKey,
        body: { limits: { storage: { hard: 1000 } } },
      });
      const body = { filename: 'a', size: 900, sha256: '0'.repeat(64) };
      const create = () => app.request('POST', uploads, { token: carol.token, body });
      const { body: upload } = await create();
      expect((await append(upload.id, 0, randomBytes(500), carol.token)).status).toBe(204);
      expect(coded(await create())).toEqual([429, 'quota_exceeded']);
      const { fileUploads, files } = app.services.store;
      expect(await fileUploads.prune(new Date(Date.now() + 23 * 3_600_000))).toBe(0);
      expect(await files.sweep(new Date(Date.now() + 23 * 3_600_000))).toBe(0);
      // Those that the tests before it have completed are forgotten with it.
      expect(await fileUploads.prune(new Date(Date.now() + 25 * 3_600_000))).toBeGreaterThan(0);
      expect(await files.sweep(new Date(Date.now() + 26 * 3_600_000))).toBe(1);
      expect(await stored()).toEqual(before);
      expect((await create()).status).toBe(201);
    });

    test('of more than a file may have is refused before it begins', async () => {
      const body = { filename: 'a', size: 5_000_000_000, sha256: '0'.repeat(64) };
      expect(coded(await app.request('POST', uploads, { token: ada.token, body }))).toEqual([
        413,
        'body_too_large',
      ]);
    });

    test("that is somebody else's is not there", async () => {
      const { id } = await begin(Buffer.from('hers'));
      expect(coded(await append(id, 0, Buffer.from('mine'), mallory.token))).toEqual([404, 'not_found']);
      await app.request('DELETE', `${uploads}/${id}`, { token: ada.token });
    });
  });
});

/** A storage of S3 that takes what it is given, and says of it what it is let: it stands still behind so many bytes. */
async function silentS3() {
  const asked: string[] = [];
  const waiting = new Set<object>();
  let size = 0;
  let until: number | 'its head' = 'its head';
  const server = createServer((request, answer) => {
    asked.push(request.method ?? '');
    if (request.method === 'PUT') {
      size = 0;
      request.on('data', ({ length }: Buffer) => (size += length)).on('end', () => answer.end());
      return;
    }
    if (request.method === 'HEAD') return void answer.setHeader('content-length', size).end();
    waiting.add(answer);
    answer.on('close', () => waiting.delete(answer));
    if (until === 'its head') return;
    answer.setHeader('content-length', size);
    answer.write(Buffer.alloc(until));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  return {
    settings: {
      ...{ endpoint: `http://127.0.0.1:${port}`, region: 'us-east-1', bucket: 'bucket', prefix: '' },
      ...{ pathStyle: true, credentials: { accessKeyId: 'key', secretAccessKey: 'secret' } },
      ...{ maxFileBytes: null, retentionDays: null },
    },
    asked,
    waiting: () => waiting.size,
    standStillBehind(place: number | 'its head') {
      until = place;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe('a storage that says nothing', () => {
  let silent: Awaited<ReturnType<typeof silentS3>>;
  let id = '';
  const lines: Record<string, unknown>[] = [];
  beforeAll(async () => {
    silent = await silentS3();
    const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
    app = await testApp({ settings: { storage: silent.settings }, log });
    ada = await app.register('ada');
    ({ id } = await uploaded('x'.repeat(1_000_000)));
  });
  afterAll(async () => {
    silent.close();
    await app.close();
  });

  test('is asked for what its head says of a file alone, where only the head is wanted', async () => {
    silent.standStillBehind(1000);
    const before = silent.asked.length;
    const head = await app.stream('HEAD', `${path}/${id}/content`, { token: ada.token });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([
      200,
      '1000000',
      '',
    ]);
    expect(silent.asked.slice(before)).toEqual(['HEAD']);
  });

  test.each([
    ['its head', 'its head'],
    ['its first bytes', 1000],
  ] as const)('before %s is left at once by who leaves, and that is no fault', async (_, place) => {
    silent.standStillBehind(place);
    const leaving = new AbortController();
    const headers = { authorization: `Bearer ${ada.token}` };
    const answer = fetch(`${app.url}${path}/${id}/content`, { headers, signal: leaving.signal });
    answer.catch(() => undefined);
    await expect.poll(silent.waiting).toBe(1);
    if (place !== 'its head') await (await answer).body?.getReader().read();
    leaving.abort();
    // Sooner than a storage that is silent is given up.
    await expect.poll(silent.waiting, { timeout: 30_000 }).toBe(0);
    expect(lines.filter(({ level }) => level === 50)).toEqual([]);
  });
});
