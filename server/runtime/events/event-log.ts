/** Numbers a run's events and stores them before anybody sees them; what arrives during a write goes out with the next. */
import { setImmediate } from 'node:timers/promises';
import type { NumberedEvent, RunEvent, Transcript } from '../transcript.ts';

/** How many events may wait for the store before the model has to. */
const waitingLimit = 256;

export interface EventLog {
  /** Stores an event soon, in order. Resolves at once unless too many wait. */
  push(event: RunEvent): Promise<void>;
  /** Stores events together with something else, in the one transaction that `store` makes; what waits goes along. */
  commit(events: readonly RunEvent[], store: StoreEvents): Promise<void>;
  /** As `commit`, for the last events: the store may number those anew, so that what waits is stored before them. */
  end(events: readonly RunEvent[], store: StoreEvents): Promise<void>;
  /** What is pushed from now on is dropped: the run has ended, or goes on in another log. */
  close(): void;
}

type StoreEvents = (events: readonly NumberedEvent[]) => Promise<void>;

/** `stored` is given what was stored, each time. */
export function createEventLog(
  runId: string,
  transcript: Transcript,
  lastEventId: number,
  stored: (events: readonly NumberedEvent[]) => void,
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

  /** The run may be at work in another log by now, of the same process even. */
  const requireOpen = (): void => {
    if (closed) throw Object.assign(new Error(`The log of ${runId} is closed.`), { name: 'LeaseLost' });
  };

  const write = async (events: readonly RunEvent[], store: StoreEvents): Promise<void> => {
    requireOpen();
    const numbered = events.map((event, index) => ({ ...event, seq: seq + 1 + index }));
    await store(numbered);
    seq += events.length;
    // Whoever follows the run elsewhere by now looks at the store itself.
    if (!closed) stored(numbered);
  };

  const writeWithWaiting = async (events: readonly RunEvent[], store: StoreEvents): Promise<void> => {
    const batch = [...waiting];
    await write([...batch, ...events], store);
    // Only now: a batch that could not be written is tried again with the next.
    waiting.splice(0, batch.length);
  };

  const writeWaiting = async (): Promise<void> => {
    while (waiting.length > 0) await writeWithWaiting([], (events) => transcript.appendEvents(runId, events));
  };

  const schedule = (): Promise<void> => {
    // Not at once: what tells of a change is often followed by the change, which takes it along.
    scheduled ??= setImmediate().then(() => {
      scheduled = null;
      return inTurn(writeWaiting);
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
    commit: (events, store) => inTurn(() => writeWithWaiting(events, store)),
    end: (events, store) =>
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
