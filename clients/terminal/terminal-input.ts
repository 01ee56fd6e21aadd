/** What a person at the terminal types while a run goes on: single keys and lines, given up when the run needs none any more. */
import { openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ReadStream } from 'node:tty';

/** Where a person can be asked. */
export interface Keyboard {
  /**
   * The next one among these keys. What was typed before the question could be read is no answer to it: it is thrown
   * away, and only then does `ask` print the question. `wrong` is called for every other key; it beeps unless said otherwise.
   */
  readKey(keys: readonly string[], ask: () => void, signal: AbortSignal, wrong?: () => void): Promise<string>;
  /**
   * A line; null where the person ended the input instead (Ctrl+D). What is `hidden` is not shown while it is typed;
   * `begun` stands there to be changed.
   */
  readLine(
    prompt: string,
    signal: AbortSignal,
    options?: { readonly hidden?: boolean; readonly begun?: string },
  ): Promise<string | null>;
  close(): void;
}

function beep(): void {
  process.stderr.write('\x07');
}

/** How long the terminal may take to hand over what was typed before. */
const staleMs = 80;

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
    readKey: (keys, ask, signal, wrong = beep) => readKey(input, keys, { ask, wrong }, signal),
    readLine: (prompt, signal, { hidden = false, begun = '' } = {}) =>
      hidden
        ? readHidden(input, prompt, signal)
        : readLine(input, { prompt, output: process.stderr, begun }, signal),
    close() {
      input.pause();
      if (input !== process.stdin) input.destroy();
    },
  };
}

async function readKey(
  input: ReadStream,
  keys: readonly string[],
  { ask, wrong }: { readonly ask: () => void; readonly wrong: () => void },
  signal: AbortSignal,
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let asked = false;
  const onData = (data: Buffer | string) => {
    const key = keyOf(data.toString());
    // The terminal is raw, so that it makes no signal of Ctrl+C itself.
    if (key.includes('\x03')) process.kill(process.pid, 'SIGINT');
    else if (asked && keys.includes(key)) resolve(key);
    // What comes in one piece was pasted, or typed in haste: no single letter of it was meant as an answer.
    else if (asked) wrong();
  };
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  input.setRawMode(true).on('data', onData).resume();
  try {
    await Promise.race([sleep(staleMs), promise]);
    asked = true;
    ask();
    return await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    input.off('data', onData).pause();
    input.setRawMode(false);
  }
}

/** A letter with Enter behind it, as people are used to answer, and as scripts send it in one piece, is that letter. */
function keyOf(data: string): string {
  return data.toLowerCase().replace(/^([^\r\n])[\r\n]+$/, '$1');
}

async function readHidden(input: ReadStream, prompt: string, signal: AbortSignal): Promise<string | null> {
  const nowhere = new Writable({ write: (_chunk, _encoding, written) => written() });
  // Before the question stands there, the terminal has ceased to show what is typed.
  const line = readLine(input, { prompt: '', output: nowhere, begun: '' }, signal);
  process.stderr.write(prompt);
  try {
    return await line;
  } finally {
    process.stderr.write('\n');
  }
}

async function readLine(
  input: ReadStream,
  { prompt, output, begun }: { readonly prompt: string; readonly output: Writable; readonly begun: string },
  signal: AbortSignal,
): Promise<string | null> {
  const { promise, resolve, reject } = Promise.withResolvers<string | null>();
  const lines = createInterface({ input, output, terminal: true, prompt, historySize: 0 });
  const onAbort = () => {
    // What is said next stands on a line of its own.
    output.write('\n');
    reject(signal.reason);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  lines.once('line', resolve).once('close', () => resolve(null));
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  lines.prompt();
  if (begun) lines.write(begun);
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    lines.close();
  }
}
