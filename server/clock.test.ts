/** A clock that goes forward only, and durations as people and as Go programs write them. */
import { describe, expect, test } from 'vitest';
import { parseDuration, steadyClock } from './clock.ts';

test('a steady clock goes forward with another and not back, and tells once when it is far ahead of it', () => {
  let [said, passed] = [1_000_000, 5000];
  const told: number[] = [];
  const clock = steadyClock(
    { now: () => new Date(said) },
    () => passed,
    (milliseconds) => void told.push(milliseconds),
  );
  const now = () => clock.now().getTime();
  expect(now()).toBe(1_000_000);
  said += 30_000;
  expect(now()).toBe(1_030_000);
  said = 950_000;
  passed += 1000;
  expect([now(), told]).toEqual([1_001_000, []]);
  said = 900_000;
  expect([now(), now(), told]).toEqual([1_001_000, 1_001_000, [101_000]]);
  said = 1_100_000;
  expect(now()).toBe(1_100_000);
  said = 0;
  expect([now(), told]).toEqual([1_001_000, [101_000, 1_001_000]]);
});

describe('a duration', () => {
  test.each([
    ['5s', 5000],
    ['1m30s', 90_000],
    ['1.5h', 5_400_000],
    ['250ms', 250],
    ['1ms500us', 1.5],
    ['2000µs', 2],
    [5_000_000_000, 5000],
    [1_000_000, 1],
  ])('%s is %d ms', (written, milliseconds) => {
    expect(parseDuration(written)).toBeCloseTo(milliseconds, 9);
  });

  test.each(['', '5', '5 s', 's', '-5s', '5d', '1.s', '.5s', '5S', '1e3s', 'five'])(
    '%j is refused',
    (written) => {
      expect(() => parseDuration(written)).toThrow('write "5s" or "1m30s"');
    },
  );

  test('a small number was meant as seconds, and the message says how to write them', () => {
    expect(() => parseDuration(5)).toThrow(/less than a millisecond.*nanoseconds.*write "5s"/);
    expect(() => parseDuration(30)).toThrow('write "30s"');
    expect(() => parseDuration(999_999)).toThrow('write "5s"');
    expect(() => parseDuration(-1)).toThrow('write "5s"');
  });

  test('nothing and less than a millisecond are refused as text too', () => {
    expect(() => parseDuration('0s')).toThrow('write at least "1ms"');
    expect(() => parseDuration('999us')).toThrow('write at least "1ms"');
  });

  test('what is no number at all is refused', () => {
    expect(() => parseDuration(Number.NaN)).toThrow(RangeError);
    expect(() => parseDuration(Number.POSITIVE_INFINITY)).toThrow(RangeError);
  });
});
