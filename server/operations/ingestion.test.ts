/** Documents over HTTP: added in every way, taken in once whatever happens, and gone when they are deleted. */
import { mkdtemp, rm, symlink, unlink } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { zipSync } from 'fflate';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { modelFolder } from '../knowledge/embedded/pinned-model.ts';
import { makePdf, makeWord } from '../knowledge/parsing/test-documents.ts';
import { type Account, type Json, mergePatch, readEvents, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { modelsDirectory } from '../test-embedder.ts';

let app: TestApp;
let ada: Account;
let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
  const local = { type: 'openai-compat' as const, base_url: `${upstream.url}/v1`, api_key: 'k' };
  app = await testApp({
    config: { providers: { local: { ...local, models: [{ id: 'm' }] } } },
    settings: { outboundAllow: ['127.0.0.1'] },
  });
  ada = await app.register('ada');
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const ask = (method: string, path: string, body?: unknown, headers = {}) =>
  app.request(method, path, { token: ada.token, body, headers });

async function newCorpus(more: object = {}): Promise<string> {
  const { body } = await ask('POST', '/api/v1/corpora', { name: 'Handbook', ...more });
  return `/api/v1/corpora/${body.id}`;
}

async function upload(name: string, content: Uint8Array | string): Promise<string> {
  const form = new FormData();
  form.append('file', new Blob([typeof content === 'string' ? content : Buffer.from(content)]), name);
  const answer = await fetch(`${app.url}/api/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ada.token}` },
    body: form,
  });
  const { id } = (await answer.json()) as { id: string }; // held against the contract before it was sent
  return id;
}

function ended(corpus: string, id: string): Promise<Json> {
  return vi.waitFor(
    async () => {
      const { body } = await ask('GET', `${corpus}/ingestion-jobs/${id}`);
      expect(body.ended_at).not.toBeNull();
      return body;
    },
    { timeout: 60_000, interval: 20 },
  );
}

async function add(corpus: string, body: object): Promise<Json> {
  const { status, body: job } = await ask('POST', `${corpus}/documents`, body);
  expect(status).toBe(202);
  return ended(corpus, job.id);
}

const handbook = [{ title: 'Travel', paragraphs: ['Book trains a week before, never planes.'] }];

test('files, texts and broken files become one job; what can be read is found, the rest says why not', async () => {
  const corpus = await newCorpus();
  const file_ids = [
    await upload('travel.pdf', makePdf(handbook)),
    await upload('travel.docx', makeWord(handbook)),
    await upload('broken.pdf', '%PDF-1.7 and no more'),
    await upload('bomb.docx', zipSync({ 'word/document.xml': new Uint8Array(9 * 1024 * 1024) })),
  ];
  const job = await add(corpus, { file_ids, texts: [{ title: 'Pay', text: '# Pay\n\nOn the 25th.' }] });
  expect(job).toMatchObject({
    status: 'partial',
    progress: { total: 5, completed: 3, failed: 2, cancelled: 0 },
    items: [
      { status: 'completed', stage: 'publish', attempts: 1, error: null },
      { status: 'completed' },
      { status: 'failed', stage: 'parse', error: { code: 'malformed' } },
      { status: 'failed', stage: 'parse', error: { code: 'too_large' } },
      { status: 'completed' },
    ],
  });
  const { body } = await ask('GET', `${corpus}/documents?sort=created_at`);
  const byTitle = new Map(body.data.map((document: Json) => [document.title, document]));
  expect(byTitle.get('travel.pdf')).toMatchObject({
    status: 'ready',
    media_type: 'application/pdf',
    chunks: 1,
    characters: 48,
  });
  expect(byTitle.get('broken.pdf')).toMatchObject({
    status: 'failed',
    chunks: 0,
    error: { code: 'malformed' },
  });
  expect((await ask('GET', corpus)).body.stats).toMatchObject({ documents: 3, chunks: 3 });
  const found = await ask('POST', `${corpus}/search`, { query: 'planes', mode: 'keyword' });
  expect(found.body.data).toHaveLength(2);
});

test('a file that is added again stays one document, and is read as the corpus cuts now', async () => {
  const corpus = await newCorpus();
  const text = Array.from({ length: 40 }, (_, at) => `Sentence ${at} says a little.`).join(' ');
  const file = await upload('long.txt', text);
  const first = await add(corpus, { file_ids: [file] });
  const patch = { chunking: { size: 40, overlap: 5 } };
  await app.request('PATCH', corpus, { token: ada.token, body: patch, headers: mergePatch });
  const second = await add(corpus, { file_ids: [file] });
  expect(second.items[0].document_id).toBe(first.items[0].document_id);
  const { body } = await ask('GET', `${corpus}/documents`);
  expect(body.data).toHaveLength(1);
  expect(body.data[0].chunks).toBeGreaterThan(4);
  expect((await ask('GET', corpus)).body.stats).toEqual({
    documents: 1,
    chunks: body.data[0].chunks,
    bytes: text.length,
  });
});

test('a failed document is taken in when its job is retried; one that succeeded is not done again', async () => {
  const corpus = await newCorpus();
  let status = 404;
  const server = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'text/html' }).end('<h1>News</h1><p>All is well.</p>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo; // it listens on a port
    const job = await add(corpus, {
      urls: [`http://127.0.0.1:${port}/news`],
      texts: [{ title: 'Pay', text: 'On the 25th.' }],
    });
    expect(job).toMatchObject({
      status: 'partial',
      items: [{ error: { code: 'fetch_failed' } }, { attempts: 1 }],
    });
    status = 200;
    const { body } = await ask('POST', `${corpus}/ingestion-jobs/${job.id}/retry`);
    expect(body).toMatchObject({ status: 'queued', attempts: 2, progress: { completed: 1, failed: 0 } });
    expect(await ended(corpus, job.id)).toMatchObject({
      status: 'completed',
      items: [{ status: 'completed' }, { attempts: 1 }],
    });
    expect((await ask('POST', `${corpus}/ingestion-jobs/${job.id}/retry`)).body.code).toBe(
      'ingestion_conflict',
    );
  } finally {
    server.close();
  }
});

test('a page is read in the encoding that its server says, also where the server says it later', async () => {
  const corpus = await newCorpus();
  let type = 'text/html; charset=Windows-1251';
  const hello = Buffer.concat([Buffer.from('<p>'), Buffer.from('cff0e8e2e5f2', 'hex')]);
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': type }).end(hello);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on a port
  const textOf = async (path: string) => {
    const job = await add(corpus, { urls: [`http://127.0.0.1:${port}/${path}`] });
    expect(job).toMatchObject({ status: 'completed' });
    const query = 'Привет Ïðèâåò';
    const { body } = await ask('POST', `${corpus}/search`, { query, mode: 'keyword' });
    return body.data.find((found: Json) => found.document_id === job.items[0].document_id)?.text;
  };
  try {
    expect(await textOf('one')).toBe('Привет');
    type = 'text/html; charset=klingon';
    expect(await textOf('two')).toBe('Ïðèâåò');
    // The bytes are those that were read before.
    type = 'text/html; charset="windows-1251"';
    expect(await textOf('two')).toBe('Привет');
  } finally {
    server.close();
  }
});

test('a text that is given is read as it came, whatever it says of itself', async () => {
  const corpus = await newCorpus();
  const text = '<html><head><meta charset="windows-1251"></head><body>Привет';
  await add(corpus, { texts: [{ title: 'Source', text }] });
  const { body } = await ask('POST', `${corpus}/search`, { query: 'Привет', mode: 'keyword' });
  expect(body.data.map((passage: Json) => passage.text)).toEqual(['Привет']);
});

test('what is cancelled is not waited for: its request is given up, and a retry begins at once', async () => {
  const corpus = await newCorpus();
  const [asked, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let answers = false;
  const server = createServer((request, response) => {
    asked.resolve();
    response.once('close', () => left.resolve());
    if (answers) response.writeHead(200, { 'content-type': 'text/plain' }).end(`At last: ${request.url}.`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo; // it listens on a port
    const urls = [1, 2].map((number) => `http://127.0.0.1:${port}/${number}`);
    const { body: job } = await ask('POST', `${corpus}/documents`, { urls });
    await asked.promise;
    const cancelled = await ask('POST', `${corpus}/ingestion-jobs/${job.id}/cancel`);
    expect(cancelled.body).toMatchObject({ status: 'cancelled', progress: { cancelled: 2 } });
    await left.promise;
    answers = true;
    await ask('POST', `${corpus}/ingestion-jobs/${job.id}/retry`);
    expect(await ended(corpus, job.id)).toMatchObject({ status: 'completed', attempts: 2 });
  } finally {
    server.close();
  }
});

test('a corpus says that it is stale until the embedder of today has embedded it', async () => {
  const corpus = await newCorpus();
  await add(corpus, { texts: [{ title: 'One', text: 'About lynxes.' }] });
  const before = await ask('GET', corpus);
  // Nothing embeds here, so that nothing is missing.
  expect(before.body).toMatchObject({ stale: false, embedder: null, stats: { chunks: 1 } });
  const embedded = { when: { task: 'embedding' }, reply: { usage: { input: 7 } } };
  const held = { ...embedded, reply: { ...embedded.reply, hold_after_chunks: 0 } };
  await upstream.script([{ ...embedded, times: 1 }, held]);
  const changed = await app.request('PATCH', '/api/v1/settings/embedder?reindex=true', {
    token: app.operatorKey,
    body: { provider: 'local', model: 'm' },
    headers: { ...mergePatch, 'if-match': '*' },
  });
  expect(changed.status).toBe(202);
  const meanwhile = await ask('GET', corpus, undefined, {
    'if-none-match': before.headers.get('etag') ?? '',
  });
  expect(meanwhile).toMatchObject({ status: 200, body: { stale: true, embedder: null } });
  const listed = (await ask('GET', '/api/v1/corpora')).body.data;
  expect(listed.find(({ id }: Json) => corpus.endsWith(id))).toMatchObject({ stale: true });
  await upstream.script([embedded]);
  await upstream.release();
  await vi.waitFor(
    async () =>
      expect((await ask('GET', corpus)).body).toMatchObject({
        stale: false,
        embedder: expect.stringContaining('provider:local:m'),
      }),
    { timeout: 60_000, interval: 50 },
  );
});

test('documents that come while there is no model are found by their words, and by their meaning once it is there', async () => {
  const models = await mkdtemp(join(tmpdir(), 'service-models-'));
  const local = await testApp({ settings: { modelsDirectory: models } });
  const { token } = await local.register('ada');
  const send = (method: string, path: string, body?: object) => local.request(method, path, { token, body });
  const { body: made } = await send('POST', '/api/v1/corpora', { name: 'Pets' });
  const corpus = `/api/v1/corpora/${made.id}`;
  const addText = async (title: string, text: string) => {
    const { body: job } = await send('POST', `${corpus}/documents`, { texts: [{ title, text }] });
    await vi.waitFor(
      async () =>
        expect((await send('GET', `${corpus}/ingestion-jobs/${job.id}`)).body.status).toBe('completed'),
      { timeout: 60_000, interval: 20 },
    );
  };
  const search = async (query: string) => (await send('POST', `${corpus}/search`, { query })).body;
  const foundByMeaning = (query: string, title: string) =>
    vi.waitFor(
      async () => {
        const { mode, notice, data } = await search(query);
        expect([mode, notice, data[0]?.document_title]).toEqual(['hybrid', null, title]);
        expect(data[0].vector_rank).toBe(1);
      },
      // By itself it would look again after a minute.
      { timeout: 40_000, interval: 50 },
    );
  const reindex = async () => expect((await send('POST', `${corpus}/reindex`)).status).toBe(202);
  try {
    await addText('Cat', 'The feline is called Mimi.');
    const bare = await search('feline');
    expect([bare.mode, bare.data[0].document_title]).toEqual(['keyword', 'Cat']);
    expect(bare.notice).toMatch(/service embedder install/);
    expect((await search('What name does my kitten have?')).data).toEqual([]);
    await reindex();
    await vi.waitFor(
      async () => {
        const token = local.operatorKey;
        const { body: embedder } = await local.request('GET', '/api/v1/settings/embedder', { token });
        expect(embedder.corpora.error).toMatch(/service embedder install/);
      },
      { timeout: 60_000, interval: 20 },
    );
    const folder = basename(modelFolder(models));
    await symlink(join(modelsDirectory, folder), join(models, folder));
    await reindex();
    await foundByMeaning('What name does my kitten have?', 'Cat');
    // A model that is away for a while keeps nobody from adding to what it has embedded.
    await unlink(join(models, folder));
    await addText('Money', 'Taxes are due in March.');
    expect((await search('taxes')).data[0].document_title).toBe('Money');
    await symlink(join(modelsDirectory, folder), join(models, folder));
    await reindex();
    await foundByMeaning('When do I pay the government?', 'Money');
    expect((await send('GET', corpus)).body).toMatchObject({ stale: false, stats: { documents: 2 } });
  } finally {
    await local.close();
    await rm(models, { recursive: true });
  }
});

test('whoever adds documents pays for their vectors, and a used up quota is why they fail', async () => {
  await untilFarFromMidnight(20_000);
  const corpus = await newCorpus();
  const today = new Date().toISOString().slice(0, 10);
  const used = async () => {
    const usage = await ask('GET', `/api/v1/usage?group_by=user&from=${today}&to=${today}`);
    return usage.body.data[0]?.usage.input_tokens ?? 0;
  };
  const before = await used();
  await add(corpus, { texts: [{ title: 'One', text: 'About otters.' }] });
  expect(await used()).toBe(before + 7);
  const limits = { tokens: { day: { hard: before + 7 } } };
  const quota = `/api/v1/quotas/user/${ada.user.id}`;
  const limit = await app.request('PUT', quota, { token: app.operatorKey, body: { limits } });
  expect(limit.status).toBe(200);
  const job = await add(corpus, { texts: [{ title: 'Two', text: 'About beavers.' }] });
  expect(job).toMatchObject({
    status: 'failed',
    items: [{ status: 'failed', stage: 'embed', attempts: 1, error: { code: 'quota_exceeded' } }],
  });
  await app.request('DELETE', quota, { token: app.operatorKey, headers: { 'if-match': '*' } });
  await ask('POST', `${corpus}/ingestion-jobs/${job.id}/retry`);
  expect(await ended(corpus, job.id)).toMatchObject({ status: 'completed' });
});

test('a deleted document is found no more, and a disabled one does not count', async () => {
  const corpus = await newCorpus();
  const texts = [
    { title: 'One', text: 'About giraffes.' },
    { title: 'Two', text: 'About giraffes as well.' },
  ];
  const job = await add(corpus, { texts });
  const [one, two] = job.items.map((item: Json) => `${corpus}/documents/${item.document_id}`);
  const hits = async () =>
    (await ask('POST', `${corpus}/search`, { query: 'giraffes', mode: 'keyword' })).body.data;
  expect(await hits()).toHaveLength(2);
  await app.request('PATCH', one, { token: ada.token, body: { enabled: false }, headers: mergePatch });
  expect((await ask('GET', corpus)).body.stats.documents).toBe(1);
  expect(await hits()).toHaveLength(1);
  expect((await ask('DELETE', two)).status).toBe(204);
  expect(await hits()).toEqual([]);
  expect((await ask('GET', corpus)).body.stats).toEqual({ documents: 0, chunks: 0, bytes: 0 });
  expect((await ask('GET', `${corpus}/ingestion-jobs/${job.id}`)).body.items).toHaveLength(1);
});

test('a file that documents are made from goes with force only, and what was read from it stays', async () => {
  const corpus = await newCorpus();
  const file = await upload('keep.md', '# Kept\n\nAbout walruses.');
  const job = await add(corpus, { file_ids: [file] });
  expect((await ask('DELETE', `/api/v1/files/${file}`)).body.code).toBe('file_in_use');
  const document = `${corpus}/documents/${job.items[0].document_id}`;
  const read = (await ask('GET', document)).headers.get('etag') ?? '';
  expect((await ask('DELETE', `/api/v1/files/${file}?force=true`)).status).toBe(204);
  const again = await ask('GET', document, undefined, { 'if-none-match': read });
  expect(again).toMatchObject({ status: 200, body: { status: 'ready', file_id: null, chunks: 1 } });
  // Nothing of it was changed, so whoever has read it before may change it.
  const headers = { ...mergePatch, 'if-match': read };
  expect((await ask('PATCH', document, { title: 'Walruses' }, headers)).status).toBe(200);
  expect((await ask('DELETE', document, undefined, headers)).status).toBe(412);
});

test('how far a job has come is told to whoever follows the workspace', async () => {
  const corpus = await newCorpus();
  const texts = ['newts', 'toads', 'frogs'].map((title) => ({ title, text: `About ${title}.` }));
  const job = await add(corpus, { texts });
  const types = 'ingestion_progress,ingestion_ended';
  const response = await app.stream('GET', `/api/v1/events?follow=false&after=0&types=${types}`, {
    token: ada.token,
  });
  const told: Json[] = [];
  for await (const { data } of readEvents(response))
    if (data.event?.ingestion_id === job.id) told.push({ session: data.session_id, ...data.event });
  const progress = { total: 3, failed: 0, cancelled: 0 };
  expect(told[0]).toMatchObject({
    type: 'ingestion_progress',
    session: null,
    status: 'running',
    progress: { ...progress, completed: 1 },
  });
  expect(told.at(-1)).toMatchObject({
    type: 'ingestion_ended',
    status: 'completed',
    progress: { ...progress, completed: 3 },
  });
});

describe('who may', () => {
  const of = (who: Account) => (method: string, path: string, body?: unknown) =>
    app.request(method, path, { token: who.token, body });

  test('a private corpus is found by who made it and to whom it is granted, in that role', async () => {
    const { organizationId, member } = await withMember();
    const corpus = await newCorpus({ visibility: 'private' });
    const grace = of(member);
    expect((await grace('GET', corpus)).status).toBe(404);
    expect((await grace('POST', `${corpus}/documents`, { texts: [{ title: 'A', text: 'a' }] })).status).toBe(
      404,
    );
    const grant = async (role: string) =>
      ask('PUT', `${corpus}/access`, { grants: [{ principal: member.user.id, role }] });
    expect((await grant('viewer')).status).toBe(200);
    expect((await grace('GET', corpus)).status).toBe(200);
    expect((await grace('GET', '/api/v1/corpora')).body.data.map((one: Json) => one.id)).toContain(
      corpus.split('/').at(-1),
    );
    const written = () => grace('POST', `${corpus}/documents`, { texts: [{ title: 'A', text: 'a' }] });
    expect((await written()).body.code).toBe('role_required');
    await grant('member');
    expect((await written()).status).toBe(202);
    expect((await grace('GET', `${corpus}/access`)).body.code).toBe('role_required');
    expect((await ask('PUT', `${corpus}/access`, { grants: [] })).body).toEqual({ grants: [] });
    expect((await grace('GET', corpus)).status).toBe(404);
    expect(organizationId).toMatch(/^org_/);
  });

  /** Somebody in the organization of Ada who was given none of its workspaces. */
  async function withMember() {
    const organizationId = (await ask('GET', '/api/v1/organizations')).body.data[0].id;
    const member = await app.register('grace');
    const invited = await ask('POST', `/api/v1/organizations/${organizationId}/invitations`, {
      email: member.email,
      role: 'viewer',
    });
    await of(member)('POST', '/api/v1/invitations/accept', { token: invited.body.token });
    return { organizationId, member };
  }
});
