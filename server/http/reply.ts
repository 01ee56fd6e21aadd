/** The one place where answers are written: replies, failures, and the beginnings of streams. */
import { CallerGone } from './body.ts';
import type { Exchange } from './exchange.ts';
import type { Ports } from './ports.ts';
import { internalError, renderProblem, toProblem } from './problems.ts';
import type { Strictness } from './strict.ts';
import { type AnyReply, toWire, type WireReply } from './wire.ts';

/** Writes a reply that is no stream. */
export function sendReply(
  exchange: Exchange,
  reply: AnyReply,
  ports: Ports,
  strict: Strictness | null,
): void {
  const wire = toWire(reply);
  const violation = strict?.checkReply(exchange, wire) ?? null;
  if (violation !== null) throw new Error(`The answer breaks the contract: ${violation}`);
  write(exchange, wire, ports);
}

/** Writes a failure, whatever was thrown; a fault of ours goes to the log with the id of the request. */
export function sendFailure(
  exchange: Exchange,
  error: unknown,
  ports: Ports,
  strict: Strictness | null,
): void {
  if (error instanceof CallerGone || exchange.response.destroyed) return;
  if (exchange.response.headersSent) {
    ports.log.error({ err: error, request_id: exchange.requestId }, 'failed after the answer had begun');
    exchange.response.destroy();
    return;
  }
  const problem = toProblem(error);
  if (problem.cause !== undefined && problem.status >= 500)
    ports.log.error(
      { err: problem.cause, request_id: exchange.requestId, code: problem.code },
      'request failed',
    );
  const wire = toWire(renderProblem(problem, exchange));
  const violation = strict?.checkReply(exchange, wire) ?? null;
  if (violation === null) {
    write(exchange, wire, ports);
    return;
  }
  ports.log.error({ request_id: exchange.requestId, violation }, 'the failure breaks the contract');
  write(exchange, toWire(renderProblem(internalError(violation), exchange)), ports);
}

/** Headers that hold for every answer to this exchange, streams included. */
export function setHeaders(
  exchange: Exchange,
  headers: Readonly<Record<string, string>>,
  ports: Ports,
): void {
  const { response } = exchange;
  response.setHeader('Cache-Control', cachingOf(exchange));
  if (ports.draining()) response.setHeader('Connection', 'close');
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
}

/** Answers to a POST may hold a secret that is shown once; what is read may be kept, and asked for again by ETag. */
function cachingOf({ request, userId }: Exchange): string {
  if (request.method !== 'GET' && request.method !== 'HEAD') return 'no-store';
  return userId === null ? 'no-cache' : 'private, no-cache';
}

function write(exchange: Exchange, wire: WireReply, ports: Ports): void {
  const { request, response } = exchange;
  response.statusCode = wire.status;
  setHeaders(exchange, wire.headers, ports);
  if (wire.type !== null) response.setHeader('Content-Type', wire.type);
  if (wire.payload === null) {
    if (wire.status !== 204 && wire.status !== 304) response.setHeader('Content-Length', '0');
    response.end();
    return;
  }
  response.setHeader('Content-Length', String(Buffer.byteLength(wire.payload)));
  // Text stays text: Node sends it in one piece with the headers, and bytes apart from them.
  if (!leavesBodyUnread(exchange)) response.end(wire.payload);
  else endAfterLinger(exchange, request.method === 'HEAD' ? null : wire.payload);
  // What the system has not taken waits for the reader: as long as that reads, however slowly.
  if (response.writableLength > 0)
    response.setTimeout(ports.settings.stallSeconds * 1000, () => response.destroy());
}

/** How much of an unread body is worth reading to keep the connection. */
const cheapRestBytes = 65_536;
const lingerMs = 3_000;

/** Whether the caller is still sending what nobody will read. */
function leavesBodyUnread({ request }: Exchange): boolean {
  if (request.complete) return false;
  if (request.headers.expect !== undefined || request.headers['transfer-encoding'] !== undefined) return true;
  return Number(request.headers['content-length'] ?? 0) > cheapRestBytes;
}

/**
 * Closing a socket with unread input resets the connection, and the caller may never see the answer. So the answer
 * goes out whole, what still comes is dropped, and the connection is closed when the caller stops, or soon.
 */
function endAfterLinger({ request, response }: Exchange, payload: string | Uint8Array | null): void {
  response.setHeader('Connection', 'close');
  response.flushHeaders();
  if (payload) response.write(payload);
  const end = () => {
    clearTimeout(timer);
    if (!response.writableEnded) response.end();
  };
  const timer = setTimeout(end, lingerMs);
  request.once('end', end).once('close', end).once('error', end);
  // Whoever was reading it reads no more.
  request.unpipe();
  request.resume();
}
