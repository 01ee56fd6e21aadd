/** What a person at the terminal types while a run goes on: single keys and lines, given up when the run needs none any more. */
import { openSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { type KeyWishes, readKey } from './typed-key.ts';
import { readHidden, readLine } from './typed-line.ts';

/** Where a person can be asked. */
export interface Keyboard {
  /**
   * The next one among these keys. What was typed before the question could be read is no answer to it: it is thrown
   * away, and only then does `ask` print the question. Of a word that is typed in the place of a key no letter counts.
   */
  readKey(
    keys: readonly string[],
    ask: () => void,
    signal: AbortSignal,
    wishes?: Partial<KeyWishes>,
  ): Promise<string>;
  /**
   * A line, or the lines that were pasted; null where the person ended the input instead (Ctrl+D). What was typed before is thrown away here, too, and
   * only then `ask` prints what stands above the prompt. What is `hidden` is not shown while it is typed; `begun` stands
   * there to be changed.
   */
  readLine(
    prompt: string,
    signal: AbortSignal,
    options?: { readonly ask?: () => void; readonly hidden?: boolean; readonly begun?: string },
  ): Promise<string | null>;
  close(): void;
}

/**
 * The keyboard of the person behind this process; null where there is none. Standard input may be a pipe with the
 * prompt in it: then it is the terminal that the process belongs to, as long as standard error shows the questions.
 */
export function openKeyboard(): Keyboard | null {
  if (!process.stderr.isTTY) return null;
  const input = process.stdin.isTTY ? process.stdin : openTerminal();
  return input && keyboardOn(input);
}

function openTerminal(): ReadStream | null {
  try {
    return new ReadStream(openSync('/dev/tty', 'r'));
  } catch {
    return null; // No terminal belongs to the process: nobody is there.
  }
}

function keyboardOn(input: ReadStream): Keyboard {
  return {
    readKey: (keys, ask, signal, wishes) => readKey(input, keys, { ask, ...wishes }, signal),
    readLine: (prompt, signal, { ask = () => undefined, hidden = false, begun = '' } = {}) =>
      hidden
        ? readHidden(input, { ask, prompt }, signal)
        : readLine(input, { ask, prompt, output: process.stderr, begun }, signal),
    close() {
      input.pause();
      if (input !== process.stdin) input.destroy();
    },
  };
}
