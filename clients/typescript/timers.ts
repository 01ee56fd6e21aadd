/** Waits of any length: a timer by itself can hold 24 days, and fires at once where it is given more. */

/** The 32 bits of setTimeout; what is longer, it takes for one millisecond. */
const longestMs = 2 ** 31 - 1;

/** A wait as setTimeout can hold it. Whoever waits for longer than it holds may as well look again then. */
export function timerMs(milliseconds: number): number {
  return Math.min(milliseconds, longestMs);
}

/** What `work` gives, unless the signal comes before it: `work` does not hear of that, and what it gives then is let go. */
export function settledUnlessAborted<Value>(work: () => Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    work()
      .finally(() => signal.removeEventListener('abort', onAbort))
      .then(resolve, reject);
  });
}

/** Waits, but not longer than the signal lets it. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, timerMs(milliseconds));
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
