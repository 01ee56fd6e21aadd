/** Matchers of hooks against names that no tool should have. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { hooksFor } from './hooks-matching.ts';

const meets = (matcher: string, name: string) =>
  hooksFor({ hooks: { pre_tool_use: [{ matcher, command: 'true' }] } }, name).length > 0;

test.each([
  ['^(a+)+$', `${'a'.repeat(50_000)}!`],
  ['^(a|aa)+$', `${'a'.repeat(50_000)}!`],
  ['(x+x+)+y', 'x'.repeat(50_000)],
  ['^(([a-z])+.)+[A-Z]([a-z])+$', 'a'.repeat(50_000)],
])('`hooks.pre_tool_use[].matcher` takes linear time, whatever it is: %s', async (matcher, name) => {
  const spent = await cpuMsOf(() => expect(meets(matcher, name)).toBe(false));
  // Each of these takes longer than the age of the universe where matching goes back and tries again.
  expect(spent).toBeLessThan(2000);
});

test.each(['a(?=b)', '(?<!a)b', '(a)\\1', '(a{1000}){1000}'])(
  '`hooks.pre_tool_use[].matcher` takes nothing that linear time does not allow: %s',
  (matcher) => {
    expect(hooksFor({ hooks: { pre_tool_use: [{ matcher, command: 'true' }] } }, 'ab')).toMatchObject([
      { broken: expect.stringContaining('is no regular expression in the syntax of RE2') },
    ]);
  },
);
