/** What is uploaded may be larger than the memory: the client holds none of it, though it sends it again. */
import { once } from 'node:events';
import { openAsBlob } from 'node:fs';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createServiceClient } from './client.ts';
import { ConnectionError, ServiceError } from './errors.ts';
import { collectGarbage } from './garbage.ts';
import { sendJson, sendProblem, startScriptedServer } from './scripted-server.ts';

const retries = { limit: 3, baseDelayMs: 1, maxDelayMs: 2 };

async function bytesHeld(): Promise<number> {
  await collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

/** A file of zeros, which takes no place on the disk. */
async function largeFile(size: number): Promise<Blob> {
  const folder = await mkdtemp(join(tmpdir(), 'service-upload-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, 'large');
  await writeFile(path, '');
  await truncate(path, size);
  return openAsBlob(path);
}

/** Reads bodies and keeps nothing of them; tells how long each was, and what the process held once it had come. */
async function startSink() {
  const seen: { readonly length: number; readonly held: number }[] = [];
  const baseUrl = await serve(async (request, response) => {
    let length = 0;
    for await (const piece of request) length += (piece as Buffer).length; // as a request without an encoding gives it
    seen.push({ length, held: await bytesHeld() });
    if (seen.length === 1) sendProblem(response, 429, 'rate_limited');
    else sendJson(response, 201, {});
  });
  return { client: createServiceClient({ baseUrl, retries }), seen };
}

/** Unlike the scripted server it keeps nothing of what comes. It is gone after the test. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo; // It listens on TCP.
  return `http://127.0.0.1:${port}`;
}

const size = 64 * 1024 * 1024;

test.each(['a form', 'bytes'])(
  'of %s with a file nothing is held, and all of it is sent again',
  async (how) => {
    const blob = await largeFile(size);
    const { client, seen } = await startSink();
    const before = await bytesHeld();
    if (how === 'a form')
      await client.POST('/api/v1/files', {
        body: { file: '' },
        bodySerializer: () => {
          const form = new FormData();
          form.set('file', blob, 'large');
          return form;
        },
      });
    else
      await client.PATCH('/api/v1/files/uploads/{upload_id}', {
        params: { path: { upload_id: 'upl_1' }, header: { 'Upload-Offset': 0 } },
        headers: { 'Content-Type': 'application/octet-stream' },
        body: '',
        bodySerializer: () => blob,
      });
    expect(seen).toHaveLength(2);
    for (const { length, held } of seen) {
      expect(length).toBeGreaterThanOrEqual(size);
      expect(held - before).toBeLessThan(size / 4);
    }
  },
);

test('a form that is sent again has the boundary that its header names', async () => {
  const forms: FormData[] = [];
  const server = await startScriptedServer(async ({ body, headers }, response, count) => {
    const type = headers['content-type'] ?? '';
    forms.push(await new Response(body, { headers: { 'Content-Type': type } }).formData());
    if (count === 0) sendProblem(response, 503, 'draining');
    else sendJson(response, 201, {});
  });
  onTestFinished(server.close);
  const form = new FormData();
  form.set('purpose', 'general');
  form.set('file', new Blob(['Hello']), 'hello.txt');
  const client = createServiceClient({ baseUrl: server.url, retries });
  await client.POST('/api/v1/files', { body: { file: '' }, bodySerializer: () => form });
  expect(forms.map((sent) => [...sent.keys()])).toEqual([
    ['purpose', 'file'],
    ['purpose', 'file'],
  ]);
});

test('a stream is sent once, since it would have to be held for another time', async () => {
  const server = await startScriptedServer((_, response) => sendProblem(response, 429, 'rate_limited'));
  onTestFinished(server.close);
  const call = createServiceClient({ baseUrl: server.url, retries }).PATCH(
    '/api/v1/files/uploads/{upload_id}',
    {
      params: { path: { upload_id: 'upl_1' }, header: { 'Upload-Offset': 0 } },
      headers: { 'Content-Type': 'application/octet-stream' },
      ...{ body: '', duplex: 'half' },
      bodySerializer: () => new Blob(['some bytes']).stream(),
    },
  );
  await expect(call).rejects.toThrow(ServiceError);
  expect(server.received.map(({ body }) => body)).toEqual(['some bytes']);
});

test.each([
  ['form', () => new FormData()],
  ['stream', () => new Blob(['some bytes']).stream()],
])('a %s is sent once to an address that redirects, and that is told', async (_, body) => {
  const server = await startScriptedServer((_request, response) => {
    response.writeHead(307, { Location: '/elsewhere' }).end();
  });
  onTestFinished(server.close);
  const call = createServiceClient({ baseUrl: server.url, retries }).POST('/api/v1/files', {
    params: { header: { 'Idempotency-Key': 'one' } },
    ...{ body: { file: '' }, duplex: 'half' },
    bodySerializer: body,
  });
  await expect(call).rejects.toMatchObject({
    name: 'ServiceError',
    code: 'unrecognized_answer',
    detail: expect.stringContaining('The answer is a redirect that is not followed'),
  });
  expect(server.received.map(({ url }) => url)).toEqual(['/api/v1/files']);
});

test('where no request can refuse redirects, as in Cloudflare Workers, an upload is sent and follows none', async () => {
  const server = await startScriptedServer((_, response, count) => {
    if (count === 0) sendJson(response, 201, {});
    else response.writeHead(307, { Location: '/elsewhere' }).end();
  });
  onTestFinished(server.close);
  class WorkersRequest extends Request {
    constructor(input: string | URL | Request, init: RequestInit = {}) {
      if (init.redirect === 'error') throw new TypeError('Invalid redirect value.');
      super(input, init);
    }
  }
  vi.stubGlobal('Request', WorkersRequest);
  onTestFinished(() => void vi.unstubAllGlobals().resetModules());
  vi.resetModules();
  const { createServiceClient: create } = await import('./client.ts');
  const client = create({ baseUrl: server.url, retries });
  const upload = () => {
    const form = new FormData();
    form.set('file', new Blob(['Hello']), 'hello.txt');
    return client.POST('/api/v1/files', { body: { file: '' }, bodySerializer: () => form });
  };
  await upload();
  await expect(upload()).rejects.toMatchObject({
    status: 307,
    detail: expect.stringContaining(`The answer is a redirect to ${server.url} that is not followed`),
  });
  expect(server.received.map(({ url, body }) => [url, body.includes('Hello')])).toEqual([
    ['/api/v1/files', true],
    ['/api/v1/files', true],
  ]);
});

test('a form that is refused before it is sent is refused, and breaks nothing off', async () => {
  const baseUrl = await serve((_request, response) => {
    response.writeHead(413, { 'Content-Type': 'text/plain', Connection: 'close' }).end('too large');
  });
  const client = createServiceClient({ baseUrl, retries: { limit: 0 } });
  const unhandled: unknown[] = [];
  const note = (error: unknown) => void unhandled.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  const blob = await largeFile(size / 4);
  for (let time = 0; time < 10; time += 1) {
    const form = new FormData();
    form.set('filename', 'large');
    form.set('file', blob, 'large');
    const upload = client.POST('/api/v1/files', { body: { file: '' }, bodySerializer: () => form });
    // Where the connection is closed before the answer is read, that is what is told.
    await expect(upload).rejects.toSatisfy(
      (error) => error instanceof ConnectionError || (error instanceof ServiceError && error.status === 413),
    );
    await sleep(50);
  }
  expect(unhandled).toEqual([]);
});

test('a form is sent as Node itself would send it', async () => {
  const server = await startScriptedServer((_, response) => sendJson(response, 201, {}));
  onTestFinished(server.close);
  const form = new FormData();
  form.append('na"me\r\n', 'one\ntwo\r\nthree\rünï');
  form.append('name', '');
  form.append('file', new Blob(['a\nb'], { type: 'text/plain' }), 'ä "quoted"\n.txt');
  form.append('file', new Blob([]), 'empty');
  const client = createServiceClient({ baseUrl: server.url, retries });
  await client.POST('/api/v1/files', { body: { file: '' }, bodySerializer: () => form });
  await fetch(server.url, { method: 'POST', body: form });
  const [ours, nodes] = server.received.map(({ body, headers }) => {
    const [, boundary = ''] =
      /^multipart\/form-data; boundary=(.+)$/.exec(headers['content-type'] ?? '') ?? [];
    expect(boundary).not.toBe('');
    return body.replaceAll(boundary, 'boundary');
  });
  expect(ours).toBe(nodes);
});
