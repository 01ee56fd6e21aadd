/** `service memories`: from one project to another, on a server, and at a terminal. */
import { expect, test } from 'vitest';
import { launcher, testHome } from '../test-command.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

test('what is remembered in a project is listed, found, forgotten, and taken to another one', async () => {
  const home = testHome();
  const memories = (...words: string[]) => home.service(['memories', ...words]);
  const added = await memories(
    'add',
    'Deploys',
    'happen',
    'on',
    'Tuesdays.',
    '--tag',
    'deploys',
    '--tag',
    'ops',
  );
  expect(added).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Remembered as mem_\w{26}, for you alone\n$/),
  });
  const options = ['--scope', 'workspace', '--kind', 'instruction', '--expires', '2099-01-31'];
  expect((await memories('add', 'Use tabs.', ...options)).stdout).toContain('for all who work here');
  expect(await memories('add', 'deploys happen on TUESDAYS.')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('says the same'),
  });
  const [tabs, deploys] = JSON.parse((await memories('list', '--json')).stdout);
  expect(tabs).toMatchObject({ content: 'Use tabs.', kind: 'instruction', scope: 'workspace' });
  expect(new Date(tabs.expires_at).getFullYear()).toBe(2099);
  expect(deploys.tags).toEqual(['deploys', 'ops']);
  const listed = await memories('list', '--tag', 'ops', '--limit', '1');
  expect(listed.stdout.trimEnd().split('\t')).toEqual([
    ...[deploys.id, 'user', 'fact', deploys.updated_at, 'deploys ops', 'Deploys happen on Tuesdays.'],
  ]);
  const found = await memories('search', 'When', 'do', 'we', 'deploy?', '--kind', 'fact');
  expect(found).toMatchObject({ code: 0, stdout: expect.stringContaining(deploys.id) });
  expect(found.stdout).not.toContain('tabs');

  const exported = await memories('export');
  expect(
    exported.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).id),
  ).toEqual([deploys.id, tabs.id]);
  home.write('other/.git/HEAD', 'ref: refs/heads/main\n');
  const there = {
    cwd: `${home.home}/other`,
    input: `${JSON.stringify({ ...deploys, expires_at: null })}\n{}\n`,
  };
  expect(await home.service(['memories', 'import'], there)).toMatchObject({
    code: 1,
    stdout: '2 lines: 1 remembered, 0 known already, 1 refused\n',
    stderr: expect.stringMatching(/line 2: \/\w+ is required\n[\s\S]*nothing is doubled/),
  });
  const file = home.write('project/memories.jsonl', exported.stdout);
  expect(await memories('import', file)).toMatchObject({
    code: 0,
    stdout: '2 lines: 0 remembered, 2 known already, 0 refused\n',
  });

  expect(await memories('forget', deploys.id.slice(-8), '--yes')).toMatchObject({
    code: 0,
    stdout: `Forgot ${deploys.id}\n`,
  });
  expect((await memories('purge', '--scope', 'workspace', '--yes')).stdout).toBe('Forgot 1 memory\n');
  expect(JSON.parse((await memories('list', '--json')).stdout)).toEqual([]);
});

test('at a terminal what cannot be brought back is asked about, and what others wrote is harmless', async () => {
  const server = await startTestServer();
  const home = testHome();
  const body = { scope: 'user', content: 'evil \u001b[2J \u202e' } as const;
  const { data } = await server.client.POST('/api/v1/auth/api-keys', { body: { name: 'terminal' } });
  const { data: memory } = await server.client.POST('/api/v1/memories', { body });
  const environment = { ...home.environment, SERVICE_API_KEY: data.key };
  const open = (...words: string[]) =>
    openTestTerminal([launcher, 'memories', ...words, '--server', server.url], {
      cwd: home.project,
      environment,
    });
  const listed = await (await open('list')).end();
  expect(listed.screen).toMatch(
    /^ID +UPDATED +SCOPE +KIND +CONTENT\n\w{6} .* user +fact +evil \\e\[2J \\u\{202e\}/,
  );
  const forgetting = await open('forget', memory.id.slice(-6));
  await forgetting.shows(/Forget “evil .*”\? \[y\/N\] $/);
  await forgetting.press('Enter');
  expect(await forgetting.end()).toMatchObject({
    code: 0,
    screen: expect.stringContaining('Nothing was forgotten.'),
  });
  const purging = await open('purge', '--scope', 'user');
  await purging.shows(/Forget all memories of your own\? \[y\/N\] $/);
  await purging.press('y');
  expect(await purging.end()).toMatchObject({ code: 0, screen: expect.stringContaining('Forgot 1 memory') });
  const path = { memory_id: memory.id };
  await expect(server.client.GET('/api/v1/memories/{memory_id}', { params: { path } })).rejects.toMatchObject(
    {
      status: 404,
    },
  );
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
