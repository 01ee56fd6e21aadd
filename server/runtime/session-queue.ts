/** One run at a time in a session; the others wait in the order they came. */
export interface SessionQueue {
  /**
   * Runs the work when the session's earlier work has ended, however it ended. Once the signal aborts, the work is only
   * to say so, and does not wait for that; what comes behind it still does.
   */
  turn(sessionId: string, signal: AbortSignal, work: () => Promise<void>): Promise<void>;
}

export function createSessionQueue(): SessionQueue {
  const tails = new Map<string, Promise<unknown>>();
  return {
    async turn(sessionId, signal, work) {
      const before = tails.get(sessionId) ?? Promise.resolve();
      const { promise: done, resolve } = Promise.withResolvers<void>();
      const tail = Promise.all([before, done]).then(() => {
        if (tails.get(sessionId) === tail) tails.delete(sessionId);
      });
      tails.set(sessionId, tail);
      try {
        await Promise.race([before, abortOf(signal)]);
        await work();
      } finally {
        resolve();
      }
    },
  };
}

function abortOf(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
