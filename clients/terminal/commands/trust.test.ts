/** Trust, as a person gives and takes it: at a terminal, in a script, and after the file has changed. */
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { openTestTerminal } from '../test-terminal.ts';

const guard = { hooks: { pre_tool_use: [{ matcher: '^bash$', command: './guard.sh --all' }] } };
const server = { mcp: { files: { command: 'mcp-files', args: ['--root', '.'] } } };

const atTerminal = ({ project, environment }: TestHome, ...args: readonly string[]) =>
  openTestTerminal([launcher, ...args], { cwd: project, environment });

const states = async (person: TestHome) => {
  const rows: { file: string; state: string }[] = JSON.parse(
    (await person.service(['config', 'path', '--json'])).stdout,
  );
  return Object.fromEntries(rows.map(({ file, state }) => [file.slice(person.project.length + 1), state]));
};

test('at a terminal the commands of a file are shown in full, and yes trusts it', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  const terminal = await atTerminal(person, 'trust');
  const asked = await terminal.shows('Trust service.json, as shown? [y/N]');
  expect(asked).toContain('./guard.sh --all');
  await terminal.press('y');
  const { screen, code } = await terminal.end();
  expect(screen).toContain('Trusted service.json, until it changes: hooks.');
  expect(code).toBe(0);
  expect(await states(person)).toMatchObject({ 'service.json': 'there' });
});

test('Enter alone trusts nothing', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  const terminal = await atTerminal(person, 'trust');
  await terminal.shows('[y/N]');
  await terminal.press('Enter');
  expect(await terminal.end()).toMatchObject({
    code: 0,
    screen: expect.stringContaining('Nothing was trusted.'),
  });
  expect(await states(person)).toMatchObject({ 'service.json': 'not trusted' });
});

test('what was typed before the question stood there is no answer to it', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  const terminal = await atTerminal(person, 'trust');
  await terminal.press('y');
  await terminal.shows('[y/N]');
  await terminal.press('Enter');
  expect((await terminal.end()).screen).toContain('Nothing was trusted.');
});

test('Ctrl+C trusts nothing, and ends the command as shells expect it', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  const terminal = await atTerminal(person, 'trust');
  await terminal.shows('[y/N]');
  await terminal.press('C-c');
  expect((await terminal.end()).code).toBe(130);
  expect(await states(person)).toMatchObject({ 'service.json': 'not trusted' });
});

test('several files are trusted at once, or each by itself', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  person.write('project/.service.json', server);
  const terminal = await atTerminal(person, 'trust');
  const asked = await terminal.shows('Trust these 2 files, as shown? [y/N/e]');
  expect(asked).toMatch(/guard\.sh[\s\S]*mcp-files/);
  await terminal.press('e');
  await terminal.shows('Trust service.json, as shown?');
  await terminal.press('n');
  await terminal.shows('Trust .service.json, as shown?');
  await terminal.press('y');
  expect((await terminal.end()).screen).toContain('Trusted .service.json, until it changes: mcp.');
  expect(await states(person)).toMatchObject({ 'service.json': 'not trusted', '.service.json': 'there' });
});

test('after a change a person is shown what is different since the file was trusted', async () => {
  const person = testHome();
  const file = person.write('project/service.json', guard);
  await person.service(['trust', '--yes']);
  writeFileSync(file, readFileSync(file, 'utf8').replace('--all', '--none; rm -rf ~'));
  const terminal = await atTerminal(person, 'trust');
  const asked = await terminal.shows('[y/N]');
  expect(asked).toContain('service.json: changed since it was trusted. What is different:');
  expect(asked).toMatch(/^ *-.*guard\.sh --all/m);
  expect(asked).toMatch(/^ *\+.*guard\.sh --none; rm -rf ~/m);
});

test('after a change elsewhere in the file all that it would run is shown again, since nothing of it differs', async () => {
  const person = testHome();
  const file = person.write('project/service.json', guard);
  await person.service(['trust', '--yes']);
  writeFileSync(file, `${readFileSync(file, 'utf8')}\n`);
  const { stdout } = await person.service(['trust', '--show']);
  expect(stdout).toContain('changed since it was trusted, but not in what it would run or reach:');
  expect(stdout).toContain('guard.sh --all');
});

test('what becomes trusted is what was shown, not what the file became while the person read', async () => {
  const person = testHome();
  const file = person.write('project/service.json', guard);
  const terminal = await atTerminal(person, 'trust');
  await terminal.shows('[y/N]');
  appendFileSync(file, '\n');
  await terminal.press('y');
  await terminal.end();
  expect(await states(person)).toMatchObject({ 'service.json': 'not trusted' });
});

test('a file cannot hide a command from the person by what a terminal obeys', async () => {
  const person = testHome();
  person.write('project/service.json', {
    hooks: { pre_tool_use: [{ command: 'evil\u001b[2K\r\u001b[1A\u202ednoyeb' }] },
  });
  const terminal = await atTerminal(person, 'trust');
  const asked = await terminal.shows('[y/N]');
  expect(asked).toContain('evil');
  expect(asked).toContain('dnoyeb');
});

test('a run asks before it begins: with no it goes on without, with yes all of the file counts', async () => {
  const person = testHome();
  person.write('project/service.json', server);
  const refused = await atTerminal(person, 'run', 'hello');
  expect(await refused.shows('Trust service.json, as shown? [y/N]')).toContain('mcp-files');
  await refused.press('n');
  const without = await refused.end();
  expect(without.screen).toContain('mcp does not count');
  expect(without.code).toBe(0);
  const allowed = await atTerminal(person, 'run', 'hello');
  await allowed.shows('[y/N]');
  await allowed.press('y');
  const { screen, code } = await allowed.end();
  expect(screen).not.toContain('does not count');
  expect(code).toBe(0);
  expect(await states(person)).toMatchObject({ 'service.json': 'there' });
});

test('a run says why trust that was given cannot be kept, and goes on without it', async () => {
  const person = testHome();
  person.write('project/service.json', server);
  const folder = join(person.home, '.local/share/service');
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o777);
  const terminal = await atTerminal(person, 'run', 'hello');
  await terminal.shows('[y/N]');
  await terminal.press('y');
  const { screen, code } = await terminal.end();
  expect(screen).toMatch(/Others than you may .* in the folder that keeps trust\.\s+Run: chmod 700/);
  expect(screen).toContain('mcp does not count');
  expect(code).toBe(0);
});

test('with --json too a person is shown what they are asked about, and the answer of the program is JSON alone', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  const answer = join(person.home, 'answer.json');
  const words = ['sh', '-c', 'exec "$0" trust --json >"$1"', launcher, answer];
  const terminal = await openTestTerminal(words, { cwd: person.project, environment: person.environment });
  expect(await terminal.shows('[y/N]')).toContain('./guard.sh --all');
  await terminal.press('y');
  expect((await terminal.end()).code).toBe(0);
  expect(JSON.parse(readFileSync(answer, 'utf8'))).toMatchObject([{ sections: [{ pointer: '/hooks' }] }]);
  expect(await person.service(['trust', '--json'])).toMatchObject({ code: 0, stdout: '[]\n', stderr: '' });
});

test('without a terminal nothing is asked and nothing is trusted; the review is printed and the exit code is 3', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  const { code, stdout, stderr } = await person.service(['trust']);
  expect(stdout).toContain('./guard.sh --all');
  expect(stderr).toContain('--yes');
  expect(code).toBe(3);
  expect(await states(person)).toMatchObject({ 'service.json': 'not trusted' });
});

test('--yes asks nothing, and prints what it trusted', async () => {
  const person = testHome();
  const file = person.write('project/service.json', guard);
  const { code, stdout } = await person.service(['trust', '--yes']);
  expect(stdout).toContain('./guard.sh --all');
  expect(stdout).toContain(`Trusted ${file}, until it changes: hooks.`);
  expect(code).toBe(0);
  expect((await person.service(['trust'])).stdout).toContain(`${file} is trusted already, as it stands.`);
});

test('a project that runs and reaches nothing needs no trust', async () => {
  const person = testHome();
  person.write('project/service.json', { options: { tui: { diff_mode: 'split' } } });
  const { code, stdout } = await person.service(['trust']);
  expect(stdout).toContain('Nothing here needs trust');
  expect(code).toBe(0);
});

test('--show changes nothing, and shows what is trusted too', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  expect((await person.service(['trust', '--show'])).stdout).toContain('not trusted');
  expect(await states(person)).toMatchObject({ 'service.json': 'not trusted' });
  await person.service(['trust', '--yes']);
  const shown = JSON.parse((await person.service(['trust', '--show', '--json'])).stdout);
  expect(shown).toMatchObject([{ trusted: true, sections: [{ pointer: '/hooks' }] }]);
});

test('--list says of every file whether its trust still counts', async () => {
  const person = testHome();
  const kept = person.write('project/service.json', guard);
  const changed = person.write('project/.service.json', server);
  const gone = person.write('project/.service/service.json', server);
  await person.service(['trust', '--yes']);
  appendFileSync(changed, '\n');
  rmSync(gone);
  const rows = JSON.parse((await person.service(['trust', '--list', '--json'])).stdout);
  const state = Object.fromEntries(rows.map((row: { file: string; state: string }) => [row.file, row.state]));
  expect(state).toEqual({ [kept]: 'unchanged', [changed]: 'changed', [gone]: 'gone' });
  symlinkSync(kept, gone);
  const plain = (await person.service(['trust', '--list'])).stdout;
  expect(plain).toMatch(new RegExp(`^${gone}\t.*\treplaced$`, 'm'));
});

test('--revoke takes back trust in one file, and without a file in all of the project', async () => {
  const person = testHome();
  const one = person.write('project/service.json', guard);
  const gone = person.write('project/.service.json', server);
  const other = person.write('other/service.json', guard);
  writeFileSync(join(person.home, 'other/.git'), 'gitdir: nowhere\n');
  await person.service(['trust', '--yes']);
  await person.service(['-C', '../other', 'trust', '--yes']);
  const { stdout } = await person.service(['trust', '--revoke', 'service.json']);
  expect(stdout).toContain(`${one} is no longer trusted.`);
  expect(await states(person)).toMatchObject({ 'service.json': 'not trusted', '.service.json': 'there' });
  rmSync(gone);
  expect((await person.service(['trust', '--revoke'])).stdout).toContain(`${gone} is no longer trusted.`);
  const left = JSON.parse((await person.service(['trust', '--list', '--json'])).stdout);
  expect(left).toMatchObject([{ file: other, state: 'unchanged' }]);
});

test('what was never trusted cannot be revoked', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  const { code, stderr } = await person.service(['trust', '--revoke', 'service.json']);
  expect(stderr).toContain('service.json was not trusted');
  expect(code).toBe(1);
});

test('trust is kept where no other user can read or write it', async () => {
  const person = testHome();
  person.write('project/service.json', guard);
  await person.service(['trust', '--yes']);
  const folder = join(person.home, '.local/share/service');
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(statSync(join(folder, 'trust.json')).mode & 0o777).toBe(0o600);
});
