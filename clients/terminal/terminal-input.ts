/** What a person at the terminal types while a run goes on: single keys and lines, given up when the run needs none any more. */
import { openSync } from 'node:fs';
import { createInterface, type Interface, type Key } from 'node:readline';
import { Writable } from 'node:stream';
import { setImmediate as nextRound, setTimeout as sleep } from 'node:timers/promises';
import { ReadStream } from 'node:tty';

/** Where a person can be asked. */
export interface Keyboard {
  /**
   * The next one among these keys. What was typed before the question could be read is no answer to it: it is thrown
   * away, and only then does `ask` print the question. `wrong` is called for every other key; it beeps unless said otherwise.
   */
  readKey(keys: readonly string[], ask: () => void, signal: AbortSignal, wrong?: () => void): Promise<string>;
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

async function readKey(
  input: ReadStream,
  keys: readonly string[],
  { ask, wrong }: { readonly ask: () => void; readonly wrong: () => void },
  signal: AbortSignal,
): Promise<string> {
  await throwAwayTyped(input, signal);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const onData = (data: Buffer | string) => {
    const key = keyOf(data.toString());
    if (key.includes('\x03')) interrupt();
    else if (keys.includes(key)) resolve(key);
    // What comes in one piece was pasted, or typed in haste: no single letter of it was meant as an answer.
    else wrong();
  };
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  input.on('data', onData).resume();
  try {
    ask();
    return await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    input.off('data', onData).pause();
    input.setRawMode(false);
  }
}

/** Afterwards the terminal is raw: it hands over every key at once, and shows none by itself. */
async function throwAwayTyped(input: ReadStream, signal: AbortSignal): Promise<void> {
  const onData = (data: Buffer | string) => {
    if (data.toString().includes('\x03')) interrupt();
  };
  input.setRawMode(true).on('data', onData).resume();
  // It rejects with a reason of its own.
  await sleep(staleMs, undefined, { signal }).catch(() => undefined);
  // On a busy machine nothing may have been read in that time: a round later it has.
  await nextRound();
  input.off('data', onData);
  if (!signal.aborted) return;
  input.pause().setRawMode(false);
  throw signal.reason;
}

/** A raw terminal makes no signal of Ctrl+C itself. */
function interrupt(): void {
  process.kill(process.pid, 'SIGINT');
}

/** A letter with Enter behind it, as people are used to answer, and as scripts send it in one piece, is that letter. */
function keyOf(data: string): string {
  return data.toLowerCase().replace(/^([^\r\n])[\r\n]+$/, '$1');
}

async function readHidden(
  input: ReadStream,
  { ask, prompt }: { readonly ask: () => void; readonly prompt: string },
  signal: AbortSignal,
): Promise<string | null> {
  const nowhere = new Writable({ write: (_chunk, _encoding, written) => written() });
  // Before the question stands there, the terminal has ceased to show what is typed.
  const askAll = () => {
    ask();
    process.stderr.write(prompt);
  };
  try {
    return await readLine(input, { ask: askAll, prompt: '', output: nowhere, begun: '' }, signal);
  } finally {
    process.stderr.write('\n');
  }
}

interface LineWish {
  readonly ask: () => void;
  readonly prompt: string;
  readonly output: Writable;
  readonly begun: string;
}

async function readLine(
  input: ReadStream,
  { ask, prompt, output, begun }: LineWish,
  signal: AbortSignal,
): Promise<string | null> {
  await throwAwayTyped(input, signal);
  const { promise, resolve, reject } = Promise.withResolvers<string | null>();
  const lines = createInterface({ input, output, terminal: true, prompt, historySize: 0 });
  const onAbort = () => {
    // What is said next stands on a line of its own.
    output.write('\n');
    reject(signal.reason);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  const endPasting = collectLines(input, lines, resolve);
  lines.once('close', () => resolve(null));
  lines.on('SIGINT', () => {
    // It may end the process at once.
    endPasting();
    interrupt();
  });
  ask();
  lines.prompt();
  if (begun) lines.write(begun);
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    endPasting();
    lines.close();
  }
}

/**
 * The terminal is asked to say where a paste begins and ends, so that only Enter itself ends the answer. What still comes
 * in one piece with several lines, from a terminal that does not say so, is one answer, too.
 * @returns What takes back the asking.
 */
function collectLines(input: ReadStream, lines: Interface, done: (text: string) => void): () => void {
  const collected: string[] = [];
  let pasting = false;
  const onKey = (_text: string | undefined, { name }: Key) => {
    if (name === 'paste-start' || name === 'paste-end') pasting = name === 'paste-start';
  };
  const finish = () => {
    // A last line without its end waits for Enter, and can still be changed.
    if (!pasting && lines.line === '') done(collected.join('\n').replace(/\n+$/, ''));
  };
  lines.on('line', (line) => {
    collected.push(line);
    if (!pasting) process.nextTick(finish);
  });
  input.on('keypress', onKey);
  const end = () => {
    input.off('keypress', onKey);
    process.off('exit', end);
    process.stderr.write(pastesUnmarked);
  };
  process.once('exit', end);
  process.stderr.write(pastesMarked);
  return end;
}

/** Bracketed paste: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Bracketed-Paste-Mode */
const pastesMarked = '\x1b[?2004h';
const pastesUnmarked = '\x1b[?2004l';
