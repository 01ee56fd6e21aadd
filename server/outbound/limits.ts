/** The bounds of one answer: its bytes as they come in and as they unfold, and its time. */
import type { Dispatcher } from 'undici';
import { OutboundError } from './outbound-error.ts';

export interface OutboundLimits {
  /** Both of what is received and of what it unfolds to. */
  readonly maxBytes?: number;
  /** Until the headers of the last answer are there, redirects included. */
  readonly headersMs?: number;
  /** Until the end of the answer. */
  readonly totalMs?: number;
  /** Gives the body as it was sent: servers call a file that is compressed by itself a compressed answer. */
  readonly asSent?: boolean;
  /** Whether a redirect may be followed from the URL that was asked for; if absent, any that is otherwise in order. */
  readonly mayRedirect?: (target: URL, first: URL) => boolean;
}

/** Counts what comes from the network: a stream of empty compressed blocks unfolds to nothing, and never ends. */
export function receivingAtMost(maxBytes: number, asSent: boolean): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => dispatch(options, counting(handler, maxBytes, asSent));
}

function counting(
  handler: Dispatcher.DispatchHandler,
  maxBytes: number,
  asSent: boolean,
): Dispatcher.DispatchHandler {
  let received = 0;
  return {
    onRequestStart: (controller, context) => handler.onRequestStart?.(controller, context),
    onRequestUpgrade: (controller, status, headers, socket) =>
      handler.onRequestUpgrade?.(controller, status, headers, socket),
    onResponseStart(controller, status, headers, message) {
      // The client unfolds by what stands there.
      if (asSent && Array.isArray(controller.rawHeaders))
        controller.rawHeaders = withoutEncoding(controller.rawHeaders);
      handler.onResponseStart?.(controller, status, headers, message);
    },
    onResponseData(controller, chunk) {
      received += chunk.byteLength;
      if (received > maxBytes) controller.abort(tooLarge(maxBytes));
      else handler.onResponseData?.(controller, chunk);
    },
    onResponseEnd: (controller, trailers) => handler.onResponseEnd?.(controller, trailers),
    onResponseError: (controller, error) => handler.onResponseError?.(controller, error),
  };
}

/** Of names and values in turn. */
function withoutEncoding(headers: Buffer[] | string[]): string[] {
  const isEncoding = (name: unknown) => String(name).toLowerCase() === 'content-encoding';
  return headers
    .map((part) => part.toString('latin1'))
    .filter((_, index, all) => !isEncoding(all[index - (index % 2)]));
}

/** The answer, whose body fails when it unfolds to more than that. One that is not compressed is counted as it comes in. */
export function unfoldingAtMost(maxBytes: number, response: Response): Response {
  if (!response.body || !response.headers.has('content-encoding')) return response;
  let unfolded = 0;
  const counted = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        unfolded += chunk.byteLength;
        if (unfolded > maxBytes) throw tooLarge(maxBytes);
        controller.enqueue(chunk);
      },
    }),
  );
  const { status, statusText, headers, url } = response;
  // The constructor has no place for it, and callers tell people where an answer came from.
  return Object.defineProperty(new Response(counted, { status, statusText, headers }), 'url', { value: url });
}

export function tooLarge(maxBytes: number): OutboundError {
  const size =
    maxBytes < 1024 * 1024 ? `${Math.round(maxBytes / 1024)} KB` : `${Math.round(maxBytes / 1024 / 1024)} MB`;
  return new OutboundError('answer_too_large', `The answer is larger than ${size}.`);
}

/** The times of one request. */
export interface Clocks {
  readonly signal: AbortSignal | null;
  /** To be called when the headers are there. */
  answered(): void;
}

/** Starts them, beside the caller's own signal. */
export function startClocks({ headersMs, totalMs }: OutboundLimits, signal: AbortSignal | null): Clocks {
  if (headersMs === undefined && totalMs === undefined) return { signal, answered: () => undefined };
  const controller = new AbortController();
  const abortAfter = (ms: number | undefined, what: string) =>
    ms === undefined ? undefined : setTimeout(() => controller.abort(tooSlow(ms, what)), ms).unref();
  const untilHeaders = abortAfter(headersMs, 'began no answer');
  abortAfter(totalMs, 'did not end its answer');
  return {
    signal: signal ? AbortSignal.any([signal, controller.signal]) : controller.signal,
    answered: () => clearTimeout(untilHeaders),
  };
}

function tooSlow(ms: number, what: string): OutboundError {
  return new OutboundError('answer_too_slow', `The server ${what} within ${ms / 1000} s.`);
}
