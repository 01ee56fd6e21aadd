/** What is typed where nothing is asked: thrown away until the person has stopped, and what the terminal leaves to us when it is raw. */
import type { ReadStream } from 'node:tty';

/** How long the terminal may take to hand over what was typed before. */
const staleMs = 80;
/** Between the letters of a word most people pause for less. */
export const quietMs = 500;

let lastKeyAt = Number.NEGATIVE_INFINITY;

/** A key was typed where keys are asked for: what follows at once belongs to it, and is no answer to the next question. */
export function noteKey(): void {
  lastKeyAt = performance.now();
}

/** Afterwards the terminal is raw: it hands over every key at once, and shows none by itself. */
export async function throwAwayTyped(input: ReadStream, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const quiet = createQuiet();
  const onData = (data: Buffer | string) => {
    if (data.toString().includes('\x03')) interrupt();
    // Whoever is at typing goes on, and has not read the question.
    quiet.await(resolve, quietMs);
  };
  const onAbort = () => resolve();
  signal.addEventListener('abort', onAbort, { once: true });
  input.setRawMode(true).on('data', onData).resume();
  quiet.await(resolve, Math.max(staleMs, lastKeyAt + quietMs - performance.now()));
  if (signal.aborted) resolve();
  await promise;
  quiet.end();
  input.off('data', onData);
  signal.removeEventListener('abort', onAbort);
  if (!signal.aborted) return;
  input.pause().setRawMode(false);
  throw signal.reason;
}

/** Calls back once nothing was typed for so long; what is awaited later takes the place of what was before. */
export function createQuiet() {
  let timer: NodeJS.Timeout | undefined;
  let round: NodeJS.Immediate | undefined;
  const end = () => {
    clearTimeout(timer);
    clearImmediate(round);
  };
  return {
    await(act: () => void, ms: number) {
      end();
      timer = setTimeout(() => {
        // On a busy machine it may be there and not yet read: a round later it is.
        round = setImmediate(act);
      }, ms);
    },
    end,
  };
}

/** A raw terminal makes no signal of Ctrl+C itself. */
export function interrupt(): void {
  process.kill(process.pid, 'SIGINT');
}

/** Where nobody could continue the process, the system does not stop it, and says nothing of that. */
const notStoppedMs = 100;

/**
 * Ctrl+Z while something is asked, which a raw terminal makes no signal of either, and being continued, by `fg`.
 * @param restore - Puts the question again, on a terminal that is raw again.
 */
export function suspendable(input: ReadStream, restore: () => void) {
  const unstopped = createQuiet();
  const onContinue = () => {
    unstopped.end();
    // The shell has made it what it was before. It is made raw only where it is not known to be.
    input.setRawMode(false).setRawMode(true);
    restore();
  };
  process.on('SIGCONT', onContinue);
  return {
    suspend() {
      input.setRawMode(false);
      unstopped.await(onContinue, notStoppedMs);
      // All that belongs to the command, as the terminal itself would do it.
      process.kill(0, 'SIGTSTP');
    },
    end() {
      unstopped.end();
      process.off('SIGCONT', onContinue);
    },
  };
}
