/** `service run` with a person at the terminal: what stands there, the questions, and Ctrl+C. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { openTestTerminal } from '../test-terminal.ts';

const said = { reply: { text: 'The tool said: {{last_tool_result}}' } };
const calls = (...toolCalls: { name: string; arguments: object }[]) => ({
  when: { step: 0 },
  reply: { tool_calls: toolCalls },
});
const touch = (file: string) => ({ name: 'bash', arguments: { command: `touch ${file}` } });

async function atTerminal(home: TestHome, words: readonly string[]) {
  return await openTestTerminal(words, { cwd: home.project, environment: home.environment });
}
const runAtTerminal = (home: TestHome, ...words: string[]) => atTerminal(home, [launcher, 'run', ...words]);

test('a tool call is asked about, runs once it is allowed, and the way to go on stands at the end', async () => {
  const home = testHome();
  await withScriptedModel(home, [calls(touch('made')), said]);
  const terminal = await runAtTerminal(home, 'go');
  const asked = await terminal.shows('d deny');
  expect(asked).toMatch(/\? bash asks to run a command in this folder\n {2}\$ touch made/);
  expect(existsSync(join(home.project, 'made'))).toBe(false);
  await terminal.press('a');
  const { screen, code } = await terminal.end();
  expect(code).toBe(0);
  expect(screen).toMatch(
    /→ allowed once[\s\S]*The tool said: \(no output\)[\s\S]*Session ses_\w+\. To go on: service run/,
  );
  expect(existsSync(join(home.project, 'made'))).toBe(true);
});

test.each([
  ['a', 'one', 2],
  ['s', 'one', 1],
  ['w', 'one', 1],
  ['s', 'two', 2],
] as const)(
  'after %s for touch one, with touch %s next, %i questions were asked',
  async (key, next, questions) => {
    const home = testHome();
    await withScriptedModel(home, [
      calls(touch('one')),
      { when: { step: 1 }, reply: { tool_calls: [touch(next)] } },
      said,
    ]);
    const terminal = await runAtTerminal(home, 'go');
    expect(await terminal.shows('d deny')).toContain('s and w remember: bash(touch one)');
    await terminal.press(key);
    if (questions === 2) {
      await terminal.shows(/d deny[\s\S]*d deny/);
      await terminal.press(key);
    }
    expect((await terminal.end()).screen.match(/asks to run a command/g)).toHaveLength(questions);
    expect(existsSync(join(home.project, next))).toBe(true);
  },
);

test('what an agent that the agent has started asks is asked here, and its answers reach it', async () => {
  const home = testHome();
  const errand = { description: 'Touch', prompt: 'Touch it.', agent_slug: 'coder' };
  const question = { id: 'colour', type: 'free_text', text: 'Which colour?' };
  const reply = (name: string, input: object) => ({ tool_calls: [{ name, arguments: input }] });
  await withScriptedModel(home, [
    { when: { step: 0, last_user: '^go' }, reply: reply('agent', errand) },
    { when: { last_user: '^go' }, reply: { text: 'The agent said: {{last_tool_result}}' } },
    { when: { step: 0 }, reply: { tool_calls: [touch('made')] } },
    { when: { step: 1 }, reply: reply('ask_user', { questions: [question] }) },
    { reply: { text: 'I was told {{last_tool_result}}' } },
  ]);
  const terminal = await runAtTerminal(home, 'go');
  expect(await terminal.shows('d deny')).toContain('$ touch made');
  await terminal.press('a');
  await terminal.shows('Which colour?');
  await terminal.press('g', 'r', 'e', 'e', 'n', 'Enter');
  const { screen, code } = await terminal.end();
  expect(code).toBe(0);
  expect(screen).toMatch(/The agent said: I was told [\s\S]*green/);
  expect(existsSync(join(home.project, 'made'))).toBe(true);
});

/** A question about `touch one`, whose command stands on a line to be changed. */
async function editingTouchOne() {
  const home = testHome();
  await withScriptedModel(home, [calls(touch('one')), said]);
  const terminal = await runAtTerminal(home, 'go');
  await terminal.shows('e edit and allow once');
  await terminal.press('e');
  await terminal.shows(/allow once[\s\S]*\$ touch one/);
  return { home, terminal };
}

test('e puts the command on a line to be changed; what stands there then runs, and the model is told so', async () => {
  const { home, terminal } = await editingTouchOne();
  await terminal.press('Enter');
  // Nothing was changed, so nothing is decided.
  await terminal.shows(/d deny[\s\S]*d deny/);
  await terminal.press('e');
  await terminal.shows(/d deny[\s\S]*d deny[\s\S]*\$ touch one/);
  await terminal.press('BSpace', 'BSpace', 'BSpace', 't', 'w', 'o', 'Enter');
  const { screen, code } = await terminal.end();
  expect(code).toBe(0);
  expect(screen).toMatch(
    /→ allowed once as you changed it[\s\S]*\[The person changed the input of this call: \{"command":"touch two"\}\]/,
  );
  expect(['one', 'two'].map((file) => existsSync(join(home.project, file)))).toEqual([false, true]);
});

test('d denies, what is pasted does nothing, and what was typed before the question is no answer', async () => {
  const home = testHome();
  const thought = { text: 'I think long.', chunk_size: 7, hold_after_chunks: 2 };
  const upstream = await withScriptedModel(home, [
    { when: { step: 0 }, reply: { ...thought, tool_calls: [touch('one'), touch('two')] } },
    said,
  ]);
  const terminal = await runAtTerminal(home, 'go');
  await terminal.shows('I think');
  await terminal.press('a');
  // The terminal itself shows what it has and nobody has read yet.
  await terminal.shows('I thinka');
  await upstream.releaseHeld();
  await terminal.shows('d deny');
  await terminal.press('d');
  // With what was typed before it would be a word, which is no answer either.
  expect(await terminal.shows(/→ denied[\s\S]*d deny/)).not.toContain('Press a');
  await terminal.press('p', 'a', 's', 't', 'e', 'd');
  await terminal.shows(/Press a, s, w, d, e\.[\s\S]*d deny/);
  await terminal.press('d');
  const { screen, code } = await terminal.end();
  expect(screen).toMatch(/→ denied[\s\S]*→ denied[\s\S]*The tool said: Permission denied\./);
  expect(code).toBe(0);
  expect(['one', 'two'].map((file) => existsSync(join(home.project, file)))).toEqual([false, false]);
});

test('a change to a file is shown as a diff; a long one is cut, and v shows the whole', async () => {
  const home = testHome();
  const content = Array.from({ length: 60 }, (_, at) => `line ${at}\n`).join('');
  await withScriptedModel(home, [
    calls({ name: 'write', arguments: { file_path: 'new.txt', content } }),
    said,
  ]);
  const terminal = await runAtTerminal(home, 'go');
  const cut = await terminal.shows('v view the whole');
  expect(cut).toMatch(/write asks to change files[\s\S]*Create new\.txt[\s\S]*\+line 0\n/);
  expect(cut).not.toContain('+line 59');
  await terminal.press('v');
  await terminal.shows('+line 59');
  await terminal.press('a');
  expect((await terminal.end()).code).toBe(0);
  expect(readFileSync(join(home.project, 'new.txt'), 'utf8')).toBe(content);
});

const long = (length: number) => 'x'.repeat(length);
test.each([
  ['a command of one long line', { name: 'bash', arguments: { command: `touch made # ${long(20_000)}` } }],
  [
    'a diff of more lines than rows',
    { name: 'write', arguments: { file_path: 'made', content: `${long(150)}\n`.repeat(30) } },
  ],
])('the head of a question stays on a low screen, with the keys, before %s', async (_what, call) => {
  const home = testHome();
  await withScriptedModel(home, [calls(call), said]);
  const terminal = await openTestTerminal([launcher, 'run', 'go'], {
    cwd: home.project,
    environment: home.environment,
    rows: 24,
  });
  await terminal.shows('v view the whole');
  expect(await terminal.visible()).toMatch(/\? \w+ asks to [\s\S]*xxx[\s\S]*…[\s\S]*v view the whole/);
  await terminal.press('v');
  await terminal.shows(/d deny[\s\S]*d deny(?! {3}.*v view)/);
  await terminal.press('a');
  expect((await terminal.end()).code).toBe(0);
  expect(existsSync(join(home.project, 'made'))).toBe(true);
});

test('several calls at once are asked about one after the other', async () => {
  const home = testHome();
  await withScriptedModel(home, [calls(touch('one'), touch('two')), said]);
  const terminal = await runAtTerminal(home, 'go');
  const first = await terminal.shows('d deny');
  expect(first.match(/asks to run a command/g)).toHaveLength(1);
  await terminal.press('d');
  await terminal.shows(/d deny[\s\S]*d deny/);
  await terminal.press('a');
  await terminal.end();
  expect([existsSync(join(home.project, 'one')), existsSync(join(home.project, 'two'))]).toEqual([
    false,
    true,
  ]);
});

test('nothing that a model or a tool writes is obeyed by the terminal', async () => {
  const home = testHome();
  const evil = '\u001b[2J\u001b]0;owned\u0007\u009b31mred\u202eoverthrown\rback';
  await withScriptedModel(home, [
    {
      when: { step: 0 },
      reply: {
        text: `${evil}\n`,
        reasoning: evil,
        tool_calls: [{ name: 'bash', arguments: { command: `echo '${evil}'`, description: evil } }],
      },
    },
    said,
  ]);
  const terminal = await runAtTerminal(home, 'go');
  await terminal.shows('d deny');
  await terminal.press('a');
  const { screen } = await terminal.end();
  // Each of the five places where it stands: thought, answer, call, question and result.
  expect(screen.match(/\\e\[2J\\e\]0;owned/g)?.length).toBeGreaterThanOrEqual(5);
  expect(screen).toMatch(/\\u\{202e\}overthrown\\rback/);
});

test('joiners that a language needs stay in the answer, in whatever pieces it comes, and are seen in a question', async () => {
  const home = testHome();
  const text = 'می\u200cخواهم 👩\u200d💻';
  await withScriptedModel(home, [
    {
      when: { step: 0 },
      reply: { text, chunk_size: 1, tool_calls: [{ name: 'bash', arguments: { command: `echo ${text}` } }] },
    },
    { reply: { text: `${text} is\u200call`, chunk_size: 1 } },
  ]);
  const terminal = await runAtTerminal(home, 'go');
  const asked = await terminal.shows('d deny');
  expect(asked.slice(0, asked.indexOf('?'))).not.toContain('200');
  expect(asked).toContain(String.raw`$ echo می\u{200c}خواهم 👩\u{200d}💻`);
  await terminal.press('d');
  const { screen } = await terminal.end();
  expect(screen.match(/\\u\{200.\}/g)).toEqual(['\\u{200c}', '\\u{200d}', '\\u{200c}']);
  expect(screen).toContain(String.raw`is\u{200c}all`);
});

test('the questions of the agent are answered at the terminal', async () => {
  const home = testHome();
  const choices = [
    { id: 'r', label: 'Red' },
    { id: 'g', label: 'Green' },
  ];
  const questions = [
    { id: 'q1', type: 'yes_no', text: 'Shall I?' },
    { id: 'q2', type: 'single_choice', text: 'Which one?', choices },
    { id: 'q3', type: 'multi_choice', text: 'Which ones?', choices },
    { id: 'q4', type: 'free_text', text: 'What else?' },
  ];
  await withScriptedModel(home, [calls({ name: 'ask_user', arguments: { questions } }), said]);
  const terminal = await runAtTerminal(home, 'go');
  await terminal.shows('[y/n]');
  await terminal.press('p', 'Enter');
  await terminal.shows('That is no answer here');
  await terminal.press('y', 'Enter');
  await terminal.shows(/1 {2}Red\n {2}2 {2}Green/);
  await terminal.press('2', 'Enter');
  await terminal.shows('Which ones?');
  await terminal.press('1', ',', '2', 'Enter');
  await terminal.shows('What else?');
  await terminal.press('n', 'o', 't', 'h', 'i', 'n', 'g', 'Enter');
  const { screen } = await terminal.end();
  expect(screen).toMatch(
    /The tool said: Shall I\?\n {2}Yes\n\nWhich one\?\n {2}Green \[g\]\n\nWhich ones\?\n {2}Red \[r\]\n {2}Green \[g\]\n\nWhat else\?\n {2}nothing/,
  );
});

test('a line that was typed before the question is no answer to it', async () => {
  const home = testHome();
  const questions = [{ id: 'q1', type: 'yes_no', text: 'Shall I?' }];
  const asks = { tool_calls: [{ name: 'ask_user', arguments: { questions } }] };
  const thought = { text: 'I think long.', chunk_size: 7, hold_after_chunks: 2 };
  const upstream = await withScriptedModel(home, [
    { when: { step: 0 }, reply: { ...thought, ...asks } },
    said,
  ]);
  const terminal = await runAtTerminal(home, 'go');
  await terminal.shows('I think');
  await terminal.press('y', 'Enter');
  // The terminal itself shows what it has and nobody has read yet.
  await terminal.shows('I thinky');
  await upstream.releaseHeld();
  await terminal.shows('[y/n]');
  await terminal.press('n', 'o', 'Enter');
  expect((await terminal.end()).screen).toMatch(/The tool said: Shall I\?\n {2}No/);
});

test('what is pasted is one answer with all its lines, which Enter ends', async () => {
  const home = testHome();
  const questions = ['What else?', 'And then?'].map((text, at) => ({
    id: `q${at}`,
    type: 'free_text',
    text,
  }));
  await withScriptedModel(home, [calls({ name: 'ask_user', arguments: { questions } }), said]);
  const terminal = await runAtTerminal(home, 'go');
  await terminal.shows('What else?');
  await terminal.paste('one\n\ntwo\n');
  await terminal.shows(/> one\n\ntwo/);
  await terminal.press('t', 'h', 'r', 'e', 'e', 'Enter');
  await terminal.shows('And then?');
  // As a terminal does it that marks no paste.
  await terminal.paste('four\nfive\n', { marked: false });
  const { screen } = await terminal.end();
  expect(screen).toMatch(
    /The tool said: What else\?\n {2}one\s+two\n *three\n+And then\?\n {2}four\n *five\n/,
  );
  // The terminal marks no paste any more.
  await terminal.paste('over');
  expect(await terminal.shows('over')).not.toContain('200~');
});

test('a command of several lines can be pasted in the place of another', async () => {
  const { home, terminal } = await editingTouchOne();
  await terminal.press('C-u');
  await terminal.paste('touch two\ntouch three\n');
  await terminal.shows(/touch two\ntouch three/);
  await terminal.press('Enter');
  expect((await terminal.end()).screen).toContain('→ allowed once as you changed it');
  const made = ['one', 'two', 'three'].map((file) => existsSync(join(home.project, file)));
  expect(made).toEqual([false, true, true]);
});

test('Ctrl+D declines the questions of the agent', async () => {
  const home = testHome();
  const questions = [{ id: 'q1', type: 'free_text', text: 'What else?' }];
  await withScriptedModel(home, [calls({ name: 'ask_user', arguments: { questions } }), said]);
  const terminal = await runAtTerminal(home, 'go');
  // Not before the question: what is pressed until then is thrown away.
  await terminal.shows(/What else\?\n {2}>/);
  await terminal.press('C-d');
  expect((await terminal.end()).screen).toContain('The person declined to answer.');
});

test.each(['a text', 'a permission request', 'a question'])(
  'Ctrl+C in %s stops the run and ends with 130',
  async (where) => {
    const home = testHome();
    const questions = [{ id: 'q1', type: 'free_text', text: 'What else?' }];
    const [reply, sign] = {
      'a text': [{ text: 'slowly '.repeat(100), hold_after_chunks: 3 }, 'slowly'] as const,
      'a permission request': [{ tool_calls: [touch('made')] }, 'd deny'] as const,
      'a question': [{ tool_calls: [{ name: 'ask_user', arguments: { questions } }] }, 'What else?'] as const,
    }[where] ?? [{}, ''];
    await withScriptedModel(home, [{ when: { step: 0 }, reply }, said]);
    const terminal = await runAtTerminal(home, 'go');
    await terminal.shows(sign);
    await terminal.press('C-c');
    const { screen, code } = await terminal.end();
    expect(code).toBe(130);
    expect(screen).toContain('Stopping the run');
    expect(screen).not.toContain('The tool said');
  },
);

test('a person can be asked at the terminal while the prompt comes through a pipe', async () => {
  const home = testHome();
  await withScriptedModel(home, [calls(touch('made')), said]);
  const terminal = await atTerminal(home, ['sh', '-c', `echo go | '${launcher}' run`]);
  await terminal.shows('d deny');
  await terminal.press('a');
  expect((await terminal.end()).screen).toContain('→ allowed once');
  expect(existsSync(join(home.project, 'made'))).toBe(true);
});

test('`options.progress` shows that something is going on, and leaves nothing behind', async () => {
  const home = testHome();
  const upstream = await withScriptedModel(home, [{ reply: { text: 'Here it is.', hold_after_chunks: 1 } }]);
  const terminal = await runAtTerminal(home, 'go');
  await terminal.shows(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] Waiting for scripted:scripted-1/);
  // It stands there before the request is sent; what is released then is nothing yet.
  await upstream.latest(({ outcome }) => outcome === 'open');
  await upstream.releaseHeld();
  const { screen } = await terminal.end();
  expect(screen).not.toMatch(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]|Waiting|Working/);
  expect(screen.trimStart()).toMatch(/^Here it is\.\n\nSession/);
});

test('`options.progress` false shows nothing until there is something to read', async () => {
  const home = testHome();
  const options = { progress: false };
  const rules = [{ reply: { text: 'Here it is.', hold_after_chunks: 1 } }];
  const upstream = await withScriptedModel(home, rules, { options });
  const terminal = await runAtTerminal(home, 'go');
  await upstream.latest(({ outcome }) => outcome === 'open');
  expect((await terminal.shows(/^/)).trim()).toBe('');
  await upstream.releaseHeld();
  expect((await terminal.end()).screen).toContain('Here it is.');
});

test('without a prompt nothing is waited for at a terminal: that is wrong usage', async () => {
  const { screen, code } = await (await runAtTerminal(testHome())).end();
  expect({ screen, code }).toMatchObject({ code: 2, screen: expect.stringContaining('Nothing is asked.') });
});
