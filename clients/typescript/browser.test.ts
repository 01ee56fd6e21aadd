/** The client in a real browser, whose requests and answers are not quite those of Node. */
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { hasBrowser, startBrowser, type TestBrowser } from '../../server/test-browser.ts';
import {
  frame,
  openStream,
  type Script,
  sendJson,
  sendProblem,
  startScriptedServer,
} from './scripted-server.ts';
import type * as page from './test-page.ts';

type Page = typeof page;

describe.skipIf(!hasBrowser)('in Chromium', () => {
  let browser: TestBrowser;
  let program: string;

  beforeAll(async () => {
    [browser, program] = await Promise.all([startBrowser(), bundled()]);
  });
  afterAll(() => browser?.close());

  /** What the page gives back; what it throws is thrown. */
  async function doInPage<Name extends keyof Page>(name: Name, script: Script) {
    const files: Readonly<Record<string, readonly [type: string, content: string]>> = {
      '/': ['text/html', '<!doctype html><link rel="icon" href="data:,"><title>A page</title>'],
      '/page.js': ['text/javascript', program],
    };
    const server = await startScriptedServer((request, response, count) => {
      const [type, content] = files[request.url] ?? [];
      if (type === undefined) return script(request, response, count - Object.keys(files).length);
      response.writeHead(200, { 'Content-Type': type }).end(content);
    });
    onTestFinished(server.close);
    const tab = await browser.newPage();
    await tab.open(server.url);
    const result = await tab.evaluate<Awaited<ReturnType<Page[Name]>>>(
      `import('/page.js').then((page) => page.${name}())`,
    );
    const received = server.received.filter(({ url }) => !(url in files));
    return { result, received, sent: received.map(({ method, url }) => `${method} ${url}`) };
  }

  const done = (_: unknown, response: ServerResponse) => void response.writeHead(204).end();

  test('JSON is sent and read, and a call that was refused before it acted is repeated', async () => {
    const { result, received } = await doInPage('createSession', ({ body }, response, count) => {
      if (count === 0) sendProblem(response, 503, 'draining');
      else sendJson(response, 201, { id: 'ses_1', ...JSON.parse(body) });
    });
    expect(result).toEqual({ id: 'ses_1', title: 'Grüße' });
    expect(received.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer sk-test',
      'Bearer sk-test',
    ]);
  });

  test.each([
    ['a deletion', 'deleteSession', 'DELETE /api/v1/sessions/ses_1'],
    ['a POST', 'logOut', 'POST /api/v1/auth/logout'],
  ] as const)('%s that is done and has no answer is sent once', async (_, name, call) => {
    const { result, sent } = await doInPage(name, done);
    expect(result).toEqual({ hasData: false, status: 204 });
    expect(sent).toEqual([call]);
  });

  test('a part of a file is sent once, and its headers can be read', async () => {
    const { result, received } = await doInPage('uploadPart', ({ body }, response) => {
      response.writeHead(204, { 'Upload-Offset': body.length }).end();
    });
    expect(result).toEqual({ status: 204, offset: '10' });
    expect(received.map(({ body }) => body)).toEqual(['some bytes']);
  });

  test('a form is sent again with its file', async () => {
    const { result, received } = await doInPage('uploadFile', (_, response, count) => {
      if (count === 0) sendProblem(response, 429, 'rate_limited');
      else sendJson(response, 201, { id: 'file_1' });
    });
    expect(result).toEqual({ id: 'file_1' });
    expect(received.map(({ body }) => /\r\n\r\nHello\r\n/.test(body))).toEqual([true, true]);
  });

  test('a stream that is cut off is read on', async () => {
    const started = frame(1, 'runtime', { type: 'run_started' });
    const { result, sent } = await doInPage('ask', ({ headers }, response, count) => {
      openStream(response);
      if (count === 0) return void response.write(started, () => response.destroy());
      // Of what a connection brought before it was cut, Chromium gives as much as was read by then.
      const known = headers['last-event-id'] === '1' ? '' : started;
      response.end(known + frame(2, 'done', { stop_reason: 'end_turn' }));
    });
    expect(result).toEqual([
      [1, 'runtime'],
      [2, 'done'],
    ]);
    expect(sent).toEqual(['POST /api/v1/query/stream', 'GET /api/v1/runs/run_1/events?follow=true']);
  });

  test('a stream is left while nothing comes, and its connection is closed', async () => {
    const closed = Promise.withResolvers<void>();
    const { result } = await doInPage('leave', (_, response) => {
      openStream(response);
      response.write(frame(1, 'runtime', { type: 'run_started' }));
      response.once('close', closed.resolve);
    });
    expect(result).toEqual([1, true]);
    await closed.promise;
  });
});

/** As a bundler gives it to browsers. */
async function bundled(): Promise<string> {
  const bundle = await rolldown({ input: join(import.meta.dirname, 'test-page.ts'), platform: 'browser' });
  const { output } = await bundle.generate({ format: 'esm' });
  await bundle.close();
  return output[0].code;
}
