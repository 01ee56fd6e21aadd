/** Lines as answers: typed and changed on the terminal, or pasted, several of them as one. */
import { createInterface, type Interface, type Key } from 'node:readline';
import { Writable } from 'node:stream';
import type { ReadStream } from 'node:tty';
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
  lines.once('close', () => resolve(null));
  lines.on('SIGINT', () => {
    // It may end the process at once.
    pastes.end();
    interrupt();
  });
  const suspension = suspendable(input, () => {
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
    lines.close();
  }
}

/** The same, of which nothing is shown. */
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
    return await readLine(input, { ask: askAll, prompt: '', output: nowhere, begun: '' }, signal);
  } finally {
    process.stderr.write('\n');
  }
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
  const finish = () => {
    // A last line without its end waits for Enter, and can still be changed.
    if (!pasting && lines.line === '') done(collected.join('\n').replace(/\n+$/, ''));
  };
  lines.on('line', (line) => {
    collected.push(line);
    if (!pasting) process.nextTick(finish);
  });
  input.on('keypress', onKey);
  const mark = () => process.stderr.write(pastesMarked);
  const unmark = () => process.stderr.write(pastesUnmarked);
  const end = () => {
    input.off('keypress', onKey);
    process.off('exit', end);
    unmark();
  };
  process.once('exit', end);
  mark();
  return { mark, unmark, end };
}

/** Bracketed paste: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Bracketed-Paste-Mode */
const pastesMarked = '\x1b[?2004h';
const pastesUnmarked = '\x1b[?2004l';
