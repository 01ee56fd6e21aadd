/** Numbers a run's events and stores them before anybody sees them; what arrives during a write goes out with the next. */
import type { NumberedEvent, RunEvent, Transcript } from './transcript.ts';

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
}

/** `stored` is told the newest number each time something was stored. */
export function createEventLog(
  runId: string,
  transcript: Transcript,
  lastEventId: number,
  stored: (seq: number) => void,
): EventLog {
  let seq = lastEventId;
  const waiting: NumberedEvent[] = [];
  let writing: Promise<void> | null = null;

  const number = (event: RunEvent): NumberedEvent => {
    seq += 1;
    return { ...event, seq };
  };

  const writeWaiting = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = [...waiting];
      await transcript.appendEvents(runId, batch);
      // Only now: a batch that could not be written is tried again with the next.
      waiting.splice(0, batch.length);
      stored(batch.at(-1)?.seq ?? seq);
    }
  };

  const flush = (): Promise<void> => {
    writing ??= writeWaiting().finally(() => {
      writing = null;
    });
    return writing;
  };

  return {
    async push(event) {
      waiting.push(number(event));
      const written = flush();
      if (waiting.length >= waitingLimit) await written;
      // What could not be written is tried again by the next commit, which fails the run if need be.
      else written.catch(() => undefined);
    },
    async commit(events, store) {
      await flush();
      const numbered = events.map(number);
      await store(numbered);
      stored(seq);
    },
  };
}
