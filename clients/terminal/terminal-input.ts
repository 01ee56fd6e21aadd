/** What a person at the terminal types while a run goes on: single keys and lines, given up when the run needs none any more. */
import { openSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { isDumb } from './output.ts';
import { type KeyWishes, readKey } from './typed-key.ts';
import { readHidden, readLine, readPlainLine } from './typed-line.ts';

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
   * there to be changed, where lines can be edited.
   */
  readLine(
    prompt: string,
    signal: AbortSignal,
    options?: { readonly ask?: () => void; readonly hidden?: boolean; readonly begun?: string },
  ): Promise<string | null>;
  /** Whether what is begun for the person can be changed. */
  readonly canEdit: boolean;
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
  if (isDumb()) return dumbKeyboardOn(input);
  if (!input.listeners('error').includes(ignore)) input.on('error', ignore);
  return {
    readKey: (keys, ask, signal, wishes) => readKey(input, keys, { ask, ...wishes }, signal),
    readLine: (prompt, signal, { ask = nothing, hidden = false, begun = '' } = {}) =>
      hidden
        ? readHidden(input, { ask, prompt }, signal)
        : readLine(input, { ask, prompt, output: process.stderr, begun }, signal),
    canEdit: true,
    close() {
      input.pause();
      if (input !== process.stdin) input.destroy();
    },
  };
}

/** Ctrl+D ends for good what reads from a terminal that edits lines by itself: each question opens it anew. */
function dumbKeyboardOn(input: ReadStream): Keyboard {
  if (input !== process.stdin) input.destroy();
  const anew = async <Answer>(read: (own: ReadStream) => Promise<Answer>): Promise<Answer> => {
    const own = openTerminal() ?? process.stdin;
    own.on('error', ignore);
    try {
      return await read(own);
    } finally {
      own.off('error', ignore).pause();
      if (own !== process.stdin) own.destroy();
    }
  };
  return {
    readKey: (keys, ask, signal, wishes) => anew((own) => readKey(own, keys, { ask, ...wishes }, signal)),
    readLine: (prompt, signal, { ask = nothing, hidden = false } = {}) =>
      anew((own) => (hidden ? readHidden : readPlainLine)(own, { ask, prompt }, signal)),
    canEdit: false,
    close: nothing,
  };
}

const nothing = () => undefined;

/** Where the terminal is gone, the signal of that ends what is asked there. */
const ignore = () => undefined;
