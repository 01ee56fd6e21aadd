/** `service corpora`, and runs that answer from documents: from a folder to a cited answer, without any network. */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServiceClient } from '@service/client';
import { expect, onTestFinished, test } from 'vitest';
import { makePdf } from '../../../server/knowledge/parsing/test-documents.ts';
import { readServerSettings } from '../../../server/server-settings/server-settings.ts';
import { startPostgres } from '../../../server/store/test-postgres.ts';
import { hasS3, startS3 } from '../../../server/store/test-s3.ts';
import { findProgram } from '../search-path.ts';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { runToEnd } from '../test-process.ts';
import { startTestServer } from '../test-server.ts';

/** Where `make embedder` has put the model of this machine. */
const { modelsDirectory } = readServerSettings([], process.env).settings;
const withModel = { variables: { SERVICE_MODELS_DIR: modelsDirectory } };

/** A folder of a PDF, Markdown, and what nobody wants to read. */
function writeHandbook({ home, write }: TestHome): string {
  write('handbook/people/holidays.md', '# Holidays\n\nEverybody has 30 days of vacation a year.\n');
  write('handbook/kitchen.md', '# Kitchen\n\nThe coffee machine is cleaned on Fridays.\n');
  write('handbook/.drafts/secret.md', 'Nobody reads drafts.\n');
  write('handbook/node_modules/package/README.md', 'Nobody reads packages.\n');
  const travel = { title: 'Travel', paragraphs: ['Trains are booked in the second class.'] };
  writeFileSync(join(home, 'handbook/travel.pdf'), makePdf([travel]));
  writeFileSync(join(home, 'handbook/logo.png'), Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'));
  return join(home, 'handbook');
}

test.skipIf(!findProgram('bwrap', process.env.PATH, '/'))(
  'a folder of PDF and Markdown becomes a cited answer with the network unplugged',
  async () => {
    const home = testHome();
    const folder = writeHandbook(home);
    const environment = { ...home.environment, ...withModel.variables };
    const unplugged = (...command: string[]) =>
      runToEnd('bwrap', ['--dev-bind', '/', '/', '--unshare-net', '--die-with-parent', ...command], {
        cwd: home.project,
        environment,
      });
    const devices = await unplugged('cat', '/proc/net/dev');
    expect(devices.stdout.match(/^ *\w+:/gm)).toEqual([expect.stringMatching(/^ *lo:$/)]);
    const added = await unplugged(launcher, 'corpora', 'add', folder);
    expect(added).toEqual({
      code: 0,
      stdout: 'handbook: 3 documents, 3 passages (3 read now)\n',
      stderr: expect.stringMatching(/^service: handbook\/logo\.png: left out\. .*\n$/),
    });
    const asked = await unplugged(
      launcher,
      'run',
      '--corpus',
      'handbook',
      'How long may I stay away from work?',
    );
    expect(asked.code).toBe(0);
    // Not one word of the question stands in it: the model on this machine has found it.
    expect(asked.stdout).toContain(
      '“# Holidays\n\nEverybody has 30 days of vacation a year.” [1] holidays.md › Holidays (line 1)\n',
    );
    const booked = await unplugged(launcher, 'run', '-q', '--corpus', 'handbook', 'Which trains are booked?');
    expect(booked.stdout).toMatch(
      /“[^”]*Trains are booked in the second class\.” \[1\] travel\.pdf .*\(page 1\)/,
    );
  },
);

test('what has changed is read anew and takes the place of what was there; the rest stays as it is', async () => {
  const home = testHome();
  const folder = writeHandbook(home);
  const service = (...words: string[]) => home.service(words, withModel);
  rmSync(join(folder, 'logo.png'));
  expect((await service('corpora', 'add', folder, '--name', 'work')).code).toBe(0);
  home.write('handbook/kitchen.md', '# Kitchen\n\nThe coffee machine is cleaned on Mondays.\n');
  home.write('handbook/broken.pdf', '%PDF-1.7\nnothing of a PDF\n');
  const again = await service('corpora', 'add', folder, '--name', 'work', '--json');
  expect(again).toMatchObject({ code: 1, stderr: 'service: 1 file could not be taken in.\n' });
  const told = JSON.parse(again.stdout);
  expect(told).toMatchObject({
    corpus: { name: 'work', stats: { documents: 3 } },
    added: ['handbook/kitchen.md'],
    failed: [{ file: 'handbook/broken.pdf', code: 'malformed' }],
  });
  expect(told.unchanged.toSorted()).toEqual(['handbook/people/holidays.md', 'handbook/travel.pdf']);
  const found = await service('corpora', 'search', 'work', 'coffee', 'machine', '--json');
  const texts = JSON.parse(found.stdout).map(({ text }: { text: string }) => text);
  expect(texts.filter((text: string) => text.includes('coffee'))).toEqual([
    expect.stringContaining('Mondays'),
  ]);
  const [corpus] = JSON.parse((await service('corpora', 'list', '--json')).stdout);
  expect(await service('corpora', 'delete', corpus.id.slice(-8), '--yes')).toMatchObject({
    code: 0,
    stdout: `Deleted ${corpus.id}\n`,
  });
  expect(await service('run', '--corpus', 'work', 'Hello')).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('There is no corpus called "work" here.'),
  });
}, 180_000);

test('the files of a folder never take the place of those of another folder of the same name', async () => {
  const home = testHome();
  const none = { variables: { SERVICE_MODELS_DIR: join(home.home, 'none') } };
  const [ours, theirs] = ['ours', 'theirs'].map((one) => join(home.home, one, 'docs'));
  home.write('ours/docs/notes.md', 'The coffee machine is cleaned on Fridays.\n');
  home.write('theirs/docs/notes.md', 'The tea kettle is never cleaned.\n');
  const add = (...folders: (string | undefined)[]) =>
    home.service(['corpora', 'add', ...folders.map(String), '--json'], none);
  expect(await add(ours, theirs)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(
      `${ours}/notes.md and ${theirs}/notes.md would both be called docs/notes.md.`,
    ),
  });
  for (const folder of [ours, theirs])
    expect(JSON.parse((await add(folder)).stdout).added).toEqual(['docs/notes.md']);
  home.write('ours/docs/notes.md', 'The coffee machine is cleaned on Mondays.\n');
  expect(JSON.parse((await add(ours)).stdout)).toMatchObject({
    corpus: { stats: { documents: 2 } },
    added: ['docs/notes.md'],
  });
  expect(JSON.parse((await add(theirs)).stdout)).toMatchObject({
    corpus: { stats: { documents: 2 } },
    unchanged: ['docs/notes.md'],
  });
});

test('a file is the same whichever folder above it is named', async () => {
  const home = testHome();
  const none = { variables: { SERVICE_MODELS_DIR: join(home.home, 'none') } };
  home.write('handbook/policies/leave.md', 'Everybody has 30 days of vacation.\n');
  const add = async (folder: string) => {
    const words = ['corpora', 'add', join(home.home, folder), '--name', 'handbook', '--json'];
    const { corpus, added, unchanged } = JSON.parse((await home.service(words, none)).stdout);
    return { documents: corpus.stats.documents, added, unchanged };
  };
  expect(await add('handbook')).toMatchObject({ documents: 1, unchanged: [] });
  expect(await add('handbook/policies')).toEqual({
    documents: 1,
    added: [],
    unchanged: ['policies/leave.md'],
  });
  home.write('handbook/policies/leave.md', 'Everybody has 31 days of vacation.\n');
  expect(await add('handbook/policies/leave.md')).toEqual({
    documents: 1,
    added: ['leave.md'],
    unchanged: [],
  });
  home.write('handbook/policies/leave.md', 'Everybody has 32 days of vacation.\n');
  expect(await add('handbook')).toMatchObject({ documents: 1, unchanged: [] });
});

test('a file that an older version has added is the same, too', async () => {
  const server = await startTestServer();
  const home = testHome();
  const file = home.write('handbook/policies/leave.md', 'Everybody has 30 days of vacation.\n');
  const { data: corpus } = await server.client.POST('/api/v1/corpora', { body: { name: 'handbook' } });
  const root = createHash('sha256')
    .update(`${dirname(dirname(file))}/`)
    .digest('hex')
    .slice(0, 16);
  const form = new FormData();
  form.append('purpose', 'knowledge');
  form.append('metadata', JSON.stringify({ place: 'policies/leave.md', root }));
  form.append('file', new Blob([readFileSync(file)]), 'leave.md');
  const { data: stored } = await server.client.POST('/api/v1/files', {
    body: { file: '' },
    bodySerializer: () => form,
  });
  const params = { path: { corpus_id: corpus.id } };
  await server.client.POST('/api/v1/corpora/{corpus_id}/documents', {
    params,
    body: { file_ids: [stored.id] },
  });
  const documents = async () =>
    (await server.client.GET('/api/v1/corpora/{corpus_id}', { params })).data.stats.documents;
  await expect.poll(documents).toBe(1);
  const { data: key } = await server.client.POST('/api/v1/auth/api-keys', { body: { name: 'terminal' } });
  for (const folder of ['handbook', 'handbook/policies']) {
    const words = ['corpora', 'add', join(home.home, folder), '--name', 'handbook', '--server', server.url];
    const { stdout } = await home.service([...words, '--json'], { variables: { SERVICE_API_KEY: key.key } });
    expect(JSON.parse(stdout)).toMatchObject({ corpus: { stats: { documents: 1 } }, added: [] });
  }
});

/** Root reads everything, unless it gives that right up; null where it cannot. */
const bound =
  process.getuid?.() !== 0
    ? []
    : findProgram('setpriv', process.env.PATH, '/')
      ? ['setpriv', '--bounding-set=-dac_override,-dac_read_search']
      : null;

test.skipIf(!bound)('what may not be read is told, and the rest is taken in', async () => {
  const home = testHome();
  const folder = writeHandbook(home);
  chmodSync(home.write('handbook/closed.md', 'Nobody may read this.\n'), 0);
  home.write('handbook/locked/notes.md', 'Nor this.\n');
  chmodSync(join(folder, 'locked'), 0);
  onTestFinished(() => chmodSync(join(folder, 'locked'), 0o700));
  const variables = { SERVICE_MODELS_DIR: join(home.home, 'none') };
  const [program = '', ...words] = [...(bound ?? []), launcher, 'corpora', 'add', folder, '--json'];
  const place = { cwd: home.project, environment: { ...home.environment, ...variables } };
  const { code, stdout, stderr } = await runToEnd(program, words, place);
  expect(JSON.parse(stdout)).toMatchObject({
    corpus: { stats: { documents: 3 } },
    failed: [
      { file: 'handbook/locked', code: 'unreadable', message: 'It cannot be read (EACCES).' },
      { file: 'handbook/closed.md', code: 'unreadable', message: 'It cannot be read (EACCES).' },
      { file: 'handbook/logo.png', code: 'unsupported_type' },
    ],
  });
  expect([code, stderr]).toEqual([1, 'service: 2 files could not be taken in.\n']);
});

/** What stands in front of a server, and answers some calls itself. */
async function proxyTo(
  url: string,
  refused: (call: string) => boolean | 'never',
  answered: (call: string) => Promise<void> = async () => undefined,
): Promise<string> {
  const proxy = createServer(async (request, response) => {
    const call = `${request.method} ${request.url}`;
    const isRefused = refused(call);
    if (isRefused) {
      request.resume();
      if (isRefused === 'never') return;
      response.writeHead(500).end();
      return;
    }
    const { host: _, connection: __, ...headers } = request.headers as Record<string, string>;
    const chunks: Buffer[] | null = await request.toArray().catch(() => null);
    if (chunks === null) return; // It was broken off.
    const body = chunks.length > 0 ? Buffer.concat(chunks) : null;
    const answer = await fetch(`${url}${request.url}`, { method: request.method ?? '', headers, body });
    const bytes = Buffer.from(await answer.arrayBuffer());
    await answered(call);
    const told = ['content-type', 'retry-after'].flatMap((name) => {
      const value = answer.headers.get(name);
      return value === null ? [] : [[name, value]];
    });
    response.writeHead(answer.status, Object.fromEntries(told));
    response.end(bytes);
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void proxy.close());
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}

test('files whose documents could not be begun do not stay on the server; those that must are named', async () => {
  const home = testHome();
  const server = await startTestServer();
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const folder = writeHandbook(home);
  const operator = createServiceClient({ baseUrl: server.url, token: server.operatorKey });
  const files = async () => (await operator.GET('/api/v1/files')).data.data;
  const addBehind = async (refused: RegExp) => {
    const url = await proxyTo(server.url, (call) => refused.test(call));
    return await home.service(['corpora', 'add', folder, '--server', url], { variables });
  };
  const failed = await addBehind(/^POST .*\/documents$/);
  expect(failed).toMatchObject({ code: 4, stdout: '', stderr: expect.not.stringContaining('fil_') });
  expect(await files()).toEqual([]);
  const stuck = await addBehind(/^POST .*\/documents$|^DELETE /);
  expect(stuck.stderr).toContain('4 files of no document could not be deleted on the server: fil');
  expect(await files()).toHaveLength(4);
});

test('more files than the server takes in a minute are taken in, some of them in the next one', async () => {
  const home = testHome();
  // Of its four files one is a picture.
  const folder = writeHandbook(home);
  const server = await startTestServer({}, { SERVICE_RATE_LIMITS: 'write=5/45' });
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const added = await home.service(['corpora', 'add', folder, '--server', server.url], { variables });
  expect(added.stdout).toBe('handbook: 3 documents, 3 passages (3 read now)\n');
}, 180_000);

test('where the server takes no more for an hour, no further file is sent', async () => {
  const home = testHome();
  const server = await startTestServer({}, { SERVICE_RATE_LIMITS: 'write=2/3600' });
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const sent: string[] = [];
  const url = await proxyTo(
    server.url,
    () => false,
    async (call) => void (call.startsWith('POST ') && sent.push(call)),
  );
  const added = await home.service(['corpora', 'add', writeHandbook(home), '--server', url], { variables });
  expect(added).toMatchObject({ code: 1, stderr: expect.stringContaining('(rate_limited)') });
  expect(sent).toEqual(['POST /api/v1/corpora', 'POST /api/v1/files', 'POST /api/v1/files']);
});

test('a corpus is added to by its id, too; what is neither a file nor a folder is refused', async () => {
  const home = testHome();
  home.write('first/one.md', 'The first.');
  home.write('second/two.md', 'The second.');
  const add = (...words: string[]) => home.service(['corpora', 'add', ...words, '--json']);
  const { corpus } = JSON.parse((await add(join(home.home, 'first'))).stdout);
  const second = JSON.parse((await add(join(home.home, 'second'), '--name', corpus.id)).stdout);
  expect(second.corpus).toMatchObject({ id: corpus.id, name: 'first' });
  const pipe = join(home.home, 'pipe');
  execFileSync('mkfifo', [pipe]);
  expect(await add(pipe)).toMatchObject({
    code: 2,
    stderr: `service: ${pipe} is neither a file nor a folder.\n`,
  });
});

test('what was replaced goes, also where somebody was quicker, or an earlier time came to its end before that', async () => {
  const home = testHome();
  const server = await startTestServer();
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const folder = writeHandbook(home);
  rmSync(join(folder, 'logo.png'));
  const operator = createServiceClient({ baseUrl: server.url, token: server.operatorKey });
  const add = (url: string) => home.service(['corpora', 'add', folder, '--server', url], { variables });
  expect((await add(server.url)).code).toBe(0);
  const [corpus] = (await operator.GET('/api/v1/corpora')).data.data;
  const path = { corpus_id: corpus?.id ?? '' };
  const documents = async () =>
    (await operator.GET('/api/v1/corpora/{corpus_id}/documents', { params: { path } })).data.data;
  const change = (day: string) => {
    home.write('handbook/kitchen.md', `# Kitchen\n\nThe coffee machine is cleaned on ${day}.\n`);
    home.write('handbook/people/holidays.md', `# Holidays\n\nNobody works on ${day}.\n`);
  };
  const old = (await documents()).find(({ title }) => title === 'kitchen.md');
  change('Mondays');
  let quicker = 0;
  const behind = await proxyTo(
    server.url,
    () => false,
    async (call) => {
      if (!/^POST .*\/documents$/.test(call)) return;
      const params = { path: { ...path, document_id: old?.id ?? '' } };
      await operator.DELETE('/api/v1/corpora/{corpus_id}/documents/{document_id}', { params });
      quicker += 1;
    },
  );
  expect((await add(behind)).code).toBe(0);
  expect([quicker, (await documents()).length]).toEqual([1, 3]);
  change('Tuesdays');
  const stuck = await proxyTo(server.url, (call) => /^DELETE .*\/documents\//.test(call));
  expect((await add(stuck)).code).not.toBe(0);
  expect((await documents()).length).toBeGreaterThan(3);
  expect((await add(server.url)).stdout).toContain('3 documents');
  expect(await documents()).toHaveLength(3);
}, 180_000);

test('Ctrl+C takes back what was uploaded and is not being read, and the same command goes on', async () => {
  const home = testHome();
  const server = await startTestServer();
  const folder = writeHandbook(home);
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const operator = createServiceClient({ baseUrl: server.url, token: server.operatorKey });
  const files = async () => (await operator.GET('/api/v1/files')).data.data;
  const stored: number[] = [];
  // Once the second is there, and the command waits for its id: how long a busy server takes for it is not the command's.
  const interrupt = async (call: string) => {
    if (call !== 'POST /api/v1/files') return;
    if (stored.length === 1) service.child.kill('SIGINT');
    stored.push((await files()).length);
  };
  const url = await proxyTo(server.url, () => false, interrupt);
  const service = home.start(['corpora', 'add', folder, '--server', url], { variables });
  expect((await service.ended).code).toBe(130);
  expect(service.stderr()).toContain('Stopped.');
  expect(stored).toEqual([1, 2]);
  expect(await files()).toEqual([]);
  const again = await home.service(['corpora', 'add', folder, '--server', server.url], { variables });
  expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('3 documents') });
});

test('Ctrl+C ends an upload that does not come to its end, and a second one does so at once; no copy stays', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const folder = writeHandbook(home);
  const copies = join(home.home, 'copies');
  mkdirSync(copies);
  const variables = { SERVICE_API_KEY: server.operatorKey, TMPDIR: copies };
  for (const isImpatient of [false, true]) {
    const hanging = Promise.withResolvers<void>();
    const url = await proxyTo(server.url, (call) => {
      if (call === 'POST /api/v1/files') hanging.resolve();
      return call === 'POST /api/v1/files' ? 'never' : false;
    });
    const service = home.start(['corpora', 'add', folder, '--server', url], { variables });
    await hanging.promise;
    expect(readdirSync(copies)).toHaveLength(1);
    service.child.kill('SIGINT');
    // A signal that comes before the first was heard is the same one.
    for (; isImpatient && service.child.exitCode === null; await sleep(50)) service.child.kill('SIGINT');
    const { code, stderr } = await service.ended;
    expect(code).toBe(130);
    if (!isImpatient) expect(stderr).toContain('Stopped.');
    expect(readdirSync(copies)).toEqual([]);
  }
});

test('a file that is written to while it is uploaded is taken in as it was', async () => {
  const home = testHome();
  const server = await startTestServer();
  const folder = writeHandbook(home);
  const growing = join(folder, 'growing.md');
  writeFileSync(growing, 'a line\n'.repeat(100_000));
  const url = await proxyTo(server.url, (call) => {
    if (call === 'POST /api/v1/files') appendFileSync(growing, 'one more\n');
    return false;
  });
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const added = await home.service(['corpora', 'add', folder, '--server', url], { variables });
  expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining('(4 read now)') });
});

test('without the model documents are found by their words, which is said; cited numbers are explained', async () => {
  const home = testHome();
  const folder = writeHandbook(home);
  const scores = JSON.stringify({ results: [{ index: 0, relevance_score: 0.875 }] });
  await withScriptedModel(home, [
    { when: { task: 'rerank' }, reply: { text: scores } },
    { reply: { text: 'Thirty days [1].' } },
  ]);
  const variables = { SERVICE_MODELS_DIR: join(home.home, 'none') };
  const added = await home.service(['corpora', 'add', folder], { variables });
  expect(added.code).toBe(0);
  expect(added.stderr).toContain('found by their words alone. The embedding model is not on this machine');
  const asked = await home.service(['run', '--corpus', 'handbook', 'How many days of vacation?'], {
    variables,
  });
  expect(asked).toMatchObject({ code: 0, stdout: 'Thirty days [1].\n' });
  expect(asked.stderr).toContain('\n[1] holidays.md › Holidays (line 1)\n');
  const search = ['corpora', 'search', 'handbook', 'days', 'of', 'vacation', '--rerank', 'scripted:reader'];
  const ordered = await home.service([...search, '--json'], { variables });
  expect(JSON.parse(ordered.stdout)).toMatchObject([{ score: 0.875 }]);
  const refused = await home.service(search.with(-1, 'nobody:reader'), { variables });
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('nobody:reader') });
  // Once the model is there, what was added before is found by its meaning, too.
  const again = await home.service(['corpora', 'add', folder, '--json'], withModel);
  expect(JSON.parse(again.stdout)).toMatchObject({
    corpus: { embedder: expect.stringMatching(/^embedded:/), stale: false },
    added: [],
  });
}, 180_000);

test('a folder goes to a remote server, too', async () => {
  const home = testHome();
  const server = await startTestServer();
  mkdirSync(join(home.home, 'empty'));
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const onServer = (...words: string[]) => home.service([...words, '--server', server.url], { variables });
  expect(await onServer('corpora', 'add', join(home.home, 'empty'))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no file in '),
  });
  const added = await onServer('corpora', 'add', writeHandbook(home));
  expect(added.stdout).toBe('handbook: 3 documents, 3 passages (3 read now)\n');
  const found = await onServer('corpora', 'search', 'handbook', 'Which', 'trains?', '--limit', '1');
  expect(found.stdout).toMatch(/^\[1\] travel\.pdf › Travel \(page 1\)\n[\s\S]*second class\.\n$/);
});

test.skipIf(!hasS3)('two settings take all of it to PostgreSQL and S3', async () => {
  await using stack = new AsyncDisposableStack();
  const database = stack.adopt(await startPostgres(), async (one) => await one?.stop());
  const bucket = stack.adopt(await startS3(), (one) => one.stop());
  const home = testHome();
  const masterKey = join(home.home, 'master.key');
  writeFileSync(masterKey, randomBytes(32).toString('base64'), { mode: 0o600 });
  const server = await startTestServer(
    {},
    {
      ...withModel.variables,
      DATABASE_URL: database?.url ?? expect.fail('There is no PostgreSQL in .venv: make python installs it.'),
      STORAGE_URL: bucket.url,
      SERVICE_MASTER_KEY_FILE: masterKey,
    },
  );
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const onServer = (...words: string[]) => home.service([...words, '--server', server.url], { variables });
  const folder = writeHandbook(home);
  expect((await onServer('corpora', 'add', folder)).stdout).toBe(
    'handbook: 3 documents, 3 passages (3 read now)\n',
  );
  // The picture too, whose document has failed.
  expect(await bucket.stored()).toHaveLength(4);
  const asked = await onServer(
    ...['run', '--model', 'demo:demo-1', '--corpus', 'handbook'],
    'How long may I stay away from work?',
  );
  expect(asked.stdout).toContain(
    '“# Holidays\n\nEverybody has 30 days of vacation a year.” [1] holidays.md › Holidays (line 1)\n',
  );
});
