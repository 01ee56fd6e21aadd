/** Sends a reply that is a stream: its place among the open ones, its headers, its events, its last event. */
import type { Route } from '../contract/routes.ts';
import type { ServerEvent, StreamPiece } from '../handler.ts';
import { Problem } from '../problem.ts';
import { CallerGone } from './body.ts';
import type { Exchange } from './exchange.ts';
import { renderMessagesProblem } from './messages-problem.ts';
import type { Caller, Ports } from './ports.ts';
import { toProblem } from './problems.ts';
import { setHeaders } from './reply.ts';
import { sendEvents, streamHeaders } from './sse.ts';
import { createStreamWatch } from './stream-watch.ts';
import type { Strictness } from './strict.ts';
import { type AnyReply, textHeaders } from './wire.ts';

export interface Streams {
  /** Ends every stream with an `error` event: the server stops. */
  endAll(): void;
  /**
   * Takes a place for a stream before its handler begins anything; it is free again when the answer closes. Throws
   * CallerGone where it has.
   */
  admit(exchange: Exchange, caller: Caller): void;
  /** Sends the events until the last one. */
  send(
    exchange: Exchange,
    reply: AnyReply,
    events: AsyncIterable<StreamPiece>,
    caller: Caller,
  ): Promise<void>;
}

/** Whether the answer to this request is a stream. */
export function isStreamed(route: Route, body: unknown): boolean {
  if (!route.responseTypes.includes('text/event-stream')) return false;
  const asked = typeof body === 'object' && body !== null && 'stream' in body && body.stream === true;
  return route.responseTypes.length === 1 || asked;
}

export function createStreams(ports: Ports, strict: Strictness | null): Streams {
  const { watch, endAll } = createStreamWatch(ports);
  return {
    endAll,
    admit: (exchange, caller) => admit(exchange, caller, ports),
    async send(exchange, reply, events, caller) {
      exchange.streamed = true;
      begin(exchange, reply, ports, strict);
      if (exchange.request.method === 'HEAD') return endWithoutEvents(exchange, events);
      // A run is read on from the last id; an answer of the vendor's surface cannot be.
      const resumable = exchange.surface === 'native';
      const { end, forget } = watch(caller, resumable);
      await sendEvents(exchange.response, events, {
        keepaliveMs: ports.settings.keepaliveSeconds * 1000,
        stallMs: ports.settings.stallSeconds * 1000,
        end,
        stalled: () => (resumable ? null : lastEvent(stalled(), exchange, ports, strict)),
        lastEvent: (error) => lastEvent(error, exchange, ports, strict),
        check: (piece) => refuse(strict?.checkPiece(exchange, piece) ?? null),
        cut: (reason) => {
          // What a server that stops has at work is handed over, or ends with it.
          if (!isDraining(reason)) exchange.abandoned.abort();
        },
      }).finally(forget);
    },
  };
}

function admit({ response }: Exchange, caller: Caller, { metrics, settings }: Ports): void {
  // It has closed, and would never give the place back.
  if (response.destroyed) throw new CallerGone();
  if (metrics.openStreams(caller.userId) >= settings.streamsPerUser)
    throw new Problem(
      'too_many_streams',
      `You already have ${settings.streamsPerUser} streams open, the maximum; close one, or wait until one ends.`,
    );
  if (metrics.openStreamsInAll() >= settings.streamsTotal)
    throw new Problem('overloaded', 'This server has as many streams open as it can hold; try again soon.');
  metrics.streamOpened(caller.userId);
  response.once('close', () => metrics.streamClosed(caller.userId));
}

function begin(exchange: Exchange, reply: AnyReply, ports: Ports, strict: Strictness | null): void {
  const version = exchange.surface === 'native' ? { 'X-SSE-Version': '1' } : {};
  const headers = { ...textHeaders(reply), ...streamHeaders, ...version };
  const wire = { status: reply.status, headers, type: 'text/event-stream', payload: null };
  refuse(strict?.checkReply(exchange, wire) ?? null);
  exchange.response.statusCode = reply.status;
  // A network may take the caller away without a word.
  exchange.response.socket?.setKeepAlive(true, 30_000);
  setHeaders(exchange, headers, ports);
}

function isDraining(reason: unknown): boolean {
  return reason instanceof Problem && reason.code === 'draining';
}

function stalled(): Problem {
  return new Problem(
    'request_timeout',
    'The answer was not read any further; ask again, and read it as it comes.',
  );
}

async function endWithoutEvents({ response }: Exchange, events: AsyncIterable<StreamPiece>): Promise<void> {
  await events[Symbol.asyncIterator]().return?.();
  response.end();
}

function refuse(violation: string | null): void {
  if (violation !== null) throw new Error(`The stream breaks the contract: ${violation}`);
}

/** A failure as the last event, in the shape of the surface. */
function lastEvent(error: unknown, exchange: Exchange, ports: Ports, strict: Strictness | null): ServerEvent {
  const problem = toProblem(error);
  const { requestId } = exchange;
  if (problem.cause !== undefined && problem.status >= 500)
    ports.log.error({ err: problem.cause, request_id: requestId, code: problem.code }, 'stream failed');
  const native = { error: `${problem.code}: ${problem.message}` };
  const data = exchange.surface === 'messages' ? renderMessagesProblem(problem, requestId).body : native;
  const violation = strict?.checkEvent(exchange, { name: 'error', data }) ?? null;
  if (violation !== null)
    ports.log.error({ request_id: requestId, violation }, 'the last event breaks the contract');
  return { name: 'error', data };
}
