/** A run as it happens: typed events, each once and in order, across dropped connections. */
import type { EventSourceMessage } from 'eventsource-parser';
import type { ServiceClient } from './client.ts';
import { BrokenStreamError } from './errors.ts';
import type {
  QueryRequest,
  QueryResponse,
  ResponseChunk,
  RuntimeEvent,
  StreamError,
} from './generated/api.ts';
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

export type { StreamOptions } from './resuming.ts';

/** What the data of each event is. */
interface EventData {
  /** A piece of what the model writes. */
  message: ResponseChunk;
  /** Something that happened besides; newer servers may send types that this client does not list. */
  runtime: RuntimeEvent;
  /** The last event of a run that completed or was interrupted. */
  done: QueryResponse;
  /** The last event of a run that failed, or of a stream that could not go on. */
  error: StreamError;
}

/** One event; `id` is its number within the run, null for an event that is not stored and so never comes again. */
export type RunEvent = {
  [Name in keyof EventData]: {
    readonly id: number | null;
    readonly event: Name;
    readonly data: EventData[Name];
  };
}[keyof EventData];

export interface QueryOptions extends StreamOptions {
  /** Makes it safe to ask again: the same query with the same key gives the stream of the run that it began. */
  readonly idempotencyKey?: string;
}

export interface RunEventsOptions extends StreamOptions {
  /** The number of the last event already seen; 0, from the beginning, if absent. */
  readonly after?: number | null;
  /** False replays what is stored and ends. */
  readonly follow?: boolean;
}

/**
 * Asks an agent and yields what happens until `done` or `error`. When the connection drops, or the server ends it because
 * it stops or has lost its database, the stream is continued from the run's stored events; if that fails, or an event is
 * missing, `BrokenStreamError` says where to go on. The query itself is sent twice only with an `idempotencyKey`, where no
 * answer came to it: without one it might begin a second run.
 */
export function streamQuery(
  client: ServiceClient,
  body: QueryRequest,
  { idempotencyKey: key, ...given }: QueryOptions = {},
): AsyncGenerator<RunEvent, void, undefined> {
  return leavable(given.signal, async function* (signal) {
    const options = { ...given, signal };
    const params = key === undefined ? {} : { header: { 'Idempotency-Key': key } };
    const answer = await client.POST('/api/v1/query/stream', { params, body, parseAs: 'stream', signal });
    const runId = answer.response.headers.get('X-Run-Id');
    const reading = readingOf({ client, runId, follow: true, options, cursor: 0 });
    yield* readOn(reading, await opened('POST /api/v1/query/stream', answer));
  });
}

/** Replays the events of a run and follows it to its end, as `streamQuery` does for a new one. */
export function streamRunEvents(
  client: ServiceClient,
  runId: string,
  { after, follow = true, ...given }: RunEventsOptions = {},
): AsyncGenerator<RunEvent, void, undefined> {
  return leavable(given.signal, async function* (signal) {
    const run = { client, runId, follow, options: { ...given, signal }, cursor: after ?? 0 };
    yield* readOn(readingOf(run), await connect(run, runId));
  });
}

/** A run, and how far it has been read. */
interface ReadRun {
  readonly client: ServiceClient;
  /** Null where the server did not name the run: then nothing can be continued. */
  readonly runId: string | null;
  readonly follow: boolean;
  readonly options: StreamOptions;
  /** The number of the last event delivered. */
  readonly cursor: number;
}

interface RunReading extends Reading<RunEvent> {
  readonly runId: string | null;
  cursor: number;
}

function readingOf(run: ReadRun): RunReading {
  const { runId } = run;
  const reading: RunReading = {
    ...run,
    ended: false,
    livedMs: 0,
    connect: runId === null ? null : () => connect(reading, runId),
    next: (message) => nextEvent(reading, message),
    isReadToItsEnd: () => isReadToItsEnd(reading),
    broken: (what, cause) => broken(reading, what, cause),
  };
  return reading;
}

/** Whether the run has ended with the event that the reading began after: then nothing comes any more. */
async function isReadToItsEnd({ client, runId, cursor, options }: ReadRun): Promise<boolean> {
  if (runId === null) return false;
  const params = { path: { run_id: runId } };
  const { data: run } = await client.GET('/api/v1/runs/{run_id}', { params, ...signalOf(options) });
  return run.ended_at !== null && run.last_event_id <= cursor;
}

async function connect({ client, cursor, follow, options }: ReadRun, runId: string) {
  const params = {
    path: { run_id: runId },
    query: { follow },
    ...(cursor > 0 && { header: { 'Last-Event-ID': String(cursor) } }),
  };
  const url = '/api/v1/runs/{run_id}/events';
  return await opened(
    `GET ${url}`,
    await client.GET(url, { params, parseAs: 'stream', ...signalOf(options) }),
  );
}

/** The event to deliver; null for one that was delivered before or that this client does not know. */
function nextEvent(reading: RunReading, message: EventSourceMessage): RunEvent | null {
  const { event: name = 'message' } = message;
  const id = numberOf(message, reading);
  if (id !== null && id <= reading.cursor) return null;
  if (id !== null && id > reading.cursor + 1)
    throw reading.broken(`Event ${id} came where ${reading.cursor + 1} was due.`);
  if (name === 'error' && id === null) return { id, event: name, data: failureOf(reading, message) };
  // The contract says which data belongs to which name.
  const event = isKnown(name) ? ({ id, event: name, data: parse(message, reading) } as RunEvent) : null;
  // Only now: what could not be read is not behind us.
  if (id !== null) reading.cursor = id;
  if (event === null) return null;
  reading.ended = name === 'done' || name === 'error';
  return event;
}

function isKnown(name: string): name is keyof EventData {
  return name === 'message' || name === 'runtime' || name === 'done' || name === 'error';
}

function broken({ runId, cursor }: ReadRun, what: string, cause?: unknown): BrokenStreamError {
  const where =
    runId === null ? '' : ` Run ${runId} was read up to event ${cursor}; it goes on at the server.`;
  return new BrokenStreamError(`${what}${where}`, runId, cursor, cause);
}
