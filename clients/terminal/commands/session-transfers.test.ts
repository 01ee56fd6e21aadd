/** `service sessions export` and `import`, from one project to another. */
import { expect, test } from 'vitest';
import { launcher, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { openTestTerminal } from '../test-terminal.ts';

test('a session is taken from one project to another, and goes on there', async () => {
  const home = testHome();
  await withScriptedModel(home, [{ reply: { text: 'You said: {{last_user}}' } }]);
  await home.service(['run', 'the', 'first', 'words']);
  const [session] = JSON.parse((await home.service(['sessions', 'list', '--json'])).stdout);
  const exported = await home.service(['sessions', 'export', session.id.slice(-8)]);
  expect(exported).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse(exported.stdout).messages).toHaveLength(2);

  home.write('other/.git/HEAD', 'ref: refs/heads/main\n');
  const there = { cwd: `${home.home}/other` };
  const imported = await home.service(['sessions', 'import'], { ...there, input: exported.stdout });
  expect(imported).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^ses_\w{26} the first words\n$/),
  });
  const answer = await home.service(['run', '-q', '--continue', 'more'], there);
  expect(answer).toMatchObject({ code: 0, stdout: 'You said: more\n' });
  const [{ message_count }] = JSON.parse((await home.service(['sessions', 'list', '--json'], there)).stdout);
  expect(message_count).toBe(4);
});

test.each([
  ['markdown', /^# .*\n[\s\S]*You said: hello/],
  ['html', /^<!doctype html>[\s\S]*You said: hello/],
  ['jsonl', /^\{"format_version":1,[\s\S]*\n\{"id":"msg_/],
])('a session is exported as %s', async (format, looks) => {
  const home = testHome();
  await withScriptedModel(home, [{ reply: { text: 'You said: {{last_user}}' } }]);
  await home.service(['run', 'hello']);
  const [session] = JSON.parse((await home.service(['sessions', 'list', '--json'])).stdout);
  const exported = await home.service(['sessions', 'export', session.id, '--format', format]);
  expect(exported).toMatchObject({ code: 0, stdout: expect.stringMatching(looks) });
});

test.each([
  ['no file of that name', ['missing.json'], '', 2, 'missing.json cannot be read (ENOENT)'],
  ['no JSON', [], 'hello', 2, 'standard input holds no JSON'],
  ['another document', [], '{}', 1, 'standard input is no session as service sessions export prints it'],
])('an import of %s says what is wrong', async (_, args, input, code, told) => {
  const home = testHome();
  const ended = await home.service(['sessions', 'import', ...args], { input });
  expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(told) });
});

/** A document with one message of these words. */
function document(words: string, session: object = {}): string {
  const at = '2026-11-21T08:00:00.000Z';
  const facts = {
    title: 'Old',
    agent_slug: 'coder',
    model: null,
    system_prompt: null,
    tags: [],
    metadata: {},
  };
  const said = { role: 'user', parts: [{ type: 'text', text: words }], model: null, stop_reason: null };
  return JSON.stringify({
    ...{ format_version: 1, exported_at: at, session: { ...facts, created_at: at, ...session } },
    messages: [{ ...said, usage: null, created_at: at }],
  });
}

test('a document that begins with a byte order mark is taken from a file as from a pipe', async () => {
  const home = testHome();
  await withScriptedModel(home, []);
  const input = `\ufeff${document('hello')}`;
  const taken = { code: 0, stdout: expect.stringMatching(/^ses_\w{26} Old\n$/) };
  expect(await home.service(['sessions', 'import', home.write('marked.json', input)])).toMatchObject(taken);
  expect(await home.service(['sessions', 'import'], { input })).toMatchObject(taken);
});

test('an agent and a model that are not there have others in their place', async () => {
  const home = testHome();
  await withScriptedModel(home, []);
  const input = document('hello', { agent_slug: 'theirs', model: 'theirs:m-1' });
  const take = (...more: string[]) => home.service(['sessions', 'import', ...more], { input });
  expect(await take()).toMatchObject({ code: 1, stderr: expect.stringContaining('--agent <slug>') });
  expect(await take('--agent', 'coder')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('--model <name>'),
  });
  const taken = await take('--agent', 'coder', '--model', 'scripted:scripted-1');
  expect(taken).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ses_\w{26} Old\n$/) });
});

test('a document that is too large to come in again says so, going out and coming in', async () => {
  const home = testHome();
  const most = 32 * 1024 ** 2;
  const refused = await home.service(['sessions', 'import'], { input: document('x'.repeat(most)) });
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('larger than 32 MiB') });
  // Just what an import takes: with the ids of its session and its message it comes out larger.
  const file = home.write('large.json', document('x'.repeat(most - document('').length)));
  const taken = await home.service(['sessions', 'import', file]);
  expect(taken).toMatchObject({ code: 0, stderr: '' });
  const [id = ''] = taken.stdout.split(' ');
  const exported = await home.service(['sessions', 'export', id]);
  expect(exported).toMatchObject({ code: 0, stderr: expect.stringContaining('With --no-files') });
  const without = await home.service(['sessions', 'export', id, '--no-files']);
  expect(without.stderr).toMatch(/larger than 32 MiB\.\n$/);
});

test('at a terminal an export is harmless, and an import without a file waits for nothing', async () => {
  const home = testHome();
  await withScriptedModel(home, [{ reply: { text: 'evil \u001b[2J\u009b31m \u202e' } }]);
  await home.service(['run', 'hello']);
  const [session] = JSON.parse((await home.service(['sessions', 'list', '--json'])).stdout);
  const place = { cwd: home.project, environment: home.environment };
  const words = ['sessions', 'export', session.id, '--format', 'markdown'];
  const shown = await (await openTestTerminal([launcher, ...words], place)).end();
  expect(shown).toMatchObject({
    code: 0,
    screen: expect.stringContaining('evil \\e[2J\\u{9b}31m \\u{202e}'),
  });
  const imported = await (await openTestTerminal([launcher, 'sessions', 'import'], place)).end();
  expect(imported).toMatchObject({ code: 2, screen: expect.stringContaining('Name the file to import') });
  const exported = await home.service(['sessions', 'export', session.id]);
  const file = home.write('project/session.json', exported.stdout);
  const again = await (await openTestTerminal([launcher, 'sessions', 'import', file], place)).end();
  expect(again.screen).toMatch(/^ses_\w{26} hello\nservice: To go on in it: service run --session \w{6} "…"/);
});
