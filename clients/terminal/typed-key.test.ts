/** A key that is asked for, and what people type in its place, at their pace: the clock is the test's own. */
import { PassThrough } from 'node:stream';
import type { ReadStream } from 'node:tty';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { readKey } from './typed-key.ts';

const keys = ['a', 's', 'w', 'd', 'e', '\r'];
const betweenLettersMs = 180;

// One clock for all of them: when a key was typed last is known from one question to the next.
beforeAll(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'performance'],
  });
});
afterAll(() => void vi.useRealTimers());

function question(careful = true) {
  const stream = Object.assign(new PassThrough(), { setRawMode: () => stream });
  const input = stream as unknown as ReadStream; // what is used of it is there
  const asked = vi.fn();
  const wrong = vi.fn();
  const taken = vi.fn();
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const ask = () =>
    void readKey(input, keys, { ask: asked, wrong, careful }, over.signal).then(taken, () => undefined);
  return {
    ask,
    asked,
    wrong,
    taken,
    pause: (ms = 1000) => vi.advanceTimersByTimeAsync(ms),
    async type(...pieces: readonly string[]) {
      for (const piece of pieces) {
        input.emit('data', Buffer.from(piece));
        await vi.advanceTimersByTimeAsync(betweenLettersMs);
      }
    },
  };
}

test.each(['no, stop\r', 'yes\r', 'stop\r', 'wait\r', 'abort\r', 'deny\r'])(
  'no letter of a word counts: %j',
  async (word) => {
    const { ask, asked, wrong, taken, pause, type } = question();
    ask();
    await pause();
    await type(...word);
    await pause();
    expect(taken).not.toHaveBeenCalled();
    // It is said once that this is no answer, and the question stands there again.
    expect([wrong.mock.calls.length, asked.mock.calls.length]).toEqual([1, 2]);
    await type('d');
    await pause();
    expect(taken).toHaveBeenCalledExactlyOnceWith('d');
  },
);

test.each([
  ['a letter alone', ['s']],
  ['the same letter twice', ['s', 's']],
  ['a large letter', ['S']],
])('%s counts, once no other has followed', async (_what, typed) => {
  const { ask, taken, pause, type } = question();
  ask();
  await pause();
  await type(...typed);
  expect(taken).not.toHaveBeenCalled();
  await pause();
  expect(taken).toHaveBeenCalledExactlyOnceWith('s');
});

test.each([[['s\r']], [['s', '\r']], [['\r']]])('%j counts at once', async (typed) => {
  const { ask, taken, pause, type } = question();
  ask();
  await pause();
  await type(...typed);
  expect(taken).toHaveBeenCalledExactlyOnceWith(typed[0]?.[0]);
});

test('what is pasted is no answer, in however many pieces, and does not drown the question', async () => {
  const { ask, asked, wrong, taken, pause, type } = question();
  ask();
  await pause();
  await type('a paste', 's', 'a', '\r', 'of more\r');
  await pause();
  expect([wrong.mock.calls.length, asked.mock.calls.length, taken.mock.calls.length]).toEqual([1, 2, 0]);
});

test('the rest of a word whose first letter was an answer is none to the next question', async () => {
  const { ask, asked, taken, pause, type } = question(false);
  ask();
  await pause();
  await type('d');
  expect(taken).toHaveBeenCalledExactlyOnceWith('d');
  ask();
  await type(...'eny\r');
  expect(asked).toHaveBeenCalledTimes(1);
  await pause();
  expect(asked).toHaveBeenCalledTimes(2);
  expect(taken).toHaveBeenCalledTimes(1);
});
