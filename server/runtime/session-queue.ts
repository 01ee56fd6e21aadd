/** One run at a time in a session; the others wait in the order they came. */
export interface SessionQueue {
  /** Runs the work when the session's earlier work has ended, however it ended. */
  turn(sessionId: string, work: () => Promise<void>): Promise<void>;
}

export function createSessionQueue(): SessionQueue {
  const tails = new Map<string, Promise<void>>();
  return {
    async turn(sessionId, work) {
      const before = tails.get(sessionId) ?? Promise.resolve();
      const { promise: tail, resolve: done } = Promise.withResolvers<void>();
      tails.set(sessionId, tail);
      try {
        await before;
        await work();
      } finally {
        done();
        if (tails.get(sessionId) === tail) tails.delete(sessionId);
      }
    },
  };
}
