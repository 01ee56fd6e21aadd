/** Answers: as a handler gives them, before their operation is known to the compiler, and as they stand on the wire. */
import type { StreamPiece } from '../handler.ts';

/** A handler's answer. */
export interface AnyReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, unknown>> | undefined;
  readonly type?: string | undefined;
  readonly body?: unknown;
}

/** An answer just before it is written. */
export interface WireReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Null where there is no body. */
  readonly type: string | null;
  readonly payload: string | Uint8Array | null;
}

/** A stream's events, where the reply is one. */
export function eventsOf(reply: AnyReply): AsyncIterable<StreamPiece> | null {
  // The contract's types make a reply of this media type an iterable of events.
  return reply.type === 'text/event-stream' ? (reply.body as AsyncIterable<StreamPiece>) : null;
}

/** Gives a handler's answer the form of the wire. */
export function toWire(reply: AnyReply): WireReply {
  const headers = textHeaders(reply);
  if (reply.body === undefined) return { status: reply.status, headers, type: null, payload: null };
  const type = reply.type ?? 'application/json';
  return {
    status: reply.status,
    headers,
    type: type.startsWith('text/') ? `${type}; charset=utf-8` : type,
    payload: payloadOf(reply.body, type),
  };
}

/** Header values as text; what a handler left undefined is not sent. */
export function textHeaders(reply: Pick<AnyReply, 'headers'>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(reply.headers ?? {}).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    ),
  );
}

/** Bytes and texts go out as they are; the rest is JSON. */
function payloadOf(body: unknown, type: string): string | Uint8Array {
  if (body instanceof Uint8Array) return body;
  return typeof body === 'string' && !type.endsWith('json') ? body : JSON.stringify(body);
}
