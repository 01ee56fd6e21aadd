/** `service sessions inspect`: of a session that rests, and of one whose run waits in another process. */
import { expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

const onlySession = async (home: TestHome) =>
  JSON.parse((await home.service(['sessions', 'list', '--json'])).stdout)[0].id;

test('what ran, what fills the context, and what the agent has are shown of a session that rests', async () => {
  const home = testHome();
  const todos = [
    { content: 'Look', status: 'completed', active_form: 'Looking' },
    { content: 'Mend', status: 'in_progress', active_form: 'Mending' },
  ];
  await withScriptedModel(
    home,
    [
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'todos', arguments: { todos } }] } },
      { reply: { text: 'Here.', usage: { input: 12_345, output: 67 } } },
    ],
    {
      mcp: {
        missing: { type: 'stdio', command: 'no-such-program' },
        later: { type: 'http', url: 'https://mcp.example.com', disabled: true },
      },
      lsp: { mine: { command: 'no-such-server', filetypes: ['mine'] } },
      options: { disabled_tools: ['download'] },
    },
  );
  await home.service(['run', 'The question']);
  const id = await onlySession(home);
  const shown = await home.service(['sessions', 'inspect', id.slice(-8)]);
  expect(shown.code).toBe(0);
  for (const line of [
    /^The question\nses_\w{26} · idle · coder · scripted:scripted-1\n\nRun {8}completed, 2 steps\n/,
    /^ {11}[\d,]+ tokens read, \d+ written, \S/m,
    /^Queue {6}none\nQuestions {2}none\nTo do {6}✓ Look\n {11}▸ Mend\n/m,
    /^Context {4}12,412 tokens at the last step; the next one reads about [\d,]+:\n/m,
    /^ {13}system prompt +\d+\n {13}skills +\d+\n {13}tools +[\d,]+\n {13}messages +\d+\n {13}tool results +\d+\n/m,
    /^Tools {6}\d+ of \d+; \* asks unless a rule lets it pass\n {13}builtin {2}view, .*write\*/m,
    /^ {13}off {6}download: .*options\.disabled_tools/m,
    /^MCP {8}missing {2}failed: its command was not found\n {11}later {4}disabled\n/m,
    /^LSP {8}mine/m,
  ])
    expect(shown.stdout).toMatch(line);
  const json = await home.service(['sessions', 'inspect', id, '--json']);
  expect(JSON.parse(json.stdout)).toMatchObject({
    session_id: id,
    run: { status: 'completed', steps: 2 },
    todos,
    context: { used: 12_412 },
  });
});

test('what waits is shown of a run in another process, harmless to the terminal', async () => {
  const home = testHome();
  const evil = '\u001b[2J\u202e';
  const command = `touch made # ${evil}`;
  await withScriptedModel(home, [
    { when: { step: 0 }, reply: { tool_calls: [{ name: 'bash', arguments: { command } }] } },
    { reply: { text: 'Done.' } },
  ]);
  const place = { cwd: home.project, environment: home.environment };
  const asking = await openTestTerminal([launcher, 'run', `Make ${evil}`], place);
  await asking.shows('d deny');
  const id = await onlySession(home);
  const looking = await openTestTerminal([launcher, 'sessions', 'inspect', id], place);
  const { screen, code } = await looking.end();
  expect(code).toBe(0);
  expect(screen).toMatch(/^Make \\e\[2J\\u\{202e\}\nses_\w+ · waiting · coder/);
  expect(screen).toMatch(/^Run {8}waiting_permission, 1 step$/m);
  expect(screen).toMatch(
    /^Questions {2}bash waits for permission until .*: Run: touch made # \\e\[2J\\u\{202e\}$/m,
  );
  expect(screen).toContain('the one that works on the run has connections of its own');
  await asking.press('d');
  await asking.end();
});

test('a session of a server is inspected, and one that is not there is said so', async () => {
  const server = await startTestServer();
  const { data } = await server.client.POST('/api/v1/sessions', { body: { title: 'Far away' } });
  const home = testHome();
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const asOperator = await home.service(['sessions', 'inspect', data.id, '--server', server.url], {
    variables,
  });
  expect(asOperator).toMatchObject({ code: 1, stderr: expect.stringContaining('not_found') });
  const { data: key } = await server.client.POST('/api/v1/auth/login', {
    body: { email: server.email, password: server.password },
  });
  const asOwner = await home.service(['sessions', 'inspect', data.id, '--server', server.url], {
    variables: { SERVICE_API_KEY: key.access_token },
  });
  expect(asOwner.stdout).toMatch(/^Far away\n[\s\S]*\nRun {8}none\nQueue {6}none\n/);
  expect(await home.service(['sessions', 'inspect', 'nosuch'])).toMatchObject({ code: 1, stdout: '' });
});
