/** What a person sees of the rarer events of a run: several calls at once, agents of agents, questions that outlive their process. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lastingPort } from '../../../contract-tests/lasting-port.ts';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { runToEnd } from '../test-process.ts';
import { openTestTerminal } from '../test-terminal.ts';

const call = (name: string, args: object) => ({ name, arguments: args });
/** Calls tools in the first step of what the person has asked. */
const first = (asked: string, ...tool_calls: object[]) => ({
  when: { step: 0, last_user: asked },
  reply: { tool_calls },
});
const questions = [{ id: 'q', type: 'free_text', text: 'Which?' }];
const said = { reply: { text: 'The tool said: {{last_tool_result}}' } };
const runAtTerminal = (home: TestHome, ...words: readonly string[]) =>
  openTestTerminal([launcher, 'run', ...words], { cwd: home.project, environment: home.environment });

test('of several calls at once each result names its call; that of one alone stands below it', async () => {
  const home = testHome();
  await withScriptedModel(home, [
    first('x', call('ls', { path: '.' }), call('view', { file_path: 'none.txt' })),
    { when: { step: 1 }, reply: { tool_calls: [call('ls', { path: '.' })] } },
    { reply: { text: 'Done.' } },
  ]);
  const { stderr } = await home.service(['run', 'x']);
  expect(stderr).toMatch(/^● ls \.\n● view none\.txt\n/);
  expect(stderr).toMatch(/^ {2}└ ls \.: \S/m);
  expect(stderr).toMatch(/^ {2}✗ view none\.txt: none\.txt does not exist/m);
  expect(stderr).toMatch(/● ls \.\n {2}└ (?!ls)\S.*\n$/);
});

test('a question says which agent of the agent it is for', async () => {
  const home = testHome();
  const errand = { description: 'Make a \u001b[2Jfile', prompt: 'the errand', agent_slug: 'coder' };
  await withScriptedModel(home, [
    first('^the errand', call('bash', { command: 'touch made' })),
    { when: { last_user: '^the errand' }, reply: { text: 'It is made.' } },
    first('^go', call('agent', errand)),
    said,
  ]);
  const terminal = await runAtTerminal(home, 'go');
  const screen = await terminal.shows('d deny');
  expect(screen).toMatch(/\? bash asks to run a command in this folder, for coder: Make a \\e\[2Jfile\n/);
  await terminal.press('a');
  expect((await terminal.end()).screen).toMatch(/→ allowed once\n {2}└ It is made\./);
});

test('a limit that was reached is told once, with how to go on; quiet, too', async () => {
  const home = testHome();
  const options = { limits: { max_steps: 1 } };
  await withScriptedModel(home, [first('x', call('ls', { path: '.' })), said], { options });
  const ended = await home.service(['run', 'x']);
  expect(ended.stderr).toMatch(/step[\s\S]*To go on from there: service run --session \w{6} "…"\n$/);
  expect(ended.stderr).not.toContain('as many steps as it may. To go on');
  const quiet = await home.service(['run', '--quiet', 'x']);
  expect(quiet.stderr).toMatch(
    /^service: The run took as many steps as it may\. To go on from there: service run --session \w{6} "…"\n$/,
  );
});

test('a model that says nothing is told of, and at the terminal what the run has used', async () => {
  const home = testHome();
  await withScriptedModel(home, [{ reply: { text: '', usage: { input: 1234, output: 5 } } }]);
  const { screen, code } = await (await runAtTerminal(home, 'x')).end();
  expect(code).toBe(0);
  expect(screen).toMatch(
    /service: The model ended without a word\.\n\nSession ses_\w+\. To go on: .*\nThe run: 1,234 tokens read, 5 written, price not known$/,
  );
});

test('what a killed run had asked is asked again by the next one in its session, which begins behind it', async () => {
  const home = testHome();
  await withScriptedModel(home, [
    first('^first', call('bash', { command: 'touch made' })),
    { reply: { text: 'Answer to {{last_user}}' } },
  ]);
  const killed = await runAtTerminal(home, '--json', 'first');
  await killed.shows('d deny');
  await killed.kill();
  const next = await runAtTerminal(home, '--continue', 'second');
  await next.shows(/this one begins after it[\s\S]*\$ touch made[\s\S]*d deny/);
  expect(existsSync(join(home.project, 'made'))).toBe(false);
  await next.press('a');
  expect((await next.end()).screen).toMatch(/→ allowed once[\s\S]*Answer to second/);
  expect(existsSync(join(home.project, 'made'))).toBe(true);
});

test('where nobody can be asked, it is said that the run before waits for an answer', async () => {
  const home = testHome();
  await withScriptedModel(home, [first('^first', call('ask_user', { questions })), said]);
  const asking = await runAtTerminal(home, 'first');
  await asking.shows('Which?');
  const waiting = home.start(['run', '--continue', 'second']);
  await waiting.until(() => waiting.stderr().includes('It waits for an answer'));
  waiting.child.kill('SIGINT');
  expect((await waiting.ended).code).toBe(130);
  await asking.press('C-c');
  await asking.end();
});

test('a question that was answered elsewhere is taken back, on a line of its own', async () => {
  const home = testHome();
  await withScriptedModel(home, [
    first('^first', call('ask_user', { questions })),
    { reply: { text: 'Told: {{last_tool_result}}' } },
  ]);
  const asking = await runAtTerminal(home, 'first');
  await asking.shows('Which?');
  const waiting = await runAtTerminal(home, '--continue', 'second');
  await waiting.shows(/Which\?[\s\S]*>$/);
  await waiting.press('this', 'Enter');
  expect((await asking.end()).screen).toMatch(
    /> ?\n {2}→ It was answered elsewhere\.\nTold: Which\?\n {2}this/,
  );
  expect((await waiting.end()).screen).toContain('Told:');
});

test('a run that fails says how to go on in its session, which holds what was said before', async () => {
  const home = testHome();
  await withScriptedModel(home, [
    { when: { last_user: '^fail' }, fail: { kind: 'status', status: 401, message: 'bad key' } },
    said,
  ]);
  const { screen, code } = await (await runAtTerminal(home, 'fail')).end();
  expect(code).toBe(1);
  const [, id, short] =
    /^Session (ses_\w+)\. To go on: service run --session (\w+) "…"\nservice: .*\(provider_refused\)/m.exec(
      screen,
    ) ?? [];
  const next = await home.service(['run', '--session', short ?? '', '--json', 'again']);
  expect(next.stdout).toContain(`"session_id":"${id}"`);
  expect(await home.service(['run', '--quiet', 'fail'])).toMatchObject({
    code: 1,
    stderr: expect.not.stringContaining('To go on'),
  });
});

test('a model that takes over and a summary of the conversation are told in a line each', async () => {
  const home = testHome();
  const models = [
    { id: 'scripted-1', context_window: 100_000 },
    { id: 'spare', context_window: 100_000 },
  ];
  const settings = {
    models: { large: { provider: 'scripted', model: 'scripted-1', fallbacks: ['scripted:spare'] } },
    options: { limits: { max_attempts: 1 } },
  };
  const rules = [
    { when: { system: '^Sum up the conversation' }, reply: { text: 'They look round.' } },
    { when: { model: '^scripted-1$' }, fail: { kind: 'status', status: 503 } },
    {
      when: { step: 0, last_user: '^look' },
      reply: { tool_calls: [call('ls', { path: '.' })], usage: { input: 95_000, output: 5 } },
    },
    { reply: { text: 'Done by {{model}}.', usage: { input: 100, output: 5 } } },
  ];
  await withScriptedModel(home, rules, settings, models);
  const ended = await home.service(['run', 'look']);
  expect(ended).toMatchObject({ code: 0, stdout: 'Done by spare.\n' });
  expect(ended.stderr).toMatch(
    /^↻ .*scripted:spare goes on\.\n● ls \.\n {2}└ .*\n≡ The conversation so far was summed up\.$/m,
  );
});

test('a question that nobody answered in time, and a run that another process goes on with, are told', async () => {
  const home = testHome();
  await withScriptedModel(home, [
    first('^ask', call('bash', { command: 'touch made' })),
    { when: { last_user: '^hold' }, times: 1, reply: { text: 'held '.repeat(20), hold_after_chunks: 3 } },
    { reply: { text: 'Done.' } },
  ]);
  const variables = { SERVICE_ANSWER_SECONDS: '6', SERVICE_LEASE_SECONDS: '2' };
  const serve = (port: string) =>
    home.start(['serve', '--port', port, '--data-dir', `${home.home}/data`], { variables });
  const port = String(await lastingPort());
  const server = serve(port);
  await server.until(() => /sk-[\w-]{43,}\s/.test(server.stdout()) && server.stdout().includes('http://'));
  const url = `http://127.0.0.1:${port}`;
  const key = { SERVICE_API_KEY: /sk-[\w-]{43,}/.exec(server.stdout())?.[0] ?? '' };

  const environment = { ...home.environment, ...key };
  const asking = await openTestTerminal([launcher, 'run', '--server', url, 'ask'], {
    cwd: home.project,
    environment,
  });
  await asking.shows('d deny');
  expect((await asking.end()).screen).toMatch(
    /Nobody answered in time: the tool call was refused\.[\s\S]*Done\./,
  );

  const held = home.start(['run', '--server', url, 'hold'], { variables: key });
  await held.until(() => held.stdout().includes('held'));
  server.child.kill('SIGKILL');
  await server.ended;
  const again = serve(port);
  await again.until(() => again.stdout().includes('http://'));
  expect(await held.ended).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^held[\s\S]*\nDone\.\n$/),
  });
  expect(held.stderr()).toContain(
    '↻ The process that worked on the run has died; it goes on behind step 0.\n',
  );
});

test('how to go on is told for the folder that the command was called in, where -C named another one', async () => {
  const home = testHome();
  await withScriptedModel(home, [{ reply: { text: 'Done.' } }]);
  home.write("grace's other/.git/HEAD", 'ref: refs/heads/main\n');
  const place = { cwd: home.project, environment: home.environment };
  const words = [launcher, '-C', "../grace's other", 'run', 'hello'];
  const { screen } = await (await openTestTerminal(words, place)).end();
  const [, told = ''] = /To go on: (.* run --session \w{6}) "…"$/m.exec(screen) ?? [];
  expect(told).toMatch(/^service -C '[^"]*' run/);
  const typed = told.replace('service', '"$0"');
  const next = await runToEnd('sh', ['-c', `${typed} -q more`, launcher], place);
  expect(next).toEqual({ code: 0, stdout: 'Done.\n', stderr: '' });
});
