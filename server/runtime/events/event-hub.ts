/** Wakes whoever waits for news of a run: its next event, an answer, an interrupt. */
import type { NumberedEvent } from '../transcript.ts';
import { createRecentEvents } from './recent-events.ts';

/** How long to trust silence before looking at the store, where another process may have written. */
const pollMs = 500;
/** Of a run at work here nobody else writes the events: each is told. */
const pollHereMs = 10_000;

export interface EventHub {
  /** Tells that something about the run has changed. */
  notify(runId: string): void;
  /** Tells of events that this process has just stored. */
  stored(runId: string, events: readonly NumberedEvent[]): void;
  /** What this process has stored behind that number lately; null where the store has to be asked. */
  recent(runId: string, after: number): readonly NumberedEvent[] | null;
  /** The run is at work here, until it is forgotten. */
  begin(runId: string): void;
  /** How long a reader of the run's events may trust silence. */
  silenceMs(runId: string): number;
  /** The run is not at work here any more. */
  forget(runId: string): void;
  /** Takes a ticket before looking at the store: `wait` then returns at once if anything happened since. */
  ticket(runId: string): Ticket;
  /** How many tickets are out. */
  waiting(): number;
}

export interface Ticket {
  /** Resolves when the run was notified, when it is time to look at the store again, or when the signal aborts. */
  wait(signal: AbortSignal, silenceMs?: number): Promise<void>;
  /** Gives the ticket back, waited on or not: an ended run is never notified again, and would be remembered for ever. */
  drop(): void;
}

export function createEventHub(): EventHub {
  const waiters = new Map<string, Set<() => void>>();
  const recent = createRecentEvents();
  const here = new Set<string>();
  const notify = (runId: string): void => {
    const waiting = waiters.get(runId);
    waiters.delete(runId);
    for (const wake of waiting ?? []) wake();
  };
  return {
    notify,
    stored(runId, events) {
      recent.add(runId, events);
      notify(runId);
    },
    recent: recent.after,
    begin: (runId) => void here.add(runId),
    silenceMs: (runId) => (here.has(runId) ? pollHereMs : pollMs),
    forget(runId) {
      here.delete(runId);
      recent.forget(runId);
    },
    ticket(runId) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const waiting = waiters.get(runId) ?? new Set();
      waiters.set(runId, waiting.add(resolve));
      return {
        wait: (signal, silenceMs = pollMs) => waitFor(promise, signal, silenceMs),
        drop: () => forget(waiters, runId, resolve),
      };
    },
    waiting: () => [...waiters.values()].reduce((sum, { size }) => sum + size, 0),
  };
}

function forget(waiters: Map<string, Set<() => void>>, runId: string, wake: () => void): void {
  const waiting = waiters.get(runId);
  waiting?.delete(wake);
  if (waiting?.size === 0) waiters.delete(runId);
}

async function waitFor(news: Promise<void>, signal: AbortSignal, silenceMs: number): Promise<void> {
  const { promise: woken, resolve } = Promise.withResolvers<void>();
  const onAbort = () => resolve();
  const timer = setTimeout(resolve, silenceMs);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) resolve();
  await Promise.race([news, woken]);
  clearTimeout(timer);
  // A run waits on one signal for as long as a person thinks: each listener left there would stay as long.
  signal.removeEventListener('abort', onAbort);
}
