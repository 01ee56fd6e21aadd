/** The last line of `make test` must not lie: whatever goes wrong, it counts. */
import { expect, test } from 'vitest';
import {
  readRound,
  readVitestPart,
  readWholePart,
  summarise,
  tally,
  type VitestReport,
} from './test-report.ts';

const file = (status: string, ...tests: [status: string, fullName: string][]) => ({
  name: 'a.test.ts',
  status,
  message: '',
  assertionResults: tests.map(([status, fullName]) => ({ status, fullName })),
});
const report = (...testResults: VitestReport['testResults'][number][]): VitestReport => ({ testResults });

const cost = { seconds: 1, cpuSeconds: 2 };

test('passed, failed and skipped tests are counted, the latter two by name', () => {
  const tests = file('failed', ['passed', 'one'], ['failed', 'two'], ['pending', 'three'], ['todo', 'four']);
  expect(readVitestPart('server', cost, report(tests), 1)).toEqual({
    name: 'server',
    ...cost,
    passed: 1,
    failed: [{ title: 'a.test.ts: two', reason: '' }],
    skipped: ['a.test.ts: three', 'a.test.ts: four'],
  });
});

test('a file that cannot be read counts as a failure', () => {
  expect(readVitestPart('server', cost, report(file('failed')), 1).failed).toEqual([
    { title: 'a.test.ts: failed outside of its tests', reason: '' },
  ]);
});

test('a file whose preparation failed counts as a failure beside its skipped tests', () => {
  const part = readVitestPart('server', cost, report(file('failed', ['skipped', 'one'])), 1);
  expect([part.failed.length, part.skipped]).toEqual([1, ['a.test.ts: one']]);
});

test('a run without a report counts as a failure, even where it claims success', () => {
  expect(readVitestPart('server', cost, null, 1).failed).toHaveLength(1);
  expect(readVitestPart('server', cost, null, 0).failed).toHaveLength(1);
});

test('a run that ends badly without a failed test counts as a failure', () => {
  const passed = report(file('passed', ['passed', 'one']));
  expect(readVitestPart('server', cost, passed, 1).failed).toMatchObject([
    { title: 'server: the run ended with 1' },
  ]);
  expect(readVitestPart('server', cost, passed, null).failed).toMatchObject([
    { title: 'server: the run ended with a signal' },
  ]);
});

test('a part that is one program is one test', () => {
  expect(readWholePart('check', cost, 0)).toMatchObject({ passed: 1, failed: [] });
  expect(readWholePart('check', cost, 2)).toMatchObject({
    passed: 0,
    failed: [{ title: 'check: ended with 2' }],
  });
});

test('the summary ends with the one line that others read', () => {
  const text = summarise([
    readWholePart('check', { seconds: 12.34, cpuSeconds: 20 }, 0),
    readVitestPart(
      'server',
      { seconds: 5, cpuSeconds: null },
      report(file('failed', ['failed', 'two'], ['pending', 'three'])),
      1,
    ),
  ]);
  expect(text.split('\n').at(-1)).toBe('1 passed, 1 failed, 1 skipped');
  expect(text).toContain('failed: a.test.ts: two');
  expect(text).toContain('skipped: a.test.ts: three');
  expect(text).toMatch(/check +12\.3 +20\.0 +1 +0 +0\n.*server +5\.0 +- +0 +1 +1/);
});

test('the summary says why a test failed, and where, without what others have in its stack', () => {
  const stack = [
    '    at chai (file:///a/node_modules/chai/index.js:1:2)',
    '    at new Promise (<anonymous>)',
    '    at /a/b.test.ts:3:4',
    '    at file:///a/node_modules/vitest/run.js:5:6',
  ];
  const failing = (message: string) => ({
    ...file('failed'),
    assertionResults: [{ status: 'failed', fullName: 'two', failureMessages: [message] }],
  });
  const summaryOf = (message: string) =>
    summarise([readVitestPart('server', cost, report(failing(message)), 1)]).split('\n');
  const told = summaryOf(['AssertionError: expected 1', 'to be 2', ...stack].join('\n'));
  expect(told.slice(0, 5)).toEqual([
    'failed: a.test.ts: two',
    '    AssertionError: expected 1',
    '    to be 2',
    '    at /a/b.test.ts:3:4',
    '',
  ]);
  expect(readRound(told.join('\n'), 1).failed).toEqual(['a.test.ts: two']);
  expect(summaryOf('x'.repeat(100_000))[1]?.length).toBeLessThan(700);
  const broken = { ...file('failed'), message: 'SyntaxError: no' };
  expect(summarise([readVitestPart('server', cost, report(broken), 1)])).toContain('    SyntaxError: no\n');
});

test('a round of all tests is read off its summary', () => {
  const summary = (exitCode: number) =>
    readRound(`a line\n${summarise([readWholePart('check', cost, exitCode)])}\n`, exitCode);
  expect(summary(0)).toEqual({ counts: '1 passed, 0 failed, 0 skipped', failed: [] });
  expect(summary(2)).toEqual({
    counts: '0 passed, 1 failed, 0 skipped',
    failed: ['check: ended with 2'],
  });
});

test('a round of all tests that leaves some out has failed', () => {
  const left = report(file('passed', ['passed', 'one'], ['pending', 'two']));
  const summary = summarise([readVitestPart('server', cost, left, 0)]);
  expect(readRound(`a line\n${summary}\n`, 0)).toEqual({
    counts: '1 passed, 0 failed, 1 skipped',
    failed: ['skipped: a.test.ts: two'],
  });
  expect(readRound('      Tests  3 passed | 1 skipped (4)\n', 0).failed).toEqual([]);
});

test('a round of a part is read off what vitest printed', () => {
  const printed =
    ' FAIL  a.test.ts > one\n\n Test Files  1 failed (1)\n      Tests  1 failed | 3 passed (4)\n';
  expect(readRound(printed, 1)).toEqual({ counts: '1 failed | 3 passed (4)', failed: ['a.test.ts > one'] });
});

test('a round that broke counts as a failure, even where it claims success', () => {
  expect(readRound('', 0).failed).toEqual(['the round ended with 0']);
  expect(readRound('1 passed, 0 failed, 0 skipped', null).failed).toEqual(['the round ended with a signal']);
});

test('the rounds are told by what failed in how many of them', () => {
  expect(tally([[], []])).toBe('2 rounds, 0 failed');
  expect(tally([['one'], [], ['two', 'one']]).split('\n')).toEqual([
    'failed in 2 of 3 rounds: one',
    'failed in 1 of 3 rounds: two',
    '3 rounds, 2 failed',
  ]);
});
