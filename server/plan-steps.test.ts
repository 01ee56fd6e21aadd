/** What counts as a step of a plan, and what does not. */
import { expect, test } from 'vitest';
import { stepsOf, withStep } from './plan-steps.ts';

const texts = (content: string) => stepsOf(content).map(({ text }) => text);

test.each([
  [
    'a numbered list',
    'Why\n\n1. Look.\n2) Mend.\n   - below\n   1. further below\n10. Tell.',
    ['Look.', 'Mend.', 'Tell.'],
  ],
  ['no list', '# Why\n\nBecause of 1. something.\n- a\n- b', []],
  ['a list in code', '```\n1. Not this\n```\n1. This', ['This']],
  ['boxes beside numbers', '1. This\n- [ ] Not this', ['This']],
  ['lines of another system', '1. One\r\n2. Two\r\n', ['One', 'Two']],
  ['numbers without words', '1.\n2. \n3.5 is no step', []],
])('%s', (_what, content, found) => {
  expect(texts(content)).toEqual(found);
});

test('boxes are steps where nothing is numbered, and those that are ticked are completed', () => {
  expect(stepsOf('- [x] One\n* [ ] Two').map(({ status }) => status)).toEqual(['completed', 'pending']);
});

test('there are a hundred at most, with as much text as fits in a list', () => {
  const long = `${'x'.repeat(299)}😀`;
  const steps = stepsOf(Array.from({ length: 120 }, (_, at) => `${at + 1}. ${long}`).join('\n'));
  expect(steps).toHaveLength(100);
  expect(steps[99]).toMatchObject({ id: '100', text: `${'x'.repeat(299)}…` });
});

test('one step changes, and an unknown one changes nothing', () => {
  const steps = stepsOf('1. One\n2. Two');
  expect(withStep(steps, '2', 'skipped')?.map(({ status }) => status)).toEqual(['pending', 'skipped']);
  expect(withStep(steps, '3', 'skipped')).toBeNull();
});
