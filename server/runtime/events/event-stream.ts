/** Reads a run's events from the store and goes on as they come, in whichever process the run is at work. */
import type { NumberedEvent, Transcript } from '../transcript.ts';
import type { EventHub } from './event-hub.ts';

/** How many events are read at once; fewer where they are long. A slow reader holds no more than these. */
const batchSize = 32;

/** After so many looks that found nothing, somebody asks whether anything may still come. */
const trustedSilences = 10;

export interface FollowOptions {
  /** The number of the last event already seen; 0 for none. */
  readonly after: number;
  /** False replays what is stored and ends. */
  readonly follow: boolean;
  readonly signal: AbortSignal;
}

type FollowedTranscript = Pick<Transcript, 'readEvents' | 'readOutcome'>;

/**
 * Every event after the cursor, once and in order, up to `done` or `error`. Of a run that is deleted meanwhile, or whose
 * events are no longer kept, no event tells the end: an `error` that is stored nowhere does.
 */
export async function* followEvents(
  runId: string,
  { after, follow, signal }: FollowOptions,
  transcript: FollowedTranscript,
  hub: EventHub,
): AsyncGenerator<NumberedEvent> {
  let cursor = after;
  let silences = 0;
  while (!signal.aborted) {
    const ticket = hub.ticket(runId);
    try {
      const recent = follow ? hub.recent(runId, cursor) : null;
      const events = recent ?? (await transcript.readEvents(runId, cursor, batchSize));
      for (const event of events) {
        yield event;
        cursor = event.seq;
        if (event.name === 'done' || event.name === 'error') return;
      }
      silences = events.length > 0 ? 0 : silences + 1;
      // Few may be given where they are long: only none means that there are none. Of what is recent all was given, and
      // whatever came meanwhile has woken the ticket.
      if (!recent && events.length > 0) continue;
      if (!follow) return;
      if (silences === trustedSilences) {
        silences = 0;
        const error = await whySilent(runId, cursor, transcript);
        if (error !== null) {
          yield { seq: cursor + 1, name: 'error', data: { error } };
          return;
        }
      }
      await ticket.wait(signal, hub.silenceMs(runId));
    } finally {
      ticket.drop();
    }
  }
}

/** Why nothing will come any more; null where something may. */
async function whySilent(
  runId: string,
  cursor: number,
  transcript: FollowedTranscript,
): Promise<string | null> {
  const outcome = await transcript.readOutcome(runId);
  if (outcome === null) return null;
  if (outcome === 'deleted') return 'not_found: The run was deleted.';
  // Its last event was stored with its end: it may have come since the last look, and is there by now if it is kept.
  const [left] = await transcript.readEvents(runId, cursor, 1);
  return left ? null : 'events_expired: The run has ended, and its events are no longer kept.';
}
