/** What a person's terminal does to the questions of `service run`: Ctrl+Z, a hang-up, a terminal that can do little. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { openTestTerminal } from '../test-terminal.ts';

const call = (name: string, args: object) => ({ name, arguments: args });
const asks = (...texts: readonly string[]) =>
  call('ask_user', {
    questions: texts.map((text, at) => ({ id: `q${at}`, type: 'free_text', text })),
  });
const step = (at: number, ...tool_calls: object[]) => ({ when: { step: at }, reply: { tool_calls } });
const said = { reply: { text: 'The tool said: {{last_tool_result}}' } };

/** A shell, in which the command is typed: it can be suspended there, and other variables be given. */
async function shellAt(home: TestHome, line: string) {
  const terminal = await openTestTerminal(['bash', '--norc', '--noprofile', '-i'], {
    cwd: home.project,
    environment: { ...home.environment, PS1: '> ', SERVICE: launcher },
  });
  await terminal.press(line, 'Enter');
  return terminal;
}

test('after Ctrl+Z and fg a question stands there again, with what was typed, and is answered', async () => {
  const home = testHome();
  const made = call('bash', { command: 'touch made' });
  await withScriptedModel(home, [step(0, asks('What else?')), step(1, made), said]);
  const terminal = await shellAt(home, '$SERVICE run go');
  await terminal.shows(/What else\?\n {2}>/);
  await terminal.press('h', 'a', 'l', 'f');
  await terminal.shows('> half');
  await terminal.press('C-z');
  await terminal.shows('Stopped');
  await terminal.press('fg', 'Enter');
  await terminal.shows(/Stopped[\s\S]*What else\?\n {2}> half/);
  await terminal.press('-', 'o', 'n', 'e', 'Enter');
  expect(await terminal.shows('d deny')).toContain('half-one');
  await terminal.press('C-z');
  await terminal.shows(/Stopped[\s\S]*Stopped/);
  await terminal.press('fg', 'Enter');
  await terminal.shows(/Stopped[\s\S]*Stopped[\s\S]*d deny/);
  // As people are used to refuse.
  await terminal.press('n', 'o', 'Enter');
  await terminal.shows(/Press [\s\S]*d deny/);
  await terminal.press('n');
  await terminal.shows(/→ denied[\s\S]*The tool said: Permission denied\.[\s\S]*\n>$/);
  expect(existsSync(join(home.project, 'made'))).toBe(false);
});

test('on a dumb terminal lines are changed by the terminal itself, and nothing moves', async () => {
  const home = testHome();
  const made = call('bash', { command: 'touch made' });
  const model = await withScriptedModel(home, [
    {
      when: { step: 0 },
      reply: { text: 'I ask.', hold_after_chunks: 1, tool_calls: [asks('What?', 'And?')] },
    },
    step(1, made),
    said,
  ]);
  const terminal = await shellAt(home, 'TERM=dumb $SERVICE run go');
  await model.latest(({ outcome }) => outcome === 'open');
  expect(await terminal.shows('run go')).not.toMatch(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/);
  await model.releaseHeld();
  await terminal.shows(/What\?\n {2}>/);
  await terminal.press('o', 'x', 'BSpace', 'n', 'e', 'Enter');
  await terminal.shows(/And\?\n {2}>/);
  await terminal.press('C-d');
  const screen = await terminal.shows('d deny');
  expect(screen).toContain('→ declined');
  // What is begun could not be changed.
  expect(screen).not.toContain('e edit');
  await terminal.press('a');
  await terminal.shows(/→ allowed once[\s\S]*The tool said[\s\S]*\n>$/);
  expect(existsSync(join(home.project, 'made'))).toBe(true);
});

/** A run whose agent waits for a text. */
async function terminalThatIsAsked() {
  const home = testHome();
  await withScriptedModel(home, [step(0, asks('What else?')), said]);
  const terminal = await openTestTerminal([launcher, 'run', 'go'], {
    cwd: home.project,
    environment: home.environment,
  });
  await terminal.shows(/What else\?\n {2}>/);
  return terminal;
}

test('Ctrl+C within an answer gives it up, and what is said of it stands on a line of its own', async () => {
  const terminal = await terminalThatIsAsked();
  await terminal.press('h', 'a', 'l', 'f');
  await terminal.shows('> half');
  await terminal.press('C-c');
  const { screen, code } = await terminal.end();
  expect(code).toBe(130);
  expect(screen).toMatch(/> half\nStopping the run; the same again ends at once\.\n/);
});

test('Ctrl+D behind lines that were pasted ends the answer, which is what was pasted', async () => {
  const terminal = await terminalThatIsAsked();
  await terminal.paste('one\ntwo\n');
  await terminal.shows(/> one\ntwo/);
  await terminal.press('C-d');
  expect((await terminal.end()).screen).toMatch(/The tool said: What else\?\n {2}one\n *two\n/);
});

test('a signal at the questions of a login leaves the terminal as it was', async () => {
  const home = testHome();
  const terminal = await openTestTerminal([launcher, 'login', 'http://127.0.0.1:9', '--password'], {
    cwd: home.project,
    environment: home.environment,
  });
  await terminal.shows('E-mail address:');
  await terminal.kill('TERM');
  expect((await terminal.end()).code).toBe(143);
  await terminal.paste('over');
  expect(await terminal.shows('over')).not.toContain('200~');
});
