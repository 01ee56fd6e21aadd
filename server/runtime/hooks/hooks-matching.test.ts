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

test('a hook that is broken hides none that runs the same command', () => {
  const broken = { matcher: '(', command: 'guard', on_error: 'allow' } as const;
  const sound = { matcher: '^bash$', command: 'guard', on_error: 'allow' } as const;
  const met = (...hooks: (typeof broken | typeof sound | Omit<typeof broken, 'on_error'>)[]) =>
    hooksFor({ hooks: { pre_tool_use: [...hooks] } }, 'bash');
  expect(met(broken, sound)).toEqual([{ hook: sound, name: 'hooks.pre_tool_use[1]', broken: null }]);
  expect(met({ matcher: '(', command: 'guard' }, sound)).toMatchObject([
    { hook: { on_error: 'deny' }, broken: null },
  ]);
  expect(met(broken, broken)).toMatchObject([
    { broken: expect.stringContaining('is no regular expression') },
  ]);
});
