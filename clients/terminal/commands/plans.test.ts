/** `service plans`, and what `service run` does with a plan that its agent has written. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

const call = (name: string, args: object) => ({ reply: { tool_calls: [{ name, arguments: args }] } });
/** A planner whose plan names what it was asked, and a coder that makes a file. */
const rules = [
  {
    when: { step: 0, offers_tool: 'plan' },
    ...call('plan', { title: 'Mend it', content: '1. Look.\n2. Mend {{last_user}}.' }),
  },
  { when: { offers_tool: 'plan' }, reply: { text: 'That is my plan.' } },
  {
    when: { step: 0 },
    reply: {
      tool_calls: [
        { name: 'write', arguments: { file_path: 'mended.txt', content: 'mended\n' } },
        { name: 'plan_step', arguments: { step: '1', status: 'completed' } },
      ],
    },
  },
  { reply: { text: 'Told: {{last_user}}' } },
];

async function homeOfPlanner(): Promise<TestHome> {
  const home = testHome();
  await withScriptedModel(home, rules);
  return home;
}

async function onlyPlan(home: TestHome) {
  const [plan, ...others] = JSON.parse((await home.service(['plans', 'list', '--json'])).stdout);
  expect(others).toEqual([]);
  return plan;
}

const planAtTerminal = (home: TestHome) =>
  openTestTerminal([launcher, 'run', '--agent', 'plan', 'the parser'], {
    cwd: home.project,
    environment: home.environment,
  });

test('without a terminal a plan waits to be read, and once it is approved it is carried out', async () => {
  const home = await homeOfPlanner();
  const planned = await home.service(['run', '--agent', 'plan', 'the parser']);
  expect(planned).toMatchObject({ code: 0, stdout: 'That is my plan.\n' });
  const { id, session_id: session } = await onlyPlan(home);
  const end = id.slice(-6);
  expect(planned.stderr).toContain(`service plans approve ${end}. To refuse it: service plans reject ${end}`);
  const shown = await home.service(['plans', 'show', session.slice(-8)]);
  expect(shown.stdout).toMatch(
    /^Mend it\nproposed · plan_\w{26} · version 1 · .*\n\n1\. Look\.\n2\. Mend the parser\.\n$/,
  );
  const approved = await home.service(['plans', 'approve', end, '--accept-edits', '--comment', 'Quickly.']);
  expect(approved.code).toBe(0);
  expect(approved.stderr).toMatch(/^▤ Mend it, version 1: approved\n● write mended\.txt\n/);
  expect(approved.stderr).toMatch(/\n▤ 1 of 2 steps done\n/);
  expect(approved.stdout).toMatch(/^Told: The plan below[\s\S]*Quickly\.[\s\S]*2\. Mend the parser\.\n$/);
  expect(readFileSync(join(home.project, 'mended.txt'), 'utf8')).toBe('mended\n');
  expect(await home.service(['plans', 'approve', id])).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('the first answer stands'),
  });
});

test('a plan is rejected in the version that was read, and the agent is told why at the next query', async () => {
  const home = testHome();
  const upstream = await withScriptedModel(home, rules);
  await home.service(['run', '--agent', 'plan', 'the parser']);
  const { id } = await onlyPlan(home);
  expect(await home.service(['plans', 'reject', id, '--plan-version', '2'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('has version 1 by now, and not 2'),
  });
  const rejected = await home.service(['plans', 'reject', id, 'Too', 'much.', '--plan-version', '1']);
  expect(rejected).toMatchObject({ code: 0, stdout: `Rejected ${id}, version 1: Mend it\n` });
  await home.service(['run', '--continue', '--agent', 'plan', 'less']);
  expect(JSON.stringify(await upstream.requests())).toContain('rejected by the person. They say: Too much.');
  expect(await onlyPlan(home)).toMatchObject({ id, version: 2, status: 'proposed' });
});

test('at the terminal a word of refusal has it planned again, and approval carries it out before the same eyes', async () => {
  const home = await homeOfPlanner();
  const terminal = await planAtTerminal(home);
  const asked = await terminal.shows('l later');
  expect(asked).toMatch(
    /▤ Mend it\n\n1\. Look\.\n2\. Mend the parser\.[\s\S]*\? Shall the plan be carried out\? Mend it, version 1\n/,
  );
  await terminal.press('x');
  await terminal.shows(/Press a, e, r, l\.[\s\S]*l later/);
  await terminal.press('r');
  await terminal.shows(/without a word it ends here.*\n {2}>$/);
  await terminal.press('-l', 'only the lexer');
  await terminal.press('Enter');
  await terminal.shows(/2\. Mend only the lexer\.[\s\S]*version 2\n.*l later/);
  await terminal.press('a');
  // To approve a plan is not to allow what it does.
  await terminal.shows(/→ approved[\s\S]*write asks to change files[\s\S]*d deny/);
  await terminal.press('a');
  const { screen, code } = await terminal.end();
  expect(code).toBe(0);
  expect(screen).toMatch(/→ allowed once[\s\S]*Told: The plan below was approved[\s\S]*Session ses_/);
  // How to go on in the session is said once, at the very end.
  expect(screen.match(/To go on:/g)).toHaveLength(1);
  expect(existsSync(join(home.project, 'mended.txt'))).toBe(true);
});

test('what carries a plan out and writes another one has that refused, and plans again as the command line says', async () => {
  const home = testHome();
  const models = [{ id: 'scripted-1' }, { id: 'scripted-2' }];
  const upstream = await withScriptedModel(home, rules, {}, models);
  await home.service(['run', '--agent', 'plan', 'the parser']);
  const { id } = await onlyPlan(home);
  const words = ['plans', 'approve', id, '--agent', 'plan', '-m', 'scripted:scripted-2'];
  const options = { cwd: home.project, environment: home.environment };
  const terminal = await openTestTerminal([launcher, ...words], options);
  await terminal.shows('l later');
  await terminal.press('r');
  await terminal.shows(/without a word it ends here.*\n {2}>$/);
  await terminal.press('-l', 'only the lexer');
  await terminal.press('Enter');
  await terminal.shows(/2\. Mend only the lexer\.[\s\S]*l later/);
  await terminal.press('l');
  expect((await terminal.end()).code).toBe(0);
  const bodies = (await upstream.requests()).map(({ body }) => body as { model: string });
  const planned = bodies.filter((body) => JSON.stringify(body).includes('only the lexer'));
  expect(new Set(planned.map(({ model }) => model))).toEqual(new Set(['scripted-2']));
});

test('e approves, and files are changed unasked', async () => {
  const home = await homeOfPlanner();
  const terminal = await planAtTerminal(home);
  await terminal.shows('l later');
  await terminal.press('e');
  const { screen, code } = await terminal.end();
  expect(code).toBe(0);
  expect(screen).toMatch(/→ approved\n● write mended\.txt\n {2}└ /);
  expect(screen).not.toContain('asks to change files');
});

test.each([
  ['Enter', 0],
  ['C-c', 130],
])('%s at the question decides nothing, and says how to decide later', async (key, exitCode) => {
  const home = await homeOfPlanner();
  const terminal = await planAtTerminal(home);
  await terminal.shows('l later');
  await terminal.press(key);
  const { screen, code } = await terminal.end();
  expect(code).toBe(exitCode);
  expect(screen).toMatch(/The plan waits\. .* service plans approve \w{6}\./);
  expect(screen).not.toContain('Stopping the run');
  expect(await onlyPlan(home)).toMatchObject({ status: 'proposed' });
});

test('what was decided elsewhere while the question stood is said, and nothing begins', async () => {
  const home = await homeOfPlanner();
  const terminal = await planAtTerminal(home);
  await terminal.shows('l later');
  const { id } = await onlyPlan(home);
  await home.service(['plans', 'reject', id]);
  await terminal.press('a');
  const { screen, code } = await terminal.end();
  expect({ code, screen }).toMatchObject({ code: 0, screen: expect.stringContaining('decided elsewhere') });
  expect(existsSync(join(home.project, 'mended.txt'))).toBe(false);
});

test('a plan on a server is decided from here, with the server named in what is said', async () => {
  const home = await homeOfPlanner();
  const settings = JSON.parse(readFileSync(join(home.home, '.config/service/service.json'), 'utf8'));
  const server = await startTestServer(settings);
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const there = ['--server', server.url];
  const planned = await home.service(['run', ...there, '-a', 'plan', 'far'], { variables });
  const [, end = ''] = / service plans approve --server \S+ (\w{6})\. /.exec(planned.stderr) ?? [];
  const options = ['--quiet', '--accept-edits', ...there];
  const approved = await home.service(['plans', 'approve', end, ...options], { variables });
  expect(approved).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('Mend far.') });
});

test.each([
  [['list'], 0, 'There is no such plan here'],
  [['show', 'nosuch'], 1, 'There is no plan whose id'],
  [['approve', 'nosuch'], 1, 'There is no plan whose id'],
  [['reject', `plan_${'0'.repeat(26)}`], 1, 'There is no plan whose id'],
  [['list', '--session', 'nosuch'], 1, 'There is no session whose id'],
  [['list', '--status', 'gone'], 2, 'proposed, approved, executing'],
] as const)('where there is no plan, %j says so', async (words, code, told) => {
  const home = testHome();
  const ended = await home.service(['plans', ...words]);
  expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(told) });
});
