/** A workspace as it lives: what all its runs tell, and what becomes of its sessions and plans. */
import type { EventSourceMessage } from 'eventsource-parser';
import type { ServiceClient } from './client.ts';
import { BrokenStreamError } from './errors.ts';
import type { StreamError, StreamOpened, WorkspaceEvent } from './generated/api.ts';
import { leavable } from './leavable.ts';
import {
  failureOf,
  numberOf,
  opened,
  parse,
  type Reading,
  readOn,
  type StreamOptions,
  signalOf,
} from './resuming.ts';

/**
 * One event; `id` is its number within the workspace. `opened` comes first on a stream that begins now, with the number
 * to go on after. `workspace` is something that happened; newer servers may send types that this client does not list.
 * `error` is the last event of a stream that could not go on: the credential was revoked, say.
 */
export type StreamedEvent =
  | { readonly id: number; readonly event: 'opened'; readonly data: StreamOpened }
  | { readonly id: number; readonly event: 'workspace'; readonly data: WorkspaceEvent }
  | { readonly id: null; readonly event: 'error'; readonly data: StreamError };

export interface WorkspaceEventsOptions extends StreamOptions {
  /** The workspace; the caller's default one if absent. */
  readonly workspaceId?: string;
  /** Only events of this session. */
  readonly sessionId?: string;
  /** Only events of these types, as `permission_requested` or `run_ended`. */
  readonly types?: readonly string[];
  /** The number of the last event already seen; now if absent, or with `follow: false` from the oldest that is kept. */
  readonly after?: number | null;
  /** False replays what is stored and ends. */
  readonly follow?: boolean;
}

/**
 * Follows a workspace until the loop is left, the signal aborts, or an `error` says that it cannot go on. A connection
 * that drops, or that the server ends because it stops or has lost its database, is continued behind the last event; if
 * that fails, `BrokenStreamError` has `lastEventId` to go on with. Numbers have gaps: what does not fit is left out.
 */
export function streamEvents(
  client: ServiceClient,
  options: WorkspaceEventsOptions = {},
): AsyncGenerator<StreamedEvent, void, undefined> {
  return leavable(options.signal, (signal) => readEvents(client, { ...options, signal }));
}

async function* readEvents(
  client: ServiceClient,
  { after, follow = true, workspaceId, sessionId, types, ...options }: WorkspaceEventsOptions,
): AsyncGenerator<StreamedEvent, void, undefined> {
  const query = {
    follow,
    ...(workspaceId !== undefined && { workspace_id: workspaceId }),
    ...(sessionId !== undefined && { session_id: sessionId }),
    ...(types && types.length > 0 && { types: types.join(',') }),
  };
  const connect = async () => {
    const header = reading.cursor === null ? {} : { header: { 'Last-Event-ID': String(reading.cursor) } };
    const given = { params: { query, ...header }, parseAs: 'stream', ...signalOf(options) } as const;
    return await opened('GET /api/v1/events', await client.GET('/api/v1/events', given));
  };
  const reading: Reading<StreamedEvent> = {
    ...{ client, follow, options, connect },
    cursor: after ?? null,
    ended: false,
    livedMs: 0,
    next: (message) => nextEvent(reading, message),
    // It has no end of its own.
    isReadToItsEnd: async () => false,
    broken: (what, cause) => broken(what, reading.cursor, cause),
  };
  yield* readOn(reading, await connect());
}

/** The event to deliver; null for one that was delivered before or that this client does not know. */
function nextEvent(reading: Reading<StreamedEvent>, message: EventSourceMessage): StreamedEvent | null {
  const { event: name } = message;
  const id = numberOf(message, reading);
  if (id !== null && reading.cursor !== null && id <= reading.cursor) return null;
  if (name === 'error') return { id: null, event: 'error', data: failureOf(reading, message) };
  if (id === null) return null;
  const isKnown = name === 'opened' || name === 'workspace';
  // The contract says which data belongs to which name.
  const event = isKnown ? ({ id, event: name, data: parse(message, reading) } as StreamedEvent) : null;
  // Of any name: `passed` is there for its number alone. Only now: what could not be read is not behind us.
  reading.cursor = id;
  return event;
}

function broken(what: string, cursor: number | null, cause?: unknown): BrokenStreamError {
  const where = cursor === null ? '' : ` The workspace was read up to event ${cursor}.`;
  return new BrokenStreamError(`${what}${where}`, null, cursor, cause);
}
