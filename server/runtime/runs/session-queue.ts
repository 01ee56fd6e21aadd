/** One run at a time in a session, in the order in which they were queued, whichever processes hold them. */
import type { EventHub } from '../events/event-hub.ts';

/** A run with its place in its session. */
export interface QueuedRun {
  readonly sessionId: string;
  readonly runNumber: number;
  /** Where the store has said that no earlier one is left. */
  readonly isNext?: boolean;
  readonly signal: AbortSignal;
}

export interface SessionQueue {
  /**
   * Runs the work when every earlier run of the session has ended, however it ended. Once the signal aborts, the work is
   * only to say so, and does not wait for that; what comes behind it still does.
   */
  enter(run: QueuedRun, work: () => Promise<void>): Promise<void>;
  /** How many runs wait here, and how many of them in the session where most do. */
  waiting(): { readonly inAll: number; readonly inOneSession: number };
}

/**
 * `hasEarlier` asks the store, for those in other processes. Of the runs that wait here only the first of its session
 * asks: an end in this process wakes it at once, one elsewhere when it looks again.
 */
export function createSessionQueue(
  hub: EventHub,
  hasEarlier: (run: QueuedRun) => Promise<boolean>,
): SessionQueue {
  const here = new Map<string, Set<QueuedRun>>();
  const waiting = new Set<QueuedRun>();

  const isNext = async (run: QueuedRun): Promise<boolean> => {
    for (const other of here.get(run.sessionId) ?? []) if (other.runNumber < run.runNumber) return false;
    return run.isNext === true || !(await hasEarlier(run));
  };

  const wait = async (run: QueuedRun): Promise<void> => {
    while (!run.signal.aborted) {
      const ticket = hub.ticket(run.sessionId);
      try {
        if (await isNext(run)) return;
        await ticket.wait(run.signal);
      } finally {
        ticket.drop();
      }
    }
  };

  return {
    async enter(run, work) {
      here.set(run.sessionId, (here.get(run.sessionId) ?? new Set()).add(run));
      waiting.add(run);
      try {
        await wait(run).finally(() => waiting.delete(run));
        await work();
      } finally {
        leave(here, run);
        hub.notify(run.sessionId);
      }
    },
    waiting() {
      const bySession = Map.groupBy(waiting, ({ sessionId }) => sessionId);
      const lengths = [...bySession.values()].map(({ length }) => length);
      return { inAll: waiting.size, inOneSession: Math.max(0, ...lengths) };
    },
  };
}

function leave(here: Map<string, Set<QueuedRun>>, run: QueuedRun): void {
  const others = here.get(run.sessionId);
  others?.delete(run);
  if (others?.size === 0) here.delete(run.sessionId);
}
