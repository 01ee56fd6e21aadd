/** Reads a stream on across dropped connections: what a run and a workspace have in common. */
import type { EventSourceMessage } from 'eventsource-parser';
import type { Answer, ServiceClient } from './client.ts';
import { type BrokenStreamError, ConnectionError, ServiceError, unexpectedForm } from './errors.ts';
import { readServerSentEvents } from './event-source.ts';
import type { StreamError } from './generated/api.ts';
import { backOffMs, isPassing } from './retries.ts';
import { sleep } from './timers.ts';

export interface StreamOptions {
  /** Closes the connection; a run goes on unless it is interrupted. */
  readonly signal?: AbortSignal;
  /** How many connections in a row may bring nothing new before the stream is given up. 8 if absent. */
  readonly reconnectLimit?: number;
  /** A connection without any byte for so long counts as lost; the server sends a comment every 15 s. 60 s if absent. */
  readonly idleTimeoutMs?: number;
  /** Told when a connection is lost that is going to be continued, and when something comes through the next one. */
  readonly onConnection?: (change: 'lost' | 'restored') => void;
}

export type Connection = ReadableStream<Uint8Array>;

/** How far a stream has been read, and how it is read on. */
export interface Reading<Event> {
  readonly client: ServiceClient;
  readonly follow: boolean;
  readonly options: StreamOptions;
  /** Changes with each event that was delivered. */
  cursor: number | null;
  /** Whether the last event of all was delivered. */
  ended: boolean;
  /** How long the last connection lived, from its opening to its last byte. */
  livedMs: number;
  /** Continues behind the cursor; null where nothing can be continued. */
  readonly connect: (() => Promise<Connection>) | null;
  /** The event to deliver, with the cursor moved; null for one to pass over. */
  next(message: EventSourceMessage): Event | null;
  /** Whether nothing comes any more, where a connection has ended without anything new. */
  isReadToItsEnd(): Promise<boolean>;
  broken(what: string, cause?: unknown): BrokenStreamError;
}

const defaultIdleTimeoutMs = 60_000;

/** What a server ends a connection with, and not what is read: it stops, or its database is away for a while. */
const passingEnd = /^(draining|database_unavailable):/;

/** Every event once, until the last one or until the stream is given up. */
export async function* readOn<Event>(
  reading: Reading<Event>,
  first: Connection,
): AsyncGenerator<Event, void, undefined> {
  const { client, options, connect } = reading;
  const { reconnectLimit = 8, idleTimeoutMs = defaultIdleTimeoutMs } = options;
  const changes = createChanges(options);
  let open = async (): Promise<Connection> => first;
  for (let fruitless = 0; ; fruitless += 1) {
    const { cursor } = reading;
    reading.livedMs = 0;
    const failure = yield* readOnce(reading, open, () => changes.tell('restored'));
    if (failure === null) return;
    // A connection that lived long was no failure: proxies cut what is long, and people think long.
    const lived = reading.livedMs > Math.min(idleTimeoutMs, defaultIdleTimeoutMs) / 2;
    if (reading.cursor !== cursor || lived) fruitless = 0;
    if (connect === null || fruitless >= reconnectLimit) throw lost(reading, failure.cause);
    const askedMs = waitAskedMs(failure.cause);
    if (askedMs > client.retries.maxDelayMs) throw lost(reading, failure.cause);
    changes.tell('lost');
    await sleep(askedMs + backOffMs(fruitless, client.retries), options.signal);
    open = connect;
  }
}

/** Tells what has become of the connection, and not once more what was told last: many attempts may fail in a row. */
function createChanges({ onConnection }: StreamOptions) {
  let told: 'lost' | 'restored' = 'restored';
  return {
    tell(change: typeof told) {
      if (change !== told) onConnection?.(change);
      told = change;
    },
  };
}

/** What a server that refused to go on asks for by `Retry-After`. */
function waitAskedMs(cause: unknown): number {
  return cause instanceof ServiceError ? (cause.retryAfterSeconds ?? 0) * 1000 : 0;
}

/** Reads one connection. Gives null when the reading is over, else what ended it too early. */
async function* readOnce<Event>(
  reading: Reading<Event>,
  open: () => Promise<Connection>,
  onLife: () => void,
): AsyncGenerator<Event, { readonly cause: unknown } | null, undefined> {
  const { cursor, follow } = reading;
  try {
    yield* readConnection(reading, await goingOn(reading, open), onLife);
    if (reading.ended || !follow) return null;
    const isOver = reading.cursor === cursor && (await goingOn(reading, reading.isReadToItsEnd));
    return isOver ? null : { cause: undefined };
  } catch (cause) {
    if (!passes(cause)) throw cause;
    return { cause };
  }
}

/** What fails here for good ends the stream, and says like any other end where it can be read on. */
async function goingOn<Result>(
  { options, broken }: Pick<Reading<unknown>, 'options' | 'broken'>,
  step: () => Promise<Result>,
): Promise<Result> {
  try {
    return await step();
  } catch (cause) {
    options.signal?.throwIfAborted();
    if (passes(cause)) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw broken(`The stream could not be continued (${why}).`, cause);
  }
}

async function* readConnection<Event>(
  reading: Reading<Event>,
  connection: Connection,
  onLife: () => void,
): AsyncGenerator<Event, void, undefined> {
  const { idleTimeoutMs = defaultIdleTimeoutMs, signal } = reading.options;
  const openedAt = performance.now();
  const heard = () => {
    reading.livedMs = performance.now() - openedAt;
    onLife();
  };
  for await (const message of readServerSentEvents(connection, { idleTimeoutMs, signal, heard })) {
    const event = reading.next(message);
    if (event === null) continue;
    yield event;
    if (reading.ended) return;
  }
}

/** The stream of an answer that is one, in the version that this client reads. */
export async function opened(
  call: string,
  { data, response }: Answer<Connection | null | undefined>,
): Promise<Connection> {
  const type = response.headers.get('Content-Type') ?? '';
  const version = response.headers.get('X-SSE-Version') ?? '1';
  // Without a body it has been lost already, which is found out where it is read.
  if (/^text\/event-stream\s*(;|$)/i.test(type) && version === '1') return data ?? new Blob([]).stream();
  await data?.cancel().catch(() => undefined);
  if (version === '1') throw unexpectedForm(call, response, 'a stream');
  throw new Error(
    `The server streams in version ${version}; this client reads version 1. Update the client.`,
  );
}

/** The number of an event; null for one that is not stored, and so never comes again. */
export function numberOf({ id }: EventSourceMessage, { broken }: Pick<Reading<unknown>, 'broken'>) {
  if (id === undefined) return null;
  if (!/^\d{1,15}$/.test(id)) throw broken(`An event has the id "${id}", which is no number.`);
  return Number(id);
}

/** The data of an event, which is an object in each. */
export function parse({ data }: EventSourceMessage, { broken }: Pick<Reading<unknown>, 'broken'>): object {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw broken('An event is not JSON.', cause);
  }
  if (typeof value !== 'object' || value === null) throw broken('The data of an event is no object.');
  return value;
}

/**
 * The data of an `error` that is not stored: the last event of all, but where the server means this connection alone and
 * another one can go on. That is thrown, as a connection that was lost is.
 */
export function failureOf(reading: Reading<unknown>, message: EventSourceMessage): StreamError {
  const failure = parse(message, reading) as StreamError; // as the contract says
  if (reading.follow && reading.connect !== null && passingEnd.test(failure.error))
    throw new ConnectionError(failure.error);
  reading.ended = true;
  return failure;
}

/** As the calls of the client take it. */
export function signalOf({ signal }: StreamOptions): { signal?: AbortSignal } {
  return signal ? { signal } : {};
}

/**
 * Whether a failure is of the kind that the next attempt may not meet. There is more to lose here than one call, so that
 * faults count among them too, and what a proxy says (520 to 524) where it does not reach the server.
 */
function passes(error: unknown): boolean {
  if (!(error instanceof ServiceError)) return error instanceof ConnectionError;
  const { status } = error;
  return isPassing(status) || status === 500 || (status >= 520 && status <= 524);
}

function lost({ connect, broken }: Pick<Reading<unknown>, 'connect' | 'broken'>, cause: unknown) {
  const why = connect === null ? 'and the server named no run to continue' : 'and could not be continued';
  return broken(`The stream was lost, ${why}.`, cause);
}
