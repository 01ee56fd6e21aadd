/** Server-sent events: framing, keepalive, back-pressure, disconnect, and the last `error` event. */
import type { ServerResponse } from 'node:http';
import type { ServerEvent, StreamPiece } from '../handler.ts';

/** How a stream is watched over. */
export interface StreamWatch {
  readonly keepaliveMs: number;
  /** How long a reader may take nothing of what was written for it. */
  readonly stallMs: number;
  /** What a reader that stalled is told; null where it can resume. */
  stalled(): ServerEvent | null;
  /** Aborts when the stream has to end early; the reason becomes its last event. */
  readonly end: AbortSignal;
  /** The last event of a stream that could not go on. */
  lastEvent(error: unknown): ServerEvent;
  /** Throws where an event must not be sent. */
  check(piece: StreamPiece): void;
  /** Told why the stream has ended before its time: nobody reads on. */
  cut(reason: unknown): void;
}

/** The headers of every stream. The last one keeps nginx from holding events back. */
export const streamHeaders = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-store, no-transform',
  'X-Accel-Buffering': 'no',
} as const;

/** Nothing may follow these. */
const lastNames = new Set(['done', 'error', 'message_stop']);

/** Sends the events until the last one, a failure, or the caller's leaving. */
export async function sendEvents(
  response: ServerResponse,
  events: AsyncIterable<StreamPiece>,
  watch: StreamWatch,
): Promise<void> {
  response.flushHeaders();
  response.write(': keepalive\n\n');
  // A reader that does not drain gets no comments either: they would pile up.
  const keepalive = setInterval(() => {
    if (!response.writableNeedDrain) response.write(': keepalive\n\n');
  }, watch.keepaliveMs);
  const iterator = events[Symbol.asyncIterator]();
  const patience = endOfPatience(response, watch.stallMs);
  try {
    await relay(response, iterator, watch, AbortSignal.any([watch.end, patience.signal]));
  } catch (error) {
    if (!response.destroyed)
      response.write(patience.signal.aborted ? farewell(watch) : frame(watch.lastEvent(error)));
    watch.cut(error);
  } finally {
    clearInterval(keepalive);
    // Not awaited: a source that hangs in its last step must not hold the answer.
    iterator.return?.().catch(() => undefined);
    response.end();
    if (watch.end.aborted) destroyLater(response, lastWordsMs);
    else if (patience.signal.aborted) destroyLater(response, watch.stallMs);
  }
}

/** One event as it stands on the wire. JSON has no raw line breaks, so that one data line holds it. */
function frame(event: ServerEvent): string {
  const id = event.seq === undefined ? '' : `id: ${event.seq}\n`;
  const name = event.name === undefined || event.name === 'message' ? '' : `event: ${event.name}\n`;
  return `${id}${name}data: ${JSON.stringify(event.data)}\n\n`;
}

async function relay(
  response: ServerResponse,
  iterator: AsyncIterator<StreamPiece>,
  watch: StreamWatch,
  end: AbortSignal,
): Promise<void> {
  const patience = new Patience(response, end);
  try {
    while (!response.destroyed) {
      const next = await patience.wait(iterator.next());
      if (next === null || next.done) return;
      watch.check(next.value);
      const written = 'written' in next.value ? next.value.written : frame(next.value);
      if (!response.write(written)) await patience.wait(drained(response));
      if (isLast(next.value)) return;
    }
  } finally {
    patience.end();
  }
}

function isLast(piece: StreamPiece): boolean {
  if ('written' in piece) return piece.last;
  return piece.name !== undefined && lastNames.has(piece.name);
}

/** Waits for one thing after the other, but not beyond the end of the stream: thousands of pieces share two listeners. */
class Patience {
  readonly #response: ServerResponse;
  readonly #signal: AbortSignal;
  #gone: () => void = () => undefined;
  #ended: (reason: unknown) => void = () => undefined;

  constructor(response: ServerResponse, signal: AbortSignal) {
    this.#response = response;
    this.#signal = signal;
    response.once('close', this.#onClose);
    signal.addEventListener('abort', this.#onEnd);
  }

  /** Null where the caller has gone, a throw where the stream has to end. */
  wait<T>(pending: Promise<T>): Promise<T | null> {
    return new Promise((resolve, reject) => {
      // Also where nobody waits for it: a failure that nobody hears of ends the process.
      pending.then(resolve, reject);
      if (this.#response.destroyed) return resolve(null);
      if (this.#signal.aborted) return reject(this.#signal.reason);
      this.#gone = () => resolve(null);
      this.#ended = reject;
    });
  }

  end(): void {
    this.#response.off('close', this.#onClose);
    this.#signal.removeEventListener('abort', this.#onEnd);
  }

  readonly #onClose = (): void => this.#gone();
  readonly #onEnd = (): void => this.#ended(this.#signal.reason);
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => response.once('drain', resolve));
}

/**
 * Aborts when the reader has taken nothing for so long, of much or of little: the socket's own watch sees each byte that
 * leaves, and tells once; while something waits, no later write begins its time anew. What is written later is read from the store again, so that nobody has to be waited for. Once all is written,
 * the reader is waited for as long as it reads.
 */
function endOfPatience(response: ServerResponse, stallMs: number): AbortController {
  const patience = new AbortController();
  response.setTimeout(stallMs, () => {
    if (response.writableEnded) response.destroy();
    else if (response.writableLength > 0) patience.abort(new Error('The reader has stalled.'));
  });
  return patience;
}

/** The last words to a reader that stalled: it reads them once it reads on. */
function farewell(watch: StreamWatch): string {
  const event = watch.stalled();
  return event ? frame(event) : ': resume\n\n';
}

/** How long a reader may take to hear why its stream had to end. */
const lastWordsMs = 2_000;

/** A reader that takes nothing would hold a stream that has to end, for ever. */
function destroyLater(response: ServerResponse, afterMs: number): void {
  const timer = setTimeout(() => response.destroy(), afterMs);
  response.once('close', () => clearTimeout(timer));
}
