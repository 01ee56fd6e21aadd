/** `service sessions`, over the project's own database. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { openTestTerminal } from '../test-terminal.ts';

/** A home whose project has a session for each question; their ids, in that order. */
async function homeWithSessions(...questions: readonly string[]): Promise<{ home: TestHome; ids: string[] }> {
  const home = testHome();
  await withScriptedModel(home, [
    {
      when: { step: 0, last_user: 'tool' },
      reply: { reasoning: 'I have to look.', tool_calls: [{ name: 'ls', arguments: { path: '.' } }] },
    },
    { reply: { text: 'Answer to {{last_user}}' } },
  ]);
  const ids: string[] = [];
  for (const question of questions) {
    const { stdout } = await home.service(['run', '--json', question]);
    ids.push(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '').data.session_id);
  }
  return { home, ids };
}

test('the list has the latest first: tabs and whole ids in a pipe, JSON as the API has it, at most --limit', async () => {
  const { home, ids } = await homeWithSessions('first question', 'second question');
  const plain = await home.service(['sessions', 'list']);
  const rows = plain.stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'));
  expect(rows.map(([id, , messages, , title]) => [id, messages, title])).toEqual([
    [ids[1], '2', 'second question'],
    [ids[0], '2', 'first question'],
  ]);
  const json = JSON.parse((await home.service(['sessions', 'list', '--json', '--limit', '1'])).stdout);
  expect(json).toMatchObject([{ id: ids[1], status: 'idle', message_count: 2 }]);
});

test('on a terminal the list is a table with ids that are just long enough', async () => {
  const { home, ids } = await homeWithSessions('first question');
  const options = { cwd: home.project, environment: home.environment };
  const terminal = await openTestTerminal([launcher, 'sessions', 'list'], options);
  const { screen } = await terminal.end();
  const row = new RegExp(
    `^${ids[0]?.slice(-6)} +\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d +2 .*first question$`,
    'm',
  );
  expect(screen).toMatch(/^ID +UPDATED +MESSAGES/m);
  expect(screen).toMatch(row);
});

test('a folder without sessions says so, in JSON too', async () => {
  const home = testHome();
  expect(await home.service(['sessions', 'list'])).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('no session'),
  });
  expect((await home.service(['sessions', 'list', '--json'])).stdout).toBe('[]\n');
  expect(existsSync(join(home.project, '.service'))).toBe(false);
});

test('a session is shown as a conversation, found by the end of its id', async () => {
  const { home, ids } = await homeWithSessions('use a tool');
  const shown = await home.service(['sessions', 'show', ids[0]?.slice(-8).toUpperCase() ?? '']);
  expect(shown.stdout).toMatch(
    /^use a tool\n[\s\S]*\nYou .*\nuse a tool\n\nscripted:scripted-1 .*\n✻ I have to look\.\n● ls \{"path":"\."\}\n[\s\S]*\nAnswer to use a tool\n$/,
  );
  const json = JSON.parse((await home.service(['sessions', 'show', ids[0] ?? '', '--json'])).stdout);
  expect(json).toMatchObject({ id: ids[0], messages: [{ role: 'user' }, {}, { role: 'tool' }, {}] });
});

test('a session gets another title', async () => {
  const { home, ids } = await homeWithSessions('first');
  const renamed = await home.service(['sessions', 'rename', ids[0]?.slice(-8) ?? '', 'The flaky test']);
  expect(renamed).toMatchObject({ code: 0, stdout: `${ids[0]} is now called The flaky test\n` });
  expect((await home.service(['sessions', 'list'])).stdout).toContain('The flaky test');
  expect(await home.service(['sessions', 'rename', ids[0] ?? '', ' '])).toMatchObject({ code: 2 });
});

test('a session is deleted with --yes; without a terminal it is not deleted unasked', async () => {
  const { home, ids } = await homeWithSessions('first');
  const id = ids[0] ?? '';
  expect(await home.service(['sessions', 'delete', id])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--yes'),
  });
  expect(await home.service(['sessions', 'delete', id, '--yes'])).toMatchObject({ code: 0 });
  expect(await home.service(['sessions', 'show', id])).toMatchObject({ code: 1, stdout: '' });
});

test('at a terminal the deletion is asked about', async () => {
  const { home, ids } = await homeWithSessions('first');
  const options = { cwd: home.project, environment: home.environment };
  const terminal = await openTestTerminal([launcher, 'sessions', 'delete', ids[0] ?? ''], options);
  await terminal.shows(/Delete “first” with its 2 messages\? \[y\/N\]/);
  await terminal.press('n');
  expect((await terminal.end()).screen).toContain('Nothing was deleted.');
  expect((await home.service(['sessions', 'list'])).stdout).toContain(ids[0]);
});
