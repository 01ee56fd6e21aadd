import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createConnectionWords } from './connection-words.ts';
import { silentDisplay } from './run-display.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function heard(awaitsLogin = () => false) {
  const said: string[] = [];
  const display = { ...silentDisplay, aside: (text: string) => void said.push(text) };
  const words = createConnectionWords(display, awaitsLogin);
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

test('where it is the login that is missing, the server is not said to be', () => {
  let awaitsLogin = true;
  const { words, said } = heard(() => awaitsLogin);
  words.changed('lost');
  vi.advanceTimersByTime(60_000);
  awaitsLogin = false;
  words.changed('restored');
  const ofLogin = ['The login is not renewed yet.', 'The login is renewed.'].map((text) =>
    expect.stringContaining(text),
  );
  expect(said).toEqual(ofLogin);
});

test('a login that is over where the server is there again is told of, once', () => {
  let awaitsLogin = false;
  const { words, said } = heard(() => awaitsLogin);
  words.changed('lost');
  for (awaitsLogin of [false, true, false, true]) vi.advanceTimersByTime(10_000);
  expect(said).toEqual([
    expect.stringContaining('The server is not reached.'),
    expect.stringContaining('The login is not renewed yet.'),
  ]);
  words.close();
});

test('nothing is told of a run that is over', () => {
  const { words, said } = heard();
  words.changed('lost');
  words.close();
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual([]);
});
