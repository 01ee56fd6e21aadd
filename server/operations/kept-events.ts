/** Refuses what only the events of a run could answer, once they are no longer kept. */
import type { Services } from '../handler.ts';
import { Problem } from '../problem.ts';

export type FoundRun = NonNullable<Awaited<ReturnType<Services['store']['runs']['find']>>>;

/** Throws `events_expired` where an event behind the cursor is gone. */
export function requireKept(found: FoundRun, after: number): void {
  if (after < found.firstEventId - 1) throw eventsExpired(found);
}

export function eventsExpired({ run, firstEventId }: FoundRun): Problem {
  return new Problem(
    'events_expired',
    `The events up to ${firstEventId - 1} are no longer kept; read the run and the messages of session ${run.session_id} instead.`,
  );
}
