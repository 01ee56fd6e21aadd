/** Pieces of text are found as the engine finds them, and in time where it would not. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { countOf, finderOf, holds, withAll } from './find-part.ts';

const few = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 40 });
/** Longer than what the engine is asked for. */
const longPart = fc
  .tuple(few, fc.integer({ min: 8, max: 40 }))
  .map(([unit, times]) => `a${unit}`.repeat(times * 8));

describe('a part of any length', () => {
  test('is found where it is', () => {
    fc.assert(
      fc.property(few, longPart, few, fc.nat(50), (before, part, after, from) => {
        const text = before + part + after + part;
        expect(finderOf(part)(text, from)).toBe(text.indexOf(part, from));
        expect(finderOf(`${part}b`)(text, from)).toBe(text.indexOf(`${part}b`, from));
        expect(holds(text, part)).toBe(true);
        expect(countOf(text, part)).toBe(text.split(part).length - 1);
        expect(withAll(text, part, after)).toBe(text.split(part).join(after));
      }),
    );
  });

  test('is in no shorter text, nor behind its end', () => {
    expect(holds('a', 'ab'.repeat(200))).toBe(false);
    expect(finderOf('ab'.repeat(200))('ab'.repeat(200), 1)).toBe(-1);
  });
});

test.each([
  ['is not there', '0,'.repeat(8_000)],
  ['is there', '0,'.repeat(4_000)],
])('a long one of a large file of few signs that %s is looked for in time', async (_what, begin) => {
  const part = `${begin}1,${'0,'.repeat(4_000)}`;
  const text = `${'0,'.repeat(5_000_000)}1,${'0,'.repeat(4_000)}`;
  let count = -1;
  const spent = await cpuMsOf(() => {
    count = countOf(text, `${part}x`) + countOf(text, part);
  });
  expect(count).toBe(1);
  expect(spent).toBeLessThan(1500);
});
