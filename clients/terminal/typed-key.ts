/** One key as an answer: it counts alone, so that no word that is typed in its place is taken by a letter of it. */
import type { ReadStream } from 'node:tty';
import { createQuiet, interrupt, noteKey, quietMs, suspendable, throwAwayTyped } from './typed-before.ts';

/** How a key is asked for. */
export interface KeyWishes {
  /** Where the answer grants something: a letter counts only if no other follows, and after a wrong key `ask` puts the question again. */
  readonly careful: boolean;
  /** Called for a wrong key; once for all that are typed in one go. It beeps unless said otherwise. */
  readonly wrong: () => void;
}

interface KeyQuestion extends Partial<KeyWishes> {
  readonly ask: () => void;
}

/** So soon the next letter of a word follows; Enter behind the letter makes it an answer at once. */
const aloneMs = 400;

/** Waits for one of the keys. */
export async function readKey(
  input: ReadStream,
  keys: readonly string[],
  { ask, wrong = beep, careful = false }: KeyQuestion,
  signal: AbortSignal,
): Promise<string> {
  await throwAwayTyped(input, signal);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const quiet = createQuiet();
  let chosen: string | null = null;
  let refusing = false;
  const refuse = () => {
    if (!refusing) wrong();
    refusing = true;
    chosen = null;
    quiet.await(() => {
      refusing = false;
      // What is not seen is not decided about, and much may stand below it by now.
      if (careful) ask();
    }, quietMs);
  };
  const choose = (key: string) => {
    chosen = key;
    quiet.await(() => resolve(key), aloneMs);
  };
  const take = (typed: string) => {
    const key = keyOf(typed);
    if (refusing) refuse();
    else if (chosen !== null && /^[\r\n]+$/.test(typed)) resolve(chosen);
    // The same key again is somebody's impatience.
    else if (chosen !== null && key !== chosen) refuse();
    // What comes in one piece was pasted, or typed in haste: no single letter of it was meant as an answer.
    else if (!keys.includes(key)) refuse();
    else if (careful && /^[a-z]$/.test(typed)) choose(key);
    else resolve(key);
  };
  const suspension = suspendable(input, ask);
  const onData = (data: Buffer | string) => {
    const typed = data.toString().toLowerCase();
    if (typed.includes('\x03')) return interrupt();
    if (typed === '\x1a') return suspension.suspend();
    noteKey();
    take(typed);
  };
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  input.on('data', onData).resume();
  try {
    ask();
    return await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    quiet.end();
    suspension.end();
    input.off('data', onData).pause();
    input.setRawMode(false);
  }
}

function beep(): void {
  process.stderr.write('\x07');
}

/** A letter with Enter behind it, as people are used to answer, and as scripts send it in one piece, is that letter. */
function keyOf(typed: string): string {
  return typed.replace(/^([^\r\n])[\r\n]+$/, '$1');
}
