/** Files of a query: what the model is shown of each, what the session keeps, and what is refused before anything is stored. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { makePdf } from '../knowledge/parsing/test-documents.ts';
import { scriptedSettings } from '../server-process.ts';
import { type Account, coded, type Json, type TestApp, testApp } from '../test-app.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({ config: scriptedSettings(upstream.url) });
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});
beforeEach(() => upstream.script([{ reply: { text: 'Seen.' } }]));

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

async function uploaded(content: string | Buffer, filename: string, { token } = ada): Promise<string> {
  const form = new FormData();
  form.append('file', new Blob([typeof content === 'string' ? content : Uint8Array.from(content)]), filename);
  const answer = await app.request('POST', '/api/v1/files', { token, body: form });
  expect(coded(answer)).toEqual([201, null]);
  return answer.body.id;
}

function ask(body: object, path = '/api/v1/query') {
  return app.request('POST', path, { token: ada.token, body: { prompt: 'What is this?', ...body } });
}

/** What the model was shown last: the content of each message that is a person's. */
async function shown(): Promise<Json[]> {
  const { messages }: Json = (await upstream.requests()).at(-1)?.body ?? expect.fail('no model was asked');
  return messages.flatMap(({ role, content }: Json) => (role === 'user' ? [content] : []));
}

test('a picture and a PDF are shown as they are, of other documents the text, all of it again in the next query', async () => {
  const pdf = Buffer.from(makePdf([{ title: 'Deploys', paragraphs: ['On Tuesdays.'] }]));
  const attachments = [
    await uploaded(png, 'dot.png'),
    await uploaded(pdf, 'deploys.pdf'),
    await uploaded('<h1>Rules</h1><p>Ask <b>first</b>.</p>', 'rules.html'),
  ];
  const answer = await ask({ attachments });
  expect(coded(answer)).toEqual([200, null]);
  const all = [
    { type: 'text', text: 'What is this?' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } },
    {
      type: 'file',
      file: { filename: 'deploys.pdf', file_data: `data:application/pdf;base64,${pdf.toString('base64')}` },
    },
    { type: 'text', text: expect.stringMatching(/^rules\.html\n\n.*Rules[^<]*Ask \W*first/s) },
  ];
  expect(await shown()).toEqual([all]);

  for (const id of attachments)
    expect((await app.request('DELETE', `/api/v1/files/${id}`, { token: ada.token })).status).toBe(204);
  const { session_id } = answer.body;
  await ask({ session_id, prompt: 'And now?' });
  expect(await shown()).toEqual([all, 'And now?']);
  const stored = await app.request('GET', `/api/v1/sessions/${session_id}/messages`, { token: ada.token });
  expect(stored.body.data[0].parts).toMatchObject([
    { type: 'text', text: 'What is this?' },
    { type: 'file', media_type: 'image/png', name: 'dot.png', size: png.length },
    { type: 'file', media_type: 'application/pdf', name: 'deploys.pdf', size: pdf.length },
    { type: 'text' },
  ]);
});

test('as many as a model is shown at once are the newest: of another it is told that there was one', async () => {
  const large = (name: string, mib: number) =>
    uploaded(Buffer.concat([png, Buffer.alloc(mib * 1024 * 1024)]), name);
  const picture = { type: 'image_url' };
  const { body } = await ask({ attachments: [await large('first.png', 15)] });
  expect(await shown()).toMatchObject([[{ text: 'What is this?' }, picture]]);
  await ask({ session_id: body.session_id, attachments: [await large('second.png', 20)] });
  const leftOut = { text: '[Here was a file, which is not shown any more: first.png]' };
  expect(await shown()).toMatchObject([
    [{ text: 'What is this?' }, leftOut],
    [{ text: 'What is this?' }, picture],
  ]);
});

test('an estimate counts them', async () => {
  const estimate = async (body: object): Promise<number> =>
    (await ask(body, '/api/v1/query/estimate')).body.input_tokens;
  const attachments = [await uploaded('One two three four. '.repeat(100), 'words.txt')];
  expect(await estimate({ attachments })).toBeGreaterThan((await estimate({})) + 200);
});

test.each([
  ['that is not there', () => Promise.resolve('file_01k9w6r3h2e7xv5q0c8m4b1tza'), 404, 'not_found'],
  ['of another', () => uploaded('Mine.', 'mine.txt', mallory), 404, 'not_found'],
  [
    'that is no document',
    () => uploaded(Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0]), 'program'),
    422,
    'file_unreadable',
  ],
  ['with too much text', () => uploaded('Word. '.repeat(200_000), 'long.txt'), 400, 'invalid_request'],
  [
    'with too many bytes',
    () => uploaded(Buffer.concat([png, Buffer.alloc(33 * 1024 * 1024)]), 'large.png'),
    400,
    'invalid_request',
  ],
] as const)('with a file %s nothing is asked and nothing stored', async (_, make, status, code) => {
  const attachments = [await uploaded('Fine.', 'fine.txt'), await make()];
  const sessions = async (): Promise<number> =>
    (await app.request('GET', '/api/v1/sessions', { token: ada.token })).body.data.length;
  const before = await sessions();
  const answer = await ask({ attachments });
  expect(coded(answer)).toEqual([status, code]);
  if (code === 'invalid_request') expect(answer.body.errors).toMatchObject([{ pointer: '/attachments/1' }]);
  if (code === 'not_found' || code === 'file_unreadable')
    expect(answer.body.detail).toContain('attachments/1');
  expect(await upstream.requests()).toEqual([]);
  expect(await sessions()).toBe(before);
});

test('who leaves while their files are read begins no run', async () => {
  const { fileTexts, store } = app.services;
  const attachments = [await uploaded('A first.', 'first.txt'), await uploaded(png, 'second.png')];
  const [asked, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const find = vi.spyOn(fileTexts, 'find').mockImplementation(async (_id, { signal }) => {
    asked.resolve();
    signal?.addEventListener('abort', () => gone.resolve());
    await gone.promise;
    return { mediaType: 'text/plain', characters: 1, offset: 0, text: 'A', pages: null };
  });
  const read = vi.spyOn(store.files, 'read');
  onTestFinished(() => void vi.restoreAllMocks());
  const leaving = new AbortController();
  const answer = fetch(`${app.url}/api/v1/query`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'What is this?', attachments }),
    signal: leaving.signal,
  });
  await asked.promise;
  leaving.abort();
  await expect(answer).rejects.toThrow('aborted');
  // A server that does not hear of it goes on in a second.
  await Promise.race([gone.promise, sleep(1000)]);
  gone.resolve();
  await sleep(1000);
  expect(find).toHaveBeenCalledOnce();
  expect(read).not.toHaveBeenCalled();
  expect(await upstream.requests()).toEqual([]);
});

test('a key that may not read files attaches none', async () => {
  const attachments = [await uploaded('Mine.', 'mine.txt')];
  const asked = async (scopes: string[]) => {
    const made = await app.request('POST', '/api/v1/auth/api-keys', {
      token: ada.token,
      body: { name: 'Asks', scopes },
    });
    const body = { prompt: 'What is this?', attachments };
    return coded(await app.request('POST', '/api/v1/query', { token: made.body.key, body }));
  };
  expect(await asked(['query'])).toEqual([403, 'scope_required']);
  expect(await upstream.requests()).toEqual([]);
  expect(await asked(['query', 'files:read'])).toEqual([200, null]);
});

test('more than twenty, and one twice, are refused', async () => {
  const id = await uploaded('Fine.', 'fine.txt');
  expect(coded(await ask({ attachments: [id, id] }))).toEqual([400, 'invalid_request']);
  const many = Array.from(
    { length: 21 },
    (_, index) => `${id.slice(0, -2)}${String(index).padStart(2, '0')}`,
  );
  expect(coded(await ask({ attachments: many }))).toEqual([400, 'invalid_request']);
});
