/** The history family over HTTP: what runs change in real folders, going back, branching off, single messages, searches. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { scriptedSettings } from '../server-process.ts';
import { type Account, type Json, readEvents, type TestApp, testApp } from '../test-app.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      ...scriptedSettings(upstream.url),
      permissions: { allowed_tools: ['write', 'edit', 'bash'] },
    },
  });
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const as = (account: Account) => (method: string, path: string, body?: unknown) =>
  app.request(method, `/api/v1/sessions${path}`, {
    token: account.token,
    ...(body !== undefined && { body }),
  });
const ask = (method: string, path: string, body?: unknown) => as(ada)(method, path, body);

type Call = readonly [name: string, input: object];

/** One query in which the model makes these calls, a step each, and then says what it is to say. */
async function say(prompt: string, calls: readonly Call[] = [], sessionId?: string, answer = 'Done.') {
  await upstream.script([
    ...calls.map(([name, input], step) => ({
      when: { step },
      reply: { tool_calls: [{ name, arguments: input }] },
    })),
    { reply: { text: answer } },
  ]);
  const { status, body } = await app.request('POST', '/api/v1/query', {
    token: ada.token,
    body: { prompt, ...(sessionId && { session_id: sessionId }) },
  });
  expect(status).toBe(200);
  for (const result of body.tool_results)
    expect(result, JSON.stringify(result)).toMatchObject({ is_error: false });
  const { body: session } = await ask('GET', `/${body.session_id}`);
  const folder = join(app.services.settings.workspacesDirectory, session.workspace_id);
  return { id: body.session_id as string, folder };
}

const write = (file_path: string, content: string): Call => ['write', { file_path, content }];
const edit = (file_path: string, old_string: string, new_string: string): Call => [
  'edit',
  { file_path, old_string, new_string },
];
const view = (file_path: string): Call => ['view', { file_path }];

/** A file that commands may write, whoever they run as. */
async function putOpen(folder: string, name: string): Promise<void> {
  await writeFile(join(folder, name), 'text');
  await chmod(join(folder, name), 0o666);
}

async function messagesOf(id: string, query = ''): Promise<Json[]> {
  return (await ask('GET', `/${id}/messages?limit=100${query}`)).body.data;
}

/** As the provider has counted them with this answer. */
function tokensOf({ usage }: Json): number {
  return usage.input_tokens + usage.output_tokens;
}

/** What the workspace was told of the members of a session. */
async function changesTold(id: string): Promise<string[]> {
  const path = `/api/v1/events?follow=false&types=session_updated&session_id=${id}`;
  const response = await app.stream('GET', path, { token: ada.token });
  const changes: string[] = [];
  for await (const { data } of readEvents(response)) changes.push(...data.event.changed);
  return changes;
}

async function promptOf(id: string, text: string): Promise<string> {
  const found = (await messagesOf(id)).find(({ role, parts }) => role === 'user' && parts[0].text === text);
  return found.id;
}

const rolesOf = async (id: string) => (await messagesOf(id)).map(({ role }) => role);

describe('the changes of files', () => {
  test('are told as one patch for each file, of the session or of one run', async () => {
    const { id } = await say('make', [write('d/a.txt', 'one\ntwo\n'), write('d/b.txt', 'b\n')]);
    await say('change', [edit('d/a.txt', 'two', 'three'), write('d/c.txt', 'c\n')], id);
    const { body } = await ask('GET', `/${id}/diff`);
    expect(body).toMatchObject({ session_id: id, additions: 4, deletions: 0, truncated: false });
    expect(body.files.map(({ path, status }: Json) => [path, status])).toEqual([
      ['d/a.txt', 'added'],
      ['d/b.txt', 'added'],
      ['d/c.txt', 'added'],
    ]);
    expect(body.files[0].patch).toBe('--- /dev/null\n+++ b/d/a.txt\n@@ -0,0 +1,2 @@\n+one\n+three\n');
    const { body: runs } = await app.request('GET', `/api/v1/runs?session_id=${id}`, { token: ada.token });
    const { body: second } = await ask('GET', `/${id}/diff?run_id=${runs.data[0].id}`);
    expect(second.files[0]).toMatchObject({
      path: 'd/a.txt',
      status: 'modified',
      additions: 1,
      deletions: 1,
    });
    expect(second.files).toHaveLength(2);
  });

  test('say why there is no patch where there is none', async () => {
    const { id, folder } = await say('start');
    await putOpen(folder, 'bytes');
    await putOpen(folder, 'big');
    await say(
      'go',
      [
        view('bytes'),
        view('big'),
        ['bash', { command: "printf 'a\\0b' > bytes; head -c 2000000 /dev/zero > big" }],
      ],
      id,
    );
    const { body } = await ask('GET', `/${id}/diff`);
    expect(body.files.map(({ path, note, patch }: Json) => [path, note, patch])).toEqual([
      ['big', 'too_large', null],
      ['bytes', 'binary', null],
    ]);
  });
});

describe('going back', () => {
  test('takes the prompt and all after it out of the history, and puts every file back', async () => {
    const { id, folder } = await say('before', [write('r/kept.txt', 'kept\n')]);
    await writeFile(join(folder, 'r/script.sh'), 'echo 1\n');
    await chmod(join(folder, 'r/script.sh'), 0o751);
    await writeFile(join(folder, 'r/bytes'), Buffer.from([0, 255, 1]));
    await say(
      'change',
      [
        edit('r/kept.txt', 'kept', 'changed'),
        write('r/new/file.txt', 'new\n'),
        view('r/script.sh'),
        ['bash', { command: 'rm r/script.sh' }],
      ],
      id,
    );
    await say('again', [edit('r/kept.txt', 'changed', 'changed twice')], id);
    const prompt = await promptOf(id, 'change');
    const looked = await ask('POST', `/${id}/revert`, { to_message_id: prompt, dry_run: true });
    expect(looked.body).toMatchObject({ dry_run: true, reverted_messages: 14, conflicts: [] });
    expect(looked.body.files.map(({ path, status }: Json) => [path, status])).toEqual([
      ['r/kept.txt', 'modified'],
      ['r/new/file.txt', 'deleted'],
      ['r/script.sh', 'added'],
    ]);
    expect(looked.body.files[0].patch).toContain('-changed twice\n+kept\n');
    expect(await readFile(join(folder, 'r/kept.txt'), 'utf8')).toBe('changed twice\n');
    expect(await messagesOf(id)).toHaveLength(18);

    const { status, body } = await ask('POST', `/${id}/revert`, { to_message_id: prompt });
    expect(status).toBe(200);
    expect(body).toEqual({ ...looked.body, dry_run: false });
    expect(await readFile(join(folder, 'r/kept.txt'), 'utf8')).toBe('kept\n');
    expect(await readdir(join(folder, 'r/new'))).toEqual([]);
    expect(await readFile(join(folder, 'r/script.sh'), 'utf8')).toBe('echo 1\n');
    expect((await stat(join(folder, 'r/script.sh'))).mode & 0o777).toBe(0o751);
    expect((await readdir(join(folder, 'r'))).sort()).toEqual(['bytes', 'kept.txt', 'new', 'script.sh']);

    expect(await rolesOf(id)).toEqual(['user', 'assistant', 'tool', 'assistant']);
    expect((await ask('GET', `/${id}`)).body.message_count).toBe(4);
    expect((await ask('GET', `/${id}`)).body.context.used).toBe(tokensOf((await messagesOf(id)).at(-1)));
    const gone = await messagesOf(id, '&reverted=true');
    expect(gone).toHaveLength(14);
    expect(gone.every(({ reverted }) => reverted)).toBe(true);
    expect((await ask('GET', `/${id}/messages/${prompt}`)).body).toMatchObject({ reverted: true });
    expect((await ask('GET', `/${id}/diff`)).body.files.map(({ path }: Json) => path)).toEqual([
      'r/kept.txt',
    ]);
    expect((await ask('POST', '/search', { query: 'again', session_id: id })).body.data).toEqual([]);
    const { body: runs } = await app.request('GET', `/api/v1/runs?session_id=${id}`, { token: ada.token });
    expect(runs.data).toHaveLength(3);

    // The model is told nothing of it any more, and has to look before it edits.
    await say('and now', [view('r/kept.txt'), edit('r/kept.txt', 'kept', 'new way')], id);
    const { body: sent } = await upstream.latest(() => true);
    const users = (sent as Json).messages.filter(({ role }: Json) => role === 'user');
    expect(users.map(({ content }: Json) => JSON.stringify(content))).toHaveLength(2);
    expect((await ask('POST', `/${id}/revert`, { to_message_id: prompt })).body.code).toBe(
      'message_conflict',
    );
  });

  test('changes nothing at all where one file was changed by somebody else', async () => {
    const { id, folder } = await say('go', [
      write('c/a.txt', 'a\n'),
      write('c/b.txt', 'b\n'),
      write('c/d.txt', 'd\n'),
    ]);
    await writeFile(join(folder, 'c/b.txt'), 'mine\n');
    await rm(join(folder, 'c/d.txt'));
    await mkdir(join(folder, 'c/d.txt'));
    const to_message_id = await promptOf(id, 'go');
    const { body: looked } = await ask('POST', `/${id}/revert`, { to_message_id, dry_run: true });
    expect(looked.conflicts).toEqual([
      { path: 'c/b.txt', reason: 'changed' },
      { path: 'c/d.txt', reason: 'not_a_file' },
    ]);
    const refused = await ask('POST', `/${id}/revert`, { to_message_id });
    expect(refused).toMatchObject({ status: 409, body: { code: 'revert_conflict' } });
    expect(refused.body.errors.map(({ name, code }: Json) => [name, code])).toEqual([
      ['c/b.txt', 'changed'],
      ['c/d.txt', 'not_a_file'],
    ]);
    expect(await readFile(join(folder, 'c/a.txt'), 'utf8')).toBe('a\n');
    expect(await messagesOf(id)).toHaveLength(8);
    const without = await ask('POST', `/${id}/revert`, { to_message_id, files: false });
    expect(without).toMatchObject({ status: 200, body: { files: [], reverted_messages: 8 } });
    expect(await readFile(join(folder, 'c/b.txt'), 'utf8')).toBe('mine\n');
    expect(await messagesOf(id)).toEqual([]);
    expect((await ask('GET', `/${id}/diff`)).body.files).toHaveLength(3);
  });

  test('changes nothing where somebody else has changed a file between two changes of the session', async () => {
    const { id, folder } = await say('go', [
      write('between/shared.txt', 'one\ntwo\n'),
      write('between/own.txt', 'own\n'),
    ]);
    await writeFile(join(folder, 'between/shared.txt'), 'one\ntwo\nmine\n');
    await say('again', [view('between/shared.txt'), edit('between/shared.txt', 'one', 'ONE')], id);
    const toGo = await promptOf(id, 'go');
    const { body: looked } = await ask('POST', `/${id}/revert`, { to_message_id: toGo, dry_run: true });
    expect(looked.conflicts).toEqual([{ path: 'between/shared.txt', reason: 'changed' }]);
    const refused = await ask('POST', `/${id}/revert`, { to_message_id: toGo });
    expect(refused).toMatchObject({ status: 409, body: { code: 'revert_conflict' } });
    expect(await readFile(join(folder, 'between/shared.txt'), 'utf8')).toBe('ONE\ntwo\nmine\n');
    expect(await readFile(join(folder, 'between/own.txt'), 'utf8')).toBe('own\n');
    // What was there before the session's change stays there: nothing of the other's lies in between.
    const toAgain = await promptOf(id, 'again');
    expect((await ask('POST', `/${id}/revert`, { to_message_id: toAgain })).status).toBe(200);
    expect(await readFile(join(folder, 'between/shared.txt'), 'utf8')).toBe('one\ntwo\nmine\n');
    // Nor does what is back already stand in the way, whoever put it back.
    await rm(join(folder, 'between/shared.txt'));
    expect((await ask('POST', `/${id}/revert`, { to_message_id: toGo })).status).toBe(200);
    expect(await readdir(join(folder, 'between'))).toEqual([]);
  });

  test('puts back what a command of the session has changed between two of its changes', async () => {
    const { id, folder } = await say('go', [write('formatted.txt', 'a=1\n')]);
    await chmod(join(folder, 'formatted.txt'), 0o666);
    const format: Call = ['bash', { command: "printf 'a = 1\\n' > formatted.txt", description: 'Format' }];
    await say('format', [format, view('formatted.txt'), edit('formatted.txt', '1', '2')], id);
    expect(await readFile(join(folder, 'formatted.txt'), 'utf8')).toBe('a = 2\n');
    expect((await ask('POST', `/${id}/revert`, { to_message_id: await promptOf(id, 'go') })).status).toBe(
      200,
    );
    expect(await readdir(folder)).not.toContain('formatted.txt');
  });

  test('takes up where a crash has left it, and what is back already is no conflict', async () => {
    const { id, folder } = await say('go', [write('k/a.txt', 'a\n'), write('k/b.txt', 'b\n')]);
    await rm(join(folder, 'k/a.txt'));
    const { status, body } = await ask('POST', `/${id}/revert`, { to_message_id: await promptOf(id, 'go') });
    expect(status).toBe(200);
    expect(body.files.map(({ path }: Json) => path)).toEqual(['k/b.txt']);
    expect(await readdir(join(folder, 'k'))).toEqual([]);
  });

  test.each([
    ['has gone back although the answer of the database was lost', 'lost', 200, 'before\n'],
    ['changes nothing where the database did not', 'refused', 503, 'after\n'],
    ['leaves the files where nobody can tell, and is completed when asked again', 'unknown', 503, 'before\n'],
  ])('%s', async (_, fate, status, text) => {
    const { id, folder } = await say('start');
    const file = join(folder, `fate-${fate}.txt`);
    await writeFile(file, 'before\n');
    await say('go', [view(file), edit(file, 'before', 'after')], id);
    const { history } = app.services.store;
    const { revert } = history;
    const lost = new Error('Connection terminated unexpectedly');
    const going = vi.spyOn(history, 'revert').mockImplementation(async (reach, plan, files, putBack) => {
      await revert(reach, plan, files, async () => {
        await putBack();
        if (fate !== 'lost') throw lost;
      });
      throw lost;
    });
    const asking = vi.spyOn(history, 'isReverted');
    if (fate === 'unknown') asking.mockRejectedValue(lost);
    const go = async () => ask('POST', `/${id}/revert`, { to_message_id: await promptOf(id, 'go') });
    try {
      expect((await go()).status).toBe(status);
    } finally {
      going.mockRestore();
      asking.mockRestore();
    }
    expect(await readFile(file, 'utf8')).toBe(text);
    if (status !== 200) expect((await go()).status).toBe(200);
    expect(await readFile(file, 'utf8')).toBe('before\n');
    expect((await readdir(folder)).filter((name) => name.includes(`fate-${fate}`))).toHaveLength(1);
    expect(await messagesOf(id)).toHaveLength(2);
  });

  test('waits for another run that edits one of the files, and keeps nobody from the database meanwhile', async () => {
    const { id, folder } = await say('start');
    await mkdir(join(folder, 'held'));
    await writeFile(join(folder, 'held/shared.txt'), 'one\ntwo\n');
    await say('go', [view('held/shared.txt'), edit('held/shared.txt', 'one', 'ONE')], id);
    const to_message_id = await promptOf(id, 'go');
    const { transcript } = app.services.store;
    const { recordChange } = transcript;
    const [holds, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const recording = vi.spyOn(transcript, 'recordChange').mockImplementationOnce(async (change) => {
      holds.resolve();
      await goesOn.promise;
      await recordChange(change);
    });
    onTestFinished(() => recording.mockRestore());
    const editing = say('elsewhere', [view('held/shared.txt'), edit('held/shared.txt', 'two', 'TWO')]);
    await holds.promise;
    const reverting = ask('POST', `/${id}/revert`, { to_message_id });
    // Beside the file lies what the edit is to put in its place, and what the revert is.
    await expect.poll(async () => (await readdir(join(folder, 'held'))).length).toBe(3);
    // What it does next is to ask for the file, which shows nowhere.
    await sleep(200);
    const started = performance.now();
    const unrelated = ask('POST', '', { title: 'Meanwhile' });
    await sleep(200);
    goesOn.resolve();
    expect((await unrelated).status).toBe(201);
    await editing;
    expect(await reverting).toMatchObject({ status: 409, body: { code: 'revert_conflict' } });
    // Whoever waits for the one connection that writes gives up after 30 seconds.
    expect(performance.now() - started).toBeLessThan(20_000);
    expect(await readFile(join(folder, 'held/shared.txt'), 'utf8')).toBe('ONE\nTWO\n');
    expect(await readdir(join(folder, 'held'))).toEqual(['shared.txt']);
    expect(await rolesOf(id)).toHaveLength(8);
  });

  test('follows no link out of the workspace, and puts back no bytes that it never kept', async () => {
    const { id, folder } = await say('start', [write('l/in/a.txt', 'a\n')]);
    await writeFile(join(folder, 'l/huge'), 'text');
    await say('go', [edit('l/in/a.txt', 'a', 'b')], id);
    const outside = join(folder, '..', `outside-${randomBytes(4).toString('hex')}`);
    execFileSync('mv', [join(folder, 'l/in'), outside]);
    await symlink(outside, join(folder, 'l/in'));
    const refused = await ask('POST', `/${id}/revert`, { to_message_id: await promptOf(id, 'go') });
    expect(refused).toMatchObject({
      status: 409,
      body: { errors: [{ name: 'l/in/a.txt', code: 'not_a_file' }] },
    });
    expect(await readFile(join(outside, 'a.txt'), 'utf8')).toBe('b\n');
  });

  test('puts back a file of ten megabytes, byte by byte', async () => {
    const { id, folder } = await say('start');
    const text = `${randomBytes(5 * 1024 * 1024 - 8).toString('hex')}\nend\n`;
    await writeFile(join(folder, 'large.txt'), text);
    await say('go', [view('large.txt'), edit('large.txt', 'end', 'END')], id);
    const { body: diff } = await ask('GET', `/${id}/diff`);
    expect(diff.files).toMatchObject([{ path: 'large.txt', status: 'modified', note: 'too_large' }]);
    const { status } = await ask('POST', `/${id}/revert`, { to_message_id: await promptOf(id, 'go') });
    expect(status).toBe(200);
    expect((await readFile(join(folder, 'large.txt'), 'utf8')) === text).toBe(true);
  });

  test('is refused while a run is at work, and to what is no prompt', async () => {
    const { id } = await say('first');
    const [prompt, answer] = await messagesOf(id);
    const wrong = await ask('POST', `/${id}/revert`, { to_message_id: answer.id });
    expect(wrong).toMatchObject({ status: 409, body: { code: 'message_conflict' } });
    await upstream.script([{ reply: { text: 'Late.', hold_after_chunks: 0 } }]);
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: ada.token,
      body: { prompt: 'second', session_id: id },
    });
    for (const [method, path, body] of [
      ['POST', '/revert', { to_message_id: prompt.id }],
      ['POST', '/revert', { to_message_id: prompt.id, dry_run: true }],
      ['PATCH', `/messages/${prompt.id}`, { text: 'other' }],
      ['DELETE', `/messages/${prompt.id}`],
    ] as const)
      expect(await ask(method, `/${id}${path}`, body)).toMatchObject({
        status: 409,
        body: { code: 'session_busy' },
      });
    const liked = await ask('PATCH', `/${id}/messages/${answer.id}`, { feedback: { rating: 'up' } });
    expect(liked.status).toBe(200);
    await upstream.releaseHeld();
    await response.text();
  });
});

describe('a fork', () => {
  test('has copies up to a message, tool calls with their results, and a history of its own', async () => {
    const { id } = await say('one', [write('f.txt', 'f\n')]);
    await say('two', [], id);
    const messages = await messagesOf(id);
    const call = messages[1];
    const made = await ask('POST', `/${id}/fork`, { at_message_id: call.id, title: 'Another way' });
    expect(made.status).toBe(201);
    expect(made.headers.get('location')).toBe(`/api/v1/sessions/${made.body.id}`);
    expect(made.body).toMatchObject({
      ...{ parent_id: id, title: 'Another way', message_count: 3, status: 'idle' },
      usage: { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 },
    });
    // What is read next is told, though nothing was spent here.
    expect(made.body.context.used).toBe(tokensOf(messages[1]));
    const copies = await messagesOf(made.body.id);
    expect(copies.map(({ parts }) => parts)).toEqual(messages.slice(0, 3).map(({ parts }) => parts));
    expect(
      copies.map(({ id: copy }) => copy).filter((copy) => messages.some((one) => one.id === copy)),
    ).toEqual([]);
    expect((await ask('GET', `/${made.body.id}/diff`)).body.files).toEqual([]);
    await say('three', [], made.body.id);
    expect(await rolesOf(made.body.id)).toEqual(['user', 'assistant', 'tool', 'user', 'assistant']);
    expect(await messagesOf(id)).toEqual(messages);
    const { body: children } = await ask('GET', `?parent_id=${id}`);
    expect(children.data.map(({ id: child }: Json) => child)).toEqual([made.body.id]);
    const whole = await ask('POST', `/${id}/fork`, {});
    expect(whole.body).toMatchObject({ message_count: 6, title: expect.any(String) });
    expect(
      (await ask('POST', '/search', { query: 'two', session_id: whole.body.id })).body.data,
    ).toHaveLength(1);
    expect((await ask('POST', `/${id}/fork`, { at_message_id: copies[0].id })).status).toBe(404);
    const reverted = await promptOf(id, 'two');
    await ask('POST', `/${id}/revert`, { to_message_id: reverted });
    expect(await ask('POST', `/${id}/fork`, { at_message_id: reverted })).toMatchObject({
      status: 409,
      body: { code: 'message_conflict' },
    });
  });
});

describe('the list of messages', () => {
  test('goes on behind a message, from either end, page by page', async () => {
    const { id } = await say('one', [write('l.txt', 'l\n')]);
    await say('two', [], id);
    const ids = (await messagesOf(id)).map((message) => message.id);
    const listed = async (query: string) => (await ask('GET', `/${id}/messages?${query}`)).body;
    const idsOf = async (query: string) => (await listed(query)).data.map((message: Json) => message.id);
    expect(await idsOf('sort=-created_at')).toEqual(ids.toReversed());
    expect(await idsOf(`after_message_id=${ids[3]}`)).toEqual(ids.slice(4));
    expect(await idsOf(`after_message_id=${ids[1]}&role=assistant`)).toEqual([ids[3], ids[5]]);
    const newest = `after_message_id=${ids[0]}&sort=-created_at&limit=3`;
    const page = await listed(newest);
    expect(page.data.map((message: Json) => message.id)).toEqual(ids.slice(3).toReversed());
    const rest = await idsOf(`${newest}&cursor=${page.next_cursor}`);
    expect(rest).toEqual(ids.slice(1, 3).toReversed());
    expect((await ask('GET', `/${id}/messages?cursor=${page.next_cursor}`)).status).toBe(400);
    const other = await say('three');
    const elsewhere = await ask('GET', `/${other.id}/messages?after_message_id=${ids[0]}`);
    expect(elsewhere).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });
});

describe('a message', () => {
  test('put otherwise takes the place of the old one, and what came after leaves the history', async () => {
    const { id } = await say('teh question');
    await say('and more', [], id);
    const old = await promptOf(id, 'teh question');
    const { status, body } = await ask('PATCH', `/${id}/messages/${old}`, { text: 'The question' });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      role: 'user',
      parts: [{ type: 'text', text: 'The question' }],
      reverted: false,
    });
    expect(body.id).not.toBe(old);
    expect(await rolesOf(id)).toEqual(['user']);
    expect((await ask('GET', `/${id}`)).body.message_count).toBe(1);
    expect(await changesTold(id)).toContain('message_count');
    await say('go on', [], id);
    expect(await rolesOf(id)).toEqual(['user', 'user', 'assistant']);
    const [, , answer] = await messagesOf(id);
    const refused = await ask('PATCH', `/${id}/messages/${answer.id}`, { text: 'mine' });
    expect(refused).toMatchObject({ status: 409, body: { code: 'message_conflict' } });
  });

  test('takes an opinion, and gives it back', async () => {
    const { id } = await say('hello');
    const [, answer] = await messagesOf(id);
    const path = `/${id}/messages/${answer.id}`;
    const feedback = { rating: 'down', comment: 'Too short.' };
    expect((await ask('PATCH', path, { feedback })).body).toEqual({ ...answer, feedback });
    expect((await ask('GET', path)).body.feedback).toEqual(feedback);
    expect((await ask('PATCH', path, { feedback: null })).body).toEqual(answer);
    expect(await changesTold(id)).not.toContain('message_count');
    for (const body of [{}, { feedback: { rating: 'meh' } }, { text: '' }, { text: 'a\0' }, { parts: [] }])
      expect((await ask('PATCH', path, body)).status, JSON.stringify(body)).toBe(400);
  });

  test('is deleted with what means nothing without it', async () => {
    const { id } = await say('one', [write('m.txt', 'm\n')]);
    await say('two', [], id);
    const [, call, results] = await messagesOf(id);
    const { body: origin } = await ask('POST', `/${id}/fork`, {});
    expect((await ask('DELETE', `/${id}/messages/${results.id}`)).status).toBe(204);
    expect(await rolesOf(id)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect((await ask('GET', `/${id}/messages/${call.id}`)).status).toBe(404);
    expect((await ask('GET', `/${id}`)).body.message_count).toBe(4);
    await ask('DELETE', `/${id}/messages/${await promptOf(id, 'one')}`);
    expect(await rolesOf(id)).toEqual(['user', 'assistant']);
    expect(
      (await ask('POST', '/search', { query: 'one', in: ['message'], session_id: id })).body.data,
    ).toEqual([]);
    const [, copiedCall] = await messagesOf(origin.id);
    await ask('DELETE', `/${origin.id}/messages/${copiedCall.id}`);
    expect(await rolesOf(origin.id)).toEqual(['user', 'assistant', 'user', 'assistant']);
    // What is left can be shown to a model.
    await say('three', [], origin.id);
  });

  test.each([
    ['user', []],
    ['assistant', ['user', 'assistant']],
    ['tool', ['user', 'assistant']],
  ])(
    'of the %s is deleted with the calls and results of a client that carries them out',
    async (role, left) => {
      const { id } = await say('start');
      await ask('DELETE', `/${id}/messages/${await promptOf(id, 'start')}`);
      await upstream.script([
        { when: { step: 0 }, reply: { text: 'I look.', tool_calls: [{ name: 'weather', arguments: {} }] } },
        { reply: { text: 'Sunny.' } },
      ]);
      const question = { role: 'user', content: 'How is the weather?' };
      const send = async (...messages: Json[]) => {
        const { status, body } = await app.request('POST', '/v1/messages', {
          token: ada.token,
          headers: { 'x-service-session-id': id },
          body: {
            ...{ model: 'scripted:scripted-1', max_tokens: 100, messages },
            tools: [{ name: 'weather', description: 'Looks.', input_schema: { type: 'object' } }],
          },
        });
        expect(status).toBe(200);
        return body.content;
      };
      const content = await send(question);
      const call = content.find(({ type }: Json) => type === 'tool_use');
      const given = { type: 'tool_result', tool_use_id: call.id, content: '21 degrees' };
      await send(question, { role: 'assistant', content }, { role: 'user', content: [given] });
      const messages = await messagesOf(id);
      expect(messages.map((message) => message.role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
      await ask('DELETE', `/${id}/messages/${messages.find((message) => message.role === role)?.id}`);
      expect(await rolesOf(id)).toEqual(left);
      const { body: exported } = await ask('GET', `/${id}/export`);
      expect(await ask('POST', '/import', exported)).toMatchObject({ status: 201 });
    },
  );
});

describe('a search', () => {
  test('finds what was said, page by page, for its owner alone', async () => {
    const word = `zebra${randomBytes(4).toString('hex')}`;
    const { id } = await say(`Tell me of the ${word}`, [], undefined, `A ${word} has stripes.`);
    const first = await app.request('POST', '/api/v1/sessions/search?limit=1', {
      token: ada.token,
      body: { query: word },
    });
    expect(first.body.data).toMatchObject([
      { kind: 'message', session_id: id, snippet: `A ${word} has stripes.` },
    ]);
    const second = await app.request(
      'POST',
      `/api/v1/sessions/search?limit=5&cursor=${first.body.next_cursor}`,
      { token: ada.token, body: { query: word } },
    );
    expect(second.body.data.map(({ snippet }: Json) => snippet)).toContain(`Tell me of the ${word}`);
    expect((await as(mallory)('POST', '/search', { query: word })).body).toEqual({
      data: [],
      next_cursor: null,
    });
    expect((await ask('GET', `?q=${word}`)).status).toBe(200);
  });

  test.each([
    [{}],
    [{ query: '' }],
    [{ query: 'a\0b' }],
    [{ query: 'x'.repeat(1001) }],
    [{ query: 'a', in: [] }],
    [{ query: 'a', in: ['title', 'title'] }],
    [{ query: 'a', in: ['thoughts'] }],
    [{ query: 'a', session_id: 'x' }],
    [{ query: 'a', limit: 1 }],
  ])('refuses %j', async (body) => {
    expect(await ask('POST', '/search', body)).toMatchObject({
      status: 400,
      body: { code: expect.stringMatching(/^invalid_(request|encoding)$/) },
    });
  });

  test.each(['"', "' OR 1=1 --", '*', 'a*"b', '\\', '(((', 'NOT', '!&|', '…', '\u202e', '天'])(
    'takes %j for words, whatever the database makes of it',
    async (query) => {
      expect((await ask('POST', '/search', { query })).status).toBe(200);
      expect((await ask('GET', `?q=${encodeURIComponent(query)}`)).status).toBe(200);
    },
  );

  test('needs a credential', async () => {
    const answer = await app.request('POST', '/api/v1/sessions/search', { body: { query: 'a' } });
    expect(answer).toMatchObject({ status: 401, body: { code: 'credential_missing' } });
  });
});
