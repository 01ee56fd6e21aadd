/** `service memories`: from one project to another, on a server, and at a terminal. */
import { expect, test } from 'vitest';
import { launcher, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

test('what is remembered in a project is listed, found and forgotten', async () => {
  const home = testHome();
  const memories = (...words: string[]) => home.service(['memories', ...words]);
  const options = ['--scope', 'workspace', '--kind', 'instruction', '--expires', '2099-01-31'];
  expect(await memories('add', 'Use', 'tabs.', '--tag', 'style', '--tag', 'code', ...options)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Remembered as mem_\w{26}, for all who work here\n$/),
  });
  expect(await memories('add', 'use TABS.', '--scope', 'workspace')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('says the same'),
  });
  const [tabs] = JSON.parse((await memories('list', '--json')).stdout);
  expect(tabs).toMatchObject({ content: 'Use tabs.', kind: 'instruction', tags: ['style', 'code'] });
  expect(new Date(tabs.expires_at).getFullYear()).toBe(2099);
  const found = await memories('search', 'Which', 'tabs?', '--kind', 'instruction');
  expect(found.stdout.trimEnd().split('\t')).toEqual([
    ...[tabs.id, 'workspace', 'instruction', tabs.updated_at, 'style code', 'Use tabs.'],
  ]);
  const scores = JSON.stringify({ results: [{ index: 0, relevance_score: -0.5 }] });
  await withScriptedModel(home, [{ when: { task: 'rerank' }, reply: { text: scores } }]);
  const ordered = await memories('search', 'tabs', '--rerank', 'scripted:reader', '--json');
  expect(JSON.parse(ordered.stdout).data).toMatchObject([{ score: -0.5 }]);
  expect(await memories('forget', tabs.id.slice(-8), '--yes')).toMatchObject({
    code: 0,
    stdout: `Forgot ${tabs.id}\n`,
  });
});

test('on a server they go out and come in as lines, and what cannot be brought back is asked about', async () => {
  const server = await startTestServer();
  const home = testHome();
  const { data } = await server.client.POST('/api/v1/auth/api-keys', { body: { name: 'terminal' } });
  const variables = { SERVICE_API_KEY: data.key };
  const evil = { scope: 'user', content: 'evil \u001b[2J \u202e' } as const;
  const { data: memory } = await server.client.POST('/api/v1/memories', { body: evil });
  const there = (words: readonly string[]) => ['memories', ...words, '--server', server.url];
  const memories = (words: readonly string[], input = '') => home.service(there(words), { variables, input });
  const open = (...words: string[]) =>
    openTestTerminal([launcher, ...there(words)], {
      cwd: home.project,
      environment: { ...home.environment, ...variables },
    });
  const exported = await memories(['export']);
  expect(JSON.parse(exported.stdout)).toEqual(memory);
  const file = home.write(
    'project/memories.jsonl',
    `${JSON.stringify({ ...memory, content: 'Tea.' })}\n{}\n`,
  );
  expect(await memories(['import', file])).toMatchObject({
    code: 1,
    stdout: '2 lines: 1 remembered, 0 known already, 1 refused\n',
    stderr: expect.stringMatching(/line 2: \/\w+ is required\n[\s\S]*nothing is doubled/),
  });
  expect(await memories(['import'], exported.stdout)).toMatchObject({
    code: 0,
    stdout: '1 line: 0 remembered, 1 known already, 0 refused\n',
  });
  const listed = await (await open('list')).end();
  expect(listed.screen).toMatch(
    /^ID +UPDATED +SCOPE +KIND +CONTENT\n\w+ .* user +fact +Tea\.\n.* evil \\e\[2J \\u\{202e\}/,
  );
  const forgetting = await open('forget', memory.id);
  await forgetting.shows(/Forget “evil .*”\? \[y\/N\]/);
  await forgetting.press('Enter');
  const kept = await forgetting.end();
  expect(kept).toMatchObject({ code: 0, screen: expect.stringContaining('Nothing was forgotten.') });
  const purging = await open('purge', '--scope', 'user');
  await purging.shows(/Forget all memories of your own\? \[y\/N\]/);
  await purging.press('y');
  const purged = await purging.end();
  expect(purged).toMatchObject({ code: 0, screen: expect.stringContaining('Forgot 2 memories') });
  expect(await memories(['export'])).toMatchObject({ code: 0, stdout: '', stderr: '' });
});

test.each([
  [['list'], 0, 'service memories add "…"'],
  [['search', 'tea'], 0, 'Nothing is remembered about "tea"'],
  [['forget', 'nosuch', '--yes'], 1, 'There is no memory whose id'],
  [['forget', 'nosuch'], 2, '--yes forgets without asking'],
  [['purge', '--scope', 'user'], 2, '--yes forgets without asking'],
  [['purge', '--yes'], 2, "required option '--scope <scope>'"],
  [['add', ' '], 2, 'There is nothing to remember'],
  [['add', 'Late.', '--expires', 'soon'], 2, '--expires takes a day or a moment'],
  [['list', '--limit', 'all'], 2, '--limit takes a number'],
  [['import', 'missing.jsonl'], 2, 'missing.jsonl cannot be read (ENOENT)'],
  [['add', 'x', '--scope', 'agent', '--agent', 'nobody'], 1, 'There is no agent profile "nobody"'],
] as const)('%j where nothing is remembered says what to do', async (words, code, told) => {
  const ended = await testHome().service(['memories', ...words]);
  expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(told) });
});
