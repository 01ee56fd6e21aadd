/** `service logs`: the end of the log, and what comes. */
import { appendFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { dataFolder, launcher, type TestHome, testHome } from '../test-command.ts';
import { openTestTerminal } from '../test-terminal.ts';

const line = (at: number, more: object = {}) =>
  `${JSON.stringify({ level: 30, time: '2026-11-21T11:22:33.456Z', ...more, msg: `event ${at}` })}\n`;
const utc = { variables: { TZ: 'UTC' } };

function homeWithLog(text: string) {
  const home = testHome();
  return { home, file: writeLog(home, text) };
}

function writeLog(home: TestHome, text: string): string {
  return home.write(relative(home.home, join(dataFolder(home), 'logs/service.log')), text);
}

test('the log is printed for people: time, level, message, fields, and the stack of a failure below', async () => {
  const err = { message: 'broken', stack: 'Error: broken\n    at here \u001b[2J' };
  const { home } = homeWithLog(
    line(1, { run_id: 'run_1', words: 'two words' }) + line(2, { level: 50, err }),
  );
  const { stdout, code } = await home.service(['logs'], utc);
  expect(code).toBe(0);
  expect(stdout).toBe(
    '2026-11-21 11:22:33.456 INFO  event 1 run_id=run_1 words="two words"\n' +
      '2026-11-21 11:22:33.456 ERROR event 2\n    Error: broken\n        at here \\e[2J\n',
  );
});

test.each([
  [
    ['--tail', '2'],
    [8, 9],
  ],
  [['-n', '0'], []],
  [
    ['--tail', '100'],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  ],
])('%j prints so many of the last lines', async (args, numbers) => {
  const { home } = homeWithLog(Array.from({ length: 10 }, (_, at) => line(at)).join(''));
  const { stdout } = await home.service(['logs', '--json', ...args]);
  expect(stdout).toBe(numbers.map((at) => line(at)).join(''));
});

test('the last line is printed where it is not ended yet, and what is no JSON as it is', async () => {
  const { home } = homeWithLog(`${line(1)}something else\n{"level":30,"cut`);
  const { stdout } = await home.service(['logs', '--tail', '2'], utc);
  expect(stdout).toBe('something else\n{"level":30,"cut\n');
});

test('on a terminal JSON moves no cursor and turns no writing round either, nor does what is no JSON', async () => {
  const { home } = homeWithLog(`${line(1, { words: 'a\u009b2Jb\u202ec' })}no\u001b[2JJSON\n`);
  const options = { cwd: home.project, environment: home.environment };
  const terminal = await openTestTerminal([launcher, 'logs', '--json'], options);
  const { screen } = await terminal.end();
  expect(screen).toContain('"words":"a\\u{9b}2Jb\\u{202e}c"');
  expect(screen).toContain('no\\e[2JJSON');
});

test('a log of hundreds of megabytes is read from its end', async () => {
  const { home, file } = homeWithLog('');
  truncateSync(file, 2 ** 31);
  appendFileSync(file, `\n${line(1)}${'é'.repeat(70_000)}\n${line(2)}`);
  const { stdout } = await home.service(['logs', '--json', '--tail', '3']);
  expect(stdout).toBe(`${line(1)}${'é'.repeat(70_000)}\n${line(2)}`);
});

test('a followed log is printed as it grows, through a rotation and when it is emptied', async () => {
  const { home, file } = homeWithLog(line(1));
  const service = home.start(['logs', '--follow', '--json']);
  const shows = (at: number) => service.until(() => service.stdout().endsWith(line(at)));
  await shows(1);
  appendFileSync(file, line(2).slice(0, 20));
  appendFileSync(file, line(2).slice(20));
  await shows(2);
  appendFileSync(file, line(3));
  renameSync(file, `${file}.1`);
  writeFileSync(file, line(4) + line(5));
  await shows(5);
  truncateSync(file, 0);
  appendFileSync(file, line(6));
  await shows(6);
  service.child.kill('SIGINT');
  expect(await service.ended).toMatchObject({
    code: 130,
    stdout: [1, 2, 3, 4, 5, 6].map((at) => line(at)).join(''),
  });
});

test('a log that does not exist yet is told, and waited for where it is followed', async () => {
  const home = testHome();
  expect(await home.service(['logs'])).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('There is no log yet'),
  });
  const service = home.start(['logs', '-f', '--json']);
  await service.until(() => service.stderr().includes('There is no log yet'));
  writeLog(home, line(1));
  await service.until(() => service.stdout() === line(1));
});

test('what a run did stands in the log of its project, without the secrets of it', async () => {
  const home = testHome();
  await home.service(['run', 'a private question']);
  const { stdout } = await home.service(['logs']);
  expect(stdout).toMatch(/INFO {2}request method=POST route=\/api\/v1\/query\/stream/);
  expect(stdout).not.toMatch(/private question|sk-/);
});

test('a number of lines that is none is wrong usage', async () => {
  expect(await testHome().service(['logs', '--tail', 'ten'])).toMatchObject({ code: 2, stdout: '' });
});
