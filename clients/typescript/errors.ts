/** What can go wrong with a call: the service refuses it, it cannot be reached, or a stream breaks its own rules. */
import type { FieldError, MessagesError, Problem, ProblemCode } from './generated/api.ts';

/** What an answer that is no success said. */
export interface Refusal {
  /** The HTTP status. */
  readonly status: number;
  /** A problem code, the error type of the Messages surface, or what the client itself found wrong. */
  readonly code: ProblemCode | MessagesError['error']['type'] | ClientCode | (string & {});
  /** What the code means, the same for each occurrence. */
  readonly title: string;
  /** What happened here, and what to do about it. */
  readonly detail: string;
  /** Quote it when you ask for help: the server's log has the failure under it. */
  readonly requestId: string | null;
  /** Each place of the request that does not match the contract. */
  readonly errors: readonly FieldError[];
  /** How long the server asks to wait before the next attempt. */
  readonly retryAfterSeconds: number | null;
}

/** Codes of answers that did not come from the contract: 304, and what proxies and wrong addresses send. */
export type ClientCode = 'not_modified' | 'unrecognized_answer';

/** The service answered, and the answer is no success. */
export class ServiceError extends Error implements Refusal {
  readonly status: Refusal['status'];
  readonly code: Refusal['code'];
  readonly title: Refusal['title'];
  readonly detail: Refusal['detail'];
  readonly requestId: Refusal['requestId'];
  readonly errors: Refusal['errors'];
  readonly retryAfterSeconds: Refusal['retryAfterSeconds'];
  /** The headers of the answer, for instance `WWW-Authenticate` or `Allow`. */
  readonly headers: Headers;

  constructor(call: string, refusal: Refusal, headers: Headers) {
    super(sentence(call, refusal));
    this.name = 'ServiceError';
    this.status = refusal.status;
    this.code = refusal.code;
    this.title = refusal.title;
    this.detail = refusal.detail;
    this.requestId = refusal.requestId;
    this.errors = refusal.errors;
    this.retryAfterSeconds = refusal.retryAfterSeconds;
    this.headers = headers;
  }
}

/** No answer came, or the connection was lost in the middle of one; `cause` is what the network said. */
export class ConnectionError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'ConnectionError';
  }
}

/** A stream that cannot be continued without losing events. The run itself goes on at the server. */
export class BrokenStreamError extends Error {
  /** The run behind the stream, where the server named one. */
  readonly runId: string | null;
  /**
   * The last event that was delivered; `streamRunEvents` or `streamEvents` with it as `after` continues from there. Null
   * where a workspace told nothing yet: going on begins as before.
   */
  readonly lastEventId: number | null;

  constructor(message: string, runId: string | null, lastEventId: number | null, cause?: unknown) {
    super(message, { cause });
    this.name = 'BrokenStreamError';
    this.runId = runId;
    this.lastEventId = lastEventId;
  }
}

/** The error that an unsuccessful answer stands for. It reads the body. */
export async function serviceErrorOf(request: Request, response: Response): Promise<ServiceError> {
  const text = await response.text().catch(() => {
    request.signal.throwIfAborted();
    return ''; // A body that is cut off says nothing; the status does.
  });
  return new ServiceError(callOf(request), refusalOf(response, parsed(text)), response.headers);
}

/** The error for a success in a form that the operation does not have, such as the page of a proxy. */
export function unexpectedForm(call: string, response: Response, expected: string): ServiceError {
  const detail = `The answer is ${formOf(response)}, not ${expected}. Is baseUrl right, or does a proxy answer?`;
  return new ServiceError(call, { ...unrecognized(response), detail }, response.headers);
}

/** The wait that `Retry-After` asks for, given in seconds or as a date. */
export function retryAfterSeconds(headers: Headers): number | null {
  const value = headers.get('Retry-After')?.trim();
  if (!value) return null;
  if (/^\d+$/.test(value)) return Number(value);
  const until = Date.parse(value);
  return Number.isNaN(until) ? null : Math.max(0, (until - Date.now()) / 1000);
}

/** The call as messages name it; never with the query or a header, which may hold what is private. */
export function callOf(request: Request): string {
  return `${request.method} ${new URL(request.url).pathname}`;
}

function sentence(call: string, { status, code, detail, requestId, retryAfterSeconds }: Refusal): string {
  const wait = retryAfterSeconds === null ? '' : ` Try again in ${Math.ceil(retryAfterSeconds)} s.`;
  const reference = requestId === null ? '' : ` (request ${requestId})`;
  return `${call}: ${status} ${code}: ${detail}${wait}${reference}`;
}

function refusalOf(response: Response, body: unknown): Refusal {
  const { status, headers } = response;
  const shared = { status, errors: [], retryAfterSeconds: retryAfterSeconds(headers) };
  if (isProblem(body)) {
    const { code, title, detail, request_id: requestId, errors = [] } = body;
    return { ...shared, code, title, detail, requestId, errors };
  }
  if (isMessagesError(body)) {
    const { type: code, message } = body.error;
    const requestId = body.request_id ?? requestIdOf(headers);
    return { ...shared, code, title: titleOf(response), detail: message, requestId };
  }
  return unrecognized(response);
}

function unrecognized(response: Response): Refusal {
  const { status, headers } = response;
  const notModified = status === 304;
  return {
    status,
    code: notModified ? 'not_modified' : 'unrecognized_answer',
    title: titleOf(response),
    detail: notModified
      ? 'What you have is still current.'
      : `The answer is ${formOf(response)}, not one of the service. Is baseUrl right, or does a proxy answer?`,
    requestId: requestIdOf(headers),
    errors: [],
    retryAfterSeconds: retryAfterSeconds(headers),
  };
}

function titleOf({ status, statusText }: Response): string {
  return statusText || `HTTP ${status}`;
}

function formOf({ headers, status, type, url }: Response): string {
  // Nothing is shown of one that the request refuses, nor by browsers of any that they do not follow.
  if (type === 'opaqueredirect' || type === 'error' || (status >= 300 && status < 400))
    return `a redirect${placeOf(headers.get('Location'), url)} that is not followed`;
  return headers.get('Content-Type')?.split(';', 1)[0]?.trim() || 'without a content type';
}

/** Where a redirect leads, and no more of that than the host: the rest may be private. */
function placeOf(location: string | null, from: string): string {
  const base = from || undefined;
  return location !== null && URL.canParse(location, base) ? ` to ${new URL(location, base).origin}` : '';
}

function requestIdOf(headers: Headers): string | null {
  return headers.get('X-Request-Id') ?? headers.get('request-id');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // Not JSON: the answer is not one of ours, and its status says what there is to say.
  }
}

function isProblem(body: unknown): body is Problem {
  return (
    hasText(body, 'code') && hasText(body, 'title') && hasText(body, 'detail') && hasText(body, 'request_id')
  );
}

function isMessagesError(body: unknown): body is Omit<MessagesError, 'request_id'> & { request_id?: string } {
  if (typeof body !== 'object' || body === null || !('error' in body)) return false;
  return hasText(body.error, 'type') && hasText(body.error, 'message');
}

function hasText(value: unknown, key: string): boolean {
  // The value is an object by then; which members it has is what is asked.
  return (
    typeof value === 'object' && value !== null && typeof (value as Record<string, unknown>)[key] === 'string'
  );
}
