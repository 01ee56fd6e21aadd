// Puts an answer on the wire at the scripted pace, and breaks it where the script says so.
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Call, Dialect } from './dialect.ts';
import { Refusal } from './dialect.ts';
import { closeRecord, type RequestRecord } from './requests.ts';
import type { Failure, Verdict } from './script.ts';

/** One response on its way. */
export interface Delivery {
  dialect: Dialect;
  response: ServerResponse;
  record: RequestRecord;
  /** Aborted when the client is gone. */
  gone: AbortSignal;
  /** Settles when a test calls `POST /_release`. */
  released: () => Promise<void>;
  requestId: string;
}

/** Thrown to leave a delivery whose connection is closed, by whichever side. */
class ConnectionOver extends Error {}

/** Sends what the script decided. Returns when the response is over, however it ended. */
export async function deliver(delivery: Delivery, call: Call, verdict: Verdict): Promise<void> {
  try {
    await pause(delivery, verdict.reply.first_byte_delay_ms);
    const { failure } = verdict;
    const { stream } = call.prompt;
    if (failure?.kind === 'status') return sendScriptedStatus(delivery, failure);
    if (failure?.kind === 'error_frame' && !stream) return sendRefusal(delivery, refusalOf(failure));
    if (failure !== undefined && comesInstead(failure, stream)) await breakOff(delivery, failure, stream);
    if (stream) await sendStream(delivery, call, verdict);
    else await sendWhole(delivery, call, verdict);
  } catch (error) {
    if (!(error instanceof ConnectionOver)) throw error;
  }
}

/** Sends a list, or fails as the script says. */
export async function deliverList(
  delivery: Delivery,
  body: unknown,
  failure: Failure | undefined,
): Promise<void> {
  try {
    if (failure?.kind === 'status') return sendScriptedStatus(delivery, failure);
    if (failure?.kind === 'error_frame') return sendRefusal(delivery, refusalOf(failure));
    if (failure !== undefined) await breakOff(delivery, failure, false);
    sendJson(delivery, body);
  } catch (error) {
    if (!(error instanceof ConnectionOver)) throw error;
  }
}

/** Answers with an error in the vendor's own form. */
export function sendRefusal(
  delivery: Delivery,
  refusal: Refusal,
  headers: Record<string, string> = {},
): void {
  const body = JSON.stringify(delivery.dialect.errorBody(refusal, delivery.requestId));
  sendHead(delivery, refusal.status, { 'content-type': 'application/json', ...headers });
  finish(delivery, body);
}

export function sendJson(delivery: Delivery, body: unknown): void {
  sendHead(delivery, 200, { 'content-type': 'application/json' });
  finish(delivery, JSON.stringify(body));
}

/** True if nothing of the answer comes before the failure. A whole body is either right or nonsense. */
function comesInstead(failure: Exclude<Failure, { kind: 'status' }>, stream: boolean): boolean {
  const nonsense = failure.kind === 'garbage' || failure.kind === 'wrong_json';
  return failure.after_chunks === undefined || (nonsense && !stream);
}

function refusalOf(failure: Failure & { kind: 'error_frame' }): Refusal {
  return new Refusal(failure.status, failure.message, failure);
}

function sendScriptedStatus(delivery: Delivery, failure: Failure & { kind: 'status' }): void {
  const { retry_after } = failure;
  const headers =
    retry_after === undefined || delivery.dialect.retryInBody ? {} : { 'retry-after': retry_after };
  if (failure.body === undefined) {
    const message = failure.message ?? `Scripted failure with status ${failure.status}`;
    sendRefusal(delivery, new Refusal(failure.status, message, failure), headers);
  } else {
    sendHead(delivery, failure.status, { 'content-type': failure.content_type, ...headers });
    finish(delivery, failure.body);
  }
}

async function sendStream(delivery: Delivery, call: Call, verdict: Verdict): Promise<void> {
  sendHead(delivery, 200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
  });
  delivery.response.flushHeaders();
  const { reply, failure } = verdict;
  const breakAt = failure?.kind === 'status' ? undefined : failure?.after_chunks;
  for (const frame of call.frames(verdict.answer)) {
    const written = delivery.record.chunks_written;
    if (failure !== undefined && breakAt === written) await breakOff(delivery, failure, true);
    // Not after the last one: clients leave as soon as they have read it.
    if (written > 0) await pause(delivery, reply.chunk_delay_ms);
    if (written === 1 && reply.keep_alive) await keepAlive(delivery, reply.keep_alive);
    if (reply.hold_after_chunks === written) await orGone(delivery, delivery.released());
    await writeInPieces(delivery, frame, reply.write_bytes);
    delivery.record.chunks_written += 1;
  }
  if (failure !== undefined) await breakOff(delivery, failure, true);
  finish(delivery);
}

async function keepAlive(
  delivery: Delivery,
  { times, every_ms }: { times: number; every_ms: number },
): Promise<void> {
  for (let said = 0; said < times; said += 1) {
    await pause(delivery, every_ms);
    await write(delivery, delivery.dialect.keepAlive ?? ': keep-alive\n\n');
  }
}

async function sendWhole(delivery: Delivery, call: Call, verdict: Verdict): Promise<void> {
  if (verdict.reply.hold_after_chunks !== undefined) await orGone(delivery, delivery.released());
  const { type, bytes: body } = call.file?.(verdict.answer) ?? {
    type: 'application/json',
    bytes: Buffer.from(JSON.stringify(call.whole(verdict.answer))),
  };
  sendHead(delivery, 200, { 'content-type': type, 'content-length': String(body.length) });
  if (verdict.failure !== undefined) {
    await write(delivery, body.subarray(0, body.length / 2));
    await breakOff(delivery, verdict.failure, false);
  }
  await writeInPieces(delivery, body, verdict.reply.write_bytes);
  delivery.record.chunks_written = 1;
  finish(delivery);
}

/** Plays the failure to its end; never returns normally. */
async function breakOff(delivery: Delivery, failure: Failure, stream: boolean): Promise<never> {
  if (failure.kind === 'hang') await orGone(delivery, new Promise<never>(() => undefined));
  if (failure.kind === 'garbage' || failure.kind === 'wrong_json')
    await writeNonsense(delivery, failure.kind, stream);
  if (failure.kind === 'error_frame' && stream) {
    await write(delivery, delivery.dialect.errorFrame(refusalOf(failure)));
  }
  // Cut in the middle of a length-framed body, an orderly end is impossible: the connection goes as well.
  const orderly = failure.kind !== 'cut' && !delivery.response.hasHeader('content-length');
  closeRecord(delivery.record, 'cut');
  if (orderly) delivery.response.end();
  // What was written before still has to reach the client, which a reset might overtake.
  else delivery.response.socket?.destroySoon();
  throw new ConnectionOver();
}

async function writeNonsense(
  delivery: Delivery,
  kind: 'garbage' | 'wrong_json',
  stream: boolean,
): Promise<void> {
  if (!delivery.response.headersSent) {
    const type = stream ? 'text/event-stream; charset=utf-8' : 'application/json';
    sendHead(delivery, 200, { 'content-type': type });
  }
  const garbage = Buffer.from([0x00, 0xff, 0xfe, 0xc3, 0x28, 0x0a, 0x80, 0x1b, 0x0a, 0x0a]);
  const brokenJson = stream ? 'event: message\ndata: {"id": "broken", \n\n' : '{"id": "broken", ';
  await write(delivery, kind === 'garbage' ? garbage : brokenJson);
}

function sendHead(delivery: Delivery, status: number, headers: Record<string, string>): void {
  const { response, record } = delivery;
  response.statusCode = status;
  const all = { ...delivery.dialect.headers(delivery.requestId), ...headers };
  for (const [name, value] of Object.entries(all)) response.setHeader(name, value);
  record.status = status;
  record.first_byte_at = Date.now();
}

async function writeInPieces(
  delivery: Delivery,
  data: string | Buffer,
  size: number | undefined,
): Promise<void> {
  const bytes = Buffer.from(data);
  const step = size ?? bytes.length;
  for (let at = 0; at < bytes.length; at += step) {
    // Without a turn of the event loop, Node would send the pieces as one packet.
    if (at > 0) await pause(delivery, 1);
    await write(delivery, bytes.subarray(at, at + step));
  }
}

async function write(delivery: Delivery, data: string | Buffer): Promise<void> {
  const { response, record } = delivery;
  if (delivery.gone.aborted) throw new ConnectionOver();
  record.bytes_written += Buffer.byteLength(data);
  if (response.write(data)) return;
  record.blocked = true;
  record.blocked_times += 1;
  await orGone(delivery, once(response, 'drain'));
  record.blocked = false;
}

function finish(delivery: Delivery, body?: string): void {
  delivery.record.bytes_written += Buffer.byteLength(body ?? '');
  delivery.response.end(body);
}

async function pause(delivery: Delivery, ms: number): Promise<void> {
  if (ms > 0) await orGone(delivery, sleep(ms));
}

/** Waits for the promise, or throws `ConnectionOver` as soon as the client is gone. */
async function orGone(delivery: Delivery, promise: Promise<unknown>): Promise<void> {
  const { gone } = delivery;
  if (gone.aborted) throw new ConnectionOver();
  const over = Promise.withResolvers<never>();
  const leave = () => over.reject(new ConnectionOver());
  gone.addEventListener('abort', leave, { once: true });
  try {
    await Promise.race([promise, over.promise]);
  } finally {
    gone.removeEventListener('abort', leave);
  }
}
