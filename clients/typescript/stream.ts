/** A run as it happens: typed events, each once and in order, across dropped connections. */
import type { EventSourceMessage } from 'eventsource-parser';
import type { Answer, ServiceClient } from './client.ts';
import { BrokenStreamError, ConnectionError, ServiceError, unexpectedForm } from './errors.ts';
import { readServerSentEvents } from './event-source.ts';
import type {
  QueryRequest,
  QueryResponse,
  ResponseChunk,
  RuntimeEvent,
  StreamError,
} from './generated/api.ts';
import { backOffMs, isPassing, sleep } from './retries.ts';

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

export interface StreamOptions {
  /** Closes the connection; the run goes on unless it is interrupted. */
  readonly signal?: AbortSignal;
  /** How many connections in a row may bring nothing new before the stream is given up. 8 if absent. */
  readonly reconnectLimit?: number;
  /** A connection without any byte for so long counts as lost; the server sends a comment every 15 s. 60 s if absent. */
  readonly idleTimeoutMs?: number;
}

export interface RunEventsOptions extends StreamOptions {
  /** The number of the last event already seen; 0, from the beginning, if absent. */
  readonly after?: number;
  /** False replays what is stored and ends. */
  readonly follow?: boolean;
}

/**
 * Asks an agent and yields what happens until `done` or `error`. When the connection drops, the stream is continued
 * from the run's stored events; if that fails, or an event is missing, `BrokenStreamError` says where to go on. The
 * query itself is never sent twice.
 */
export async function* streamQuery(
  client: ServiceClient,
  body: QueryRequest,
  options: StreamOptions = {},
): AsyncGenerator<RunEvent, void, undefined> {
  const answer = await client.POST('/api/v1/query/stream', { body, parseAs: 'stream', ...signalOf(options) });
  const runId = answer.response.headers.get('X-Run-Id');
  yield* readOn(
    { client, runId, follow: true, options, cursor: 0, ended: false, heardAt: 0 },
    await opened('POST /api/v1/query/stream', answer),
  );
}

/** Replays the events of a run and follows it to its end, as `streamQuery` does for a new one. */
export async function* streamRunEvents(
  client: ServiceClient,
  runId: string,
  { after = 0, follow = true, ...options }: RunEventsOptions = {},
): AsyncGenerator<RunEvent, void, undefined> {
  const reading: Reading = { client, runId, follow, options, cursor: after, ended: false, heardAt: 0 };
  yield* readOn(reading, await connect(reading, runId));
}

/** How far a run has been read. */
interface Reading {
  readonly client: ServiceClient;
  /** Null where the server did not name the run: then nothing can be continued. */
  readonly runId: string | null;
  readonly follow: boolean;
  readonly options: StreamOptions;
  /** The number of the last event delivered. */
  cursor: number;
  /** Whether the last event of all was delivered. */
  ended: boolean;
  /** When the last byte came. */
  heardAt: number;
}
type Connection = ReadableStream<Uint8Array>;

const defaultIdleTimeoutMs = 60_000;

async function* readOn(reading: Reading, first: Connection): AsyncGenerator<RunEvent, void, undefined> {
  const { client, runId, options } = reading;
  const { reconnectLimit = 8, idleTimeoutMs = defaultIdleTimeoutMs } = options;
  let open = async (): Promise<Connection> => first;
  for (let fruitless = 0; ; fruitless += 1) {
    const before = { cursor: reading.cursor, time: performance.now() };
    const failure = yield* readOnce(reading, open);
    if (failure === null) return;
    // A connection that lived long was no failure: proxies cut what is long, and people think long.
    const lived = reading.heardAt - before.time > idleTimeoutMs / 2;
    if (reading.cursor > before.cursor || lived) fruitless = 0;
    if (runId === null || fruitless >= reconnectLimit) throw lost(reading, failure.cause);
    await sleep(backOffMs(fruitless, client.retries), options.signal);
    open = () => connect(reading, runId);
  }
}

/** Reads one connection. Gives null when the reading is over, else what ended it too early. */
async function* readOnce(
  reading: Reading,
  open: () => Promise<Connection>,
): AsyncGenerator<RunEvent, { readonly cause: unknown } | null, undefined> {
  const { cursor, follow } = reading;
  try {
    yield* readConnection(reading, await open());
    if (reading.ended || !follow) return null;
    return reading.cursor === cursor && (await isReadToItsEnd(reading)) ? null : { cause: undefined };
  } catch (cause) {
    if (!passes(cause)) throw cause;
    return { cause };
  }
}

async function* readConnection(
  reading: Reading,
  connection: Connection,
): AsyncGenerator<RunEvent, void, undefined> {
  const { idleTimeoutMs = defaultIdleTimeoutMs, signal } = reading.options;
  const heard = () => {
    reading.heardAt = performance.now();
  };
  for await (const message of readServerSentEvents(connection, { idleTimeoutMs, signal, heard })) {
    const event = nextEvent(reading, message);
    if (event === null) continue;
    reading.ended = event.event === 'done' || event.event === 'error';
    yield event;
    if (reading.ended) return;
  }
}

/** Whether the run has ended with the event that the reading began after: then nothing comes any more. */
async function isReadToItsEnd({ client, runId, cursor, options }: Reading): Promise<boolean> {
  if (runId === null) return false;
  const params = { path: { run_id: runId } };
  const { data: run } = await client.GET('/api/v1/runs/{run_id}', { params, ...signalOf(options) });
  return run.ended_at !== null && run.last_event_id <= cursor;
}

async function connect({ client, cursor, follow, options }: Reading, runId: string): Promise<Connection> {
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

/** The stream of an answer that is one, in the version that this client reads. */
async function opened(call: string, { data, response }: Answer<Connection | null>): Promise<Connection> {
  const type = response.headers.get('Content-Type') ?? '';
  const version = response.headers.get('X-SSE-Version') ?? '1';
  if (data !== null && /^text\/event-stream\s*(;|$)/i.test(type) && version === '1') return data;
  await data?.cancel();
  if (version === '1') throw unexpectedForm(call, response, 'a stream');
  throw new Error(
    `The server streams in version ${version}; this client reads version 1. Update the client.`,
  );
}

/** The event to deliver; null for one that was delivered before or that this client does not know. */
function nextEvent(
  reading: Reading,
  { id, event: name = 'message', data }: EventSourceMessage,
): RunEvent | null {
  const number = id === undefined ? null : Number(id);
  if (number !== null) {
    if (!/^\d{1,15}$/.test(id ?? ''))
      throw broken(reading, `An event has the id "${id}", which is no number.`);
    if (number <= reading.cursor) return null;
    if (number > reading.cursor + 1)
      throw broken(reading, `Event ${number} came where ${reading.cursor + 1} was due.`);
    reading.cursor = number;
  }
  if (!isKnown(name)) return null;
  // The contract says which data belongs to which name.
  return { id: number, event: name, data: parse(reading, data) } as RunEvent;
}

function isKnown(name: string): name is keyof EventData {
  return name === 'message' || name === 'runtime' || name === 'done' || name === 'error';
}

function parse(reading: Reading, data: string): unknown {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw broken(reading, 'An event is not JSON.', cause);
  }
}

/** Whether a failure is of the kind that the next attempt may not meet. */
function passes(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof ServiceError && isPassing(error.status));
}

function lost(reading: Reading, cause: unknown): BrokenStreamError {
  const why =
    reading.runId === null ? 'and the server named no run to continue' : 'and could not be continued';
  return broken(reading, `The stream was lost, ${why}.`, cause);
}

function broken({ runId, cursor }: Reading, what: string, cause?: unknown): BrokenStreamError {
  const where =
    runId === null ? '' : ` Run ${runId} was read up to event ${cursor}; it goes on at the server.`;
  return new BrokenStreamError(`${what}${where}`, runId, cursor, cause);
}

function signalOf({ signal }: StreamOptions): { signal?: AbortSignal } {
  return signal ? { signal } : {};
}
