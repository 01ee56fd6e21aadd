/** Lines as answers: typed and changed on the terminal, or pasted, several of them as one. */
import { createInterface, type Interface, type Key } from 'node:readline';
import { Writable } from 'node:stream';
import type { ReadStream } from 'node:tty';
import { isDumb } from './output.ts';
import { interrupt, suspendable, throwAwayTyped } from './typed-before.ts';

interface LineWish {
  readonly ask: () => void;
  readonly prompt: string;
  readonly output: Writable;
  readonly begun: string;
}

/** Waits for a line; null where the input was ended instead. */
export async function readLine(
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
  const pastes = collectLines(input, lines, resolve);
  const ending = endOf(input, lines, () => resolve(pastes.text()));
  lines.on('SIGINT', () => {
    // It may end the process at once.
    pastes.end();
    interrupt();
  });
  const suspension = suspendable(input, () => {
    // A terminal that goes continues the process, too.
    if (ending.isOver()) return;
    pastes.mark();
    ask();
    lines.prompt(true);
  });
  // Were it left to readline, it would read nothing any more when it is continued.
  lines.on('SIGTSTP', () => {
    pastes.unmark();
    suspension.suspend();
  });
  ask();
  lines.prompt();
  if (begun) lines.write(begun);
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    suspension.end();
    pastes.end();
    ending.forget();
    lines.close();
  }
}

/** A line that the terminal itself lets be changed, and shows: for terminals that obey nothing, as an editor's shell window. */
export async function readPlainLine(
  input: ReadStream,
  { ask, prompt }: Pick<LineWish, 'ask' | 'prompt'>,
  signal: AbortSignal,
): Promise<string | null> {
  await throwAwayTyped(input, signal);
  input.setRawMode(false);
  const { promise, resolve, reject } = Promise.withResolvers<string | null>();
  const lines = createInterface({ input, output: process.stderr, terminal: false, prompt });
  const onAbort = () => {
    process.stderr.write('\n');
    reject(signal.reason);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  lines.once('line', resolve);
  const ending = endOf(input, lines, () => resolve(null));
  ask();
  lines.prompt();
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    ending.forget();
    lines.close();
  }
}

/** The same as `readLine`, of which nothing is shown. */
export async function readHidden(
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
    const line = await readLine(input, { ask: askAll, prompt: '', output: nowhere, begun: '' }, signal);
    return line !== null && isDumb() ? withoutErased(line) : line;
  } finally {
    process.stderr.write('\n');
  }
}

/** On a dumb terminal readline takes the keys that erase for letters. */
function withoutErased(line: string): string {
  let left: string[] = [];
  for (const letter of line)
    if (letter === '\x15') left = [];
    else if (letter === '\x7f' || letter === '\b') left.pop();
    else left.push(letter);
  return left.join('');
}

/**
 * The signal that the terminal is gone comes at about the same time as the end of what is typed there; on a busy machine
 * later, since the shell above has to end first. Where each key is read, Ctrl+D is one, and no end: longer can be waited.
 */
const signalMs = { ofKeys: 5000, ofLines: 200 };

/** Where the person ends the input. A terminal that is gone looks the same, or is an error, and is no answer: what its signal says goes before. */
function endOf(input: ReadStream, lines: Interface, act: () => void) {
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  const ms = lines.terminal ? signalMs.ofKeys : signalMs.ofLines;
  const wait = () => {
    timer ??= setTimeout(act, ms);
  };
  lines.on('error', wait);
  lines.once('close', () => {
    over = true;
    if (input.readableEnded) wait();
    else act();
  });
  return { isOver: () => over, forget: () => clearTimeout(timer) };
}

/**
 * The terminal is asked to say where a paste begins and ends, so that only Enter itself ends the answer. What still comes
 * in one piece with several lines, from a terminal that does not say so, is one answer, too.
 */
function collectLines(input: ReadStream, lines: Interface, done: (text: string) => void) {
  const collected: string[] = [];
  let pasting = false;
  const onKey = (_text: string | undefined, { name }: Key) => {
    if (name === 'paste-start' || name === 'paste-end') pasting = name === 'paste-start';
  };
  const text = () => collected.join('\n').replace(/\n+$/, '');
  const finish = () => {
    // A last line without its end waits for Enter, and can still be changed.
    if (!pasting && lines.line === '') done(text());
  };
  lines.on('line', (line) => {
    collected.push(line);
    if (!pasting) process.nextTick(finish);
  });
  input.on('keypress', onKey);
  const tell = (sequence: string) => isDumb() || process.stderr.write(sequence);
  const mark = () => tell(pastesMarked);
  const unmark = () => tell(pastesUnmarked);
  const end = () => {
    input.off('keypress', onKey);
    process.off('exit', end);
    unmark();
  };
  process.once('exit', end);
  mark();
  // Ctrl+D behind lines that were pasted ends them.
  return { mark, unmark, end, text: () => text() || null };
}

/** Bracketed paste: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Bracketed-Paste-Mode */
const pastesMarked = '\x1b[?2004h';
const pastesUnmarked = '\x1b[?2004l';
