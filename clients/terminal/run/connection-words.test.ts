import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createConnectionWords } from './connection-words.ts';
import { silentDisplay } from './run-display.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function heard() {
  const said: string[] = [];
  const words = createConnectionWords({ ...silentDisplay, aside: (text) => void said.push(text) });
  return { words, said };
}

test('a connection that is there again within two seconds is not told of', () => {
  const { words, said } = heard();
  for (let time = 0; time < 3; time += 1) {
    words.changed('lost');
    vi.advanceTimersByTime(1999);
    words.changed('restored');
    vi.advanceTimersByTime(10_000);
  }
  expect(said).toEqual([]);
});

test('one that is away for longer is told of once, and so is its return', () => {
  const { words, said } = heard();
  words.changed('lost');
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual([expect.stringContaining('is not reached')]);
  words.changed('restored');
  words.changed('lost');
  words.changed('restored');
  expect(said).toEqual([expect.anything(), expect.stringContaining('is reached again')]);
});

test('nothing is told of a run that is over', () => {
  const { words, said } = heard();
  words.changed('lost');
  words.close();
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual([]);
});
