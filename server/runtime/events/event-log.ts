/** Numbers a run's events and stores them before anybody sees them; what arrives during a write goes out with the next. */
import type { NumberedEvent, RunEvent, Transcript } from '../transcript.ts';

/** How many events may wait for the store before the model has to. */
const waitingLimit = 256;

export interface EventLog {
  /** Stores an event soon, in order. Resolves at once unless too many wait. */
  push(event: RunEvent): Promise<void>;
  /** Stores events together with something else, in the one transaction that `store` makes. */
  commit(
    events: readonly RunEvent[],
    store: (events: readonly NumberedEvent[]) => Promise<void>,
  ): Promise<void>;
  /** What is pushed from now on is dropped: the run has ended, or goes on in another log. */
  close(): void;
}

/** `stored` is told the newest number each time something was stored. */
export function createEventLog(
  runId: string,
  transcript: Transcript,
  lastEventId: number,
  stored: (seq: number) => void,
): EventLog {
  let seq = lastEventId;
  const waiting: RunEvent[] = [];
  let closed = false;
  let scheduled: Promise<void> | null = null;
  let last: Promise<void> = Promise.resolve();

  /** One write after the other: a number is given when it is written, so that a failed write leaves no gap. */
  const inTurn = (write: () => Promise<void>): Promise<void> => {
    const written = last.then(write);
    last = written.catch(() => undefined);
    return written;
  };

  const write = async (
    events: readonly RunEvent[],
    store: (events: readonly NumberedEvent[]) => Promise<void>,
  ): Promise<void> => {
    await store(events.map((event, index) => ({ ...event, seq: seq + 1 + index })));
    seq += events.length;
    stored(seq);
  };

  const writeWaiting = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = [...waiting];
      await write(batch, (events) => transcript.appendEvents(runId, events));
      // Only now: a batch that could not be written is tried again with the next.
      waiting.splice(0, batch.length);
    }
  };

  const schedule = (): Promise<void> => {
    scheduled ??= inTurn(() => {
      scheduled = null;
      return writeWaiting();
    });
    return scheduled;
  };

  return {
    async push(event) {
      if (closed) return;
      waiting.push(event);
      const written = schedule();
      if (waiting.length >= waitingLimit) await written;
      // What could not be written is tried again by the next commit, which fails the run if need be.
      else written.catch(() => undefined);
    },
    commit: (events, store) =>
      inTurn(async () => {
        await writeWaiting();
        await write(events, store);
      }),
    close() {
      closed = true;
      waiting.length = 0;
    },
  };
}
