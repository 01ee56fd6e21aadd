/** One request by hand: what is passed on as it comes needs little of what the platform's fetch does with each piece. */
import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createUnzip } from 'node:zlib';
import type { Dispatcher } from 'undici';
import { tooLarge } from './limits.ts';

export interface CallInit {
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Ends the call, and the connection with it. */
  readonly signal?: AbortSignal | undefined;
}

export interface CallAnswer {
  readonly status: number;
  /** By their names in small letters. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The bytes as they come. Whoever leaves before their end ends the call. */
  readonly body: AsyncIterableIterator<Buffer>;
}

/** As the platform's fetch, for what is not read at once: see `CallAnswer`. */
export type OutboundCall = (url: string, init: CallInit) => Promise<CallAnswer>;

/** Sends it to the place that was checked before. No redirect is followed. */
export function callThrough(
  dispatcher: Dispatcher,
  url: URL,
  { method, headers, body = '', signal }: CallInit,
  maxBytes: number,
): Promise<CallAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<CallAnswer>();
  const call = new Call(signal, maxBytes, { resolve, reject });
  const { origin, pathname, search } = url;
  const wanted = { ...usual, ...inSmallLetters(headers) };
  if (!call.over)
    dispatcher.dispatch({ origin, path: `${pathname}${search}`, method, headers: wanted, body }, call);
  return promise;
}

const usual = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'undici' };

/** Of one name in two spellings the last counts. */
function inSmallLetters(headers: CallInit['headers']): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** More than this waits in the network until it is asked for. */
const mostWaitingBytes = 65_536;

interface Asked {
  readonly resolve: (answer: CallAnswer) => void;
  readonly reject: (error: unknown) => void;
}

interface Reader {
  readonly resolve: (next: IteratorResult<Buffer>) => void;
  readonly reject: (error: unknown) => void;
}

class Call implements Dispatcher.DispatchHandler, AsyncIterableIterator<Buffer> {
  /** Nothing more will come. */
  over = false;
  readonly #signal: AbortSignal | undefined;
  readonly #maxBytes: number;
  readonly #asked: Asked;
  #controller: Dispatcher.DispatchController | null = null;
  #failure: { readonly error: unknown } | null = null;
  #reader: Reader | null = null;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #received = 0;

  constructor(signal: AbortSignal | undefined, maxBytes: number, asked: Asked) {
    this.#signal = signal;
    this.#maxBytes = maxBytes;
    this.#asked = asked;
    if (signal?.aborted) this.#stop(signal.reason);
    else signal?.addEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // It has waited for a connection, and nobody waits for it any more.
    if (this.over) controller.abort(new Error('The call was given up.'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: CallAnswer['headers'],
  ): void {
    // Such as 103, before what was asked for.
    if (status < 200) return;
    this.#asked.resolve({
      status,
      headers,
      body: unfolded(this, headers['content-encoding'], this.#maxBytes),
    });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#received += chunk.length;
    const reader = this.#reader;
    if (this.#received > this.#maxBytes) this.#stop(tooLarge(this.#maxBytes));
    else if (reader) {
      this.#reader = null;
      reader.resolve({ done: false, value: chunk });
    } else {
      this.#waiting.push(chunk);
      this.#waitingBytes += chunk.length;
      if (this.#waitingBytes > mostWaitingBytes) controller.pause();
    }
  }

  onResponseEnd(): void {
    this.#end(null);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end({ error });
  }

  next(): Promise<IteratorResult<Buffer>> {
    const [first, ...more] = this.#waiting;
    if (first) {
      const value = more.length === 0 ? first : Buffer.concat(this.#waiting);
      this.#waiting = [];
      this.#waitingBytes = 0;
      if (this.#controller?.paused) this.#controller.resume();
      return Promise.resolve({ done: false, value });
    }
    if (this.#failure) return Promise.reject(this.#failure.error);
    if (this.over) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<Buffer>> {
    this.#waiting = [];
    if (!this.over) this.#stop(new Error('The answer was left before its end.'));
    // Whoever left it has nothing to be told any more.
    this.#failure = null;
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  readonly #onAbort = (): void => this.#stop(this.#signal?.reason);

  #stop(error: unknown): void {
    this.#end({ error });
    this.#controller?.abort(error instanceof Error ? error : new Error(String(error)));
  }

  #end(failure: { readonly error: unknown } | null): void {
    if (this.over) return;
    this.over = true;
    this.#failure = failure;
    this.#signal?.removeEventListener('abort', this.#onAbort);
    if (failure) this.#asked.reject(failure.error);
    const reader = this.#reader;
    this.#reader = null;
    if (failure) reader?.reject(failure.error);
    else reader?.resolve({ done: true, value: undefined });
  }
}

/** Some compress whatever they are asked for. */
function unfolded(
  body: AsyncIterableIterator<Buffer>,
  encoding: string | string[] | undefined,
  maxBytes: number,
): AsyncIterableIterator<Buffer> {
  if (encoding === undefined || encoding === 'identity') return body;
  const packed = Readable.from(body);
  const pieces = counted(packed, encoding === 'br' ? createBrotliDecompress() : createUnzip(), maxBytes);
  return leftWith(pieces, async () => {
    packed.destroy();
    await body.return?.();
  });
}

/** A generator that is left before it was begun ends nothing: then that is called. */
function leftWith(
  pieces: AsyncGenerator<Buffer>,
  end: () => Promise<unknown>,
): AsyncIterableIterator<Buffer> {
  let begun = false;
  return {
    next() {
      begun = true;
      return pieces.next();
    },
    async return() {
      if (!begun) await end();
      return await pieces.return(undefined);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* counted(packed: Readable, unpacking: Transform, maxBytes: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  packed.on('error', (error) => unpacking.destroy(error)).pipe(unpacking);
  try {
    for await (const piece of unpacking as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      yield piece;
    }
  } finally {
    packed.destroy();
  }
}

/** All of an answer as text. Rejects where it has more bytes than that. */
export async function textOf(body: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of body) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
  }
  const [only, ...more] = pieces;
  return (more.length === 0 && only ? only : Buffer.concat(pieces)).toString('utf8');
}

/** Such a call by a fetch, for those who have nothing else. */
export function callBy(fetch: typeof globalThis.fetch): OutboundCall {
  return async (url, { signal = null, body = null, ...init }) => {
    const response = await fetch(url, { ...init, signal, body });
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: leftWith(piecesOf(response), async () => response.body?.cancel()),
    };
  };
}

async function* piecesOf({ body }: Response): AsyncGenerator<Buffer> {
  // The platform's type of a stream names no iterator, which Node's has.
  for await (const piece of (body ?? []) as unknown as AsyncIterable<Uint8Array>) yield Buffer.from(piece);
}
