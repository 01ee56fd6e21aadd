/** What a person sees of the rarer events of a run: several calls at once, agents of agents, questions that outlive their process. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
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
  expect(ended.stderr).toMatch(/step[\s\S]*--continue goes on from there\.\n$/);
  expect(ended.stderr).not.toContain('as many steps as it may. --continue');
  const quiet = await home.service(['run', '--quiet', 'x']);
  expect(quiet.stderr).toBe(
    'service: The run took as many steps as it may. --continue goes on from there.\n',
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
