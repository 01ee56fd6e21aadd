/** Repeats what may be repeated: calls that were refused before they acted, and calls that do the same twice as once. */
import { ConnectionError, callOf, retryAfterSeconds } from './errors.ts';
import { RepeatableRequest } from './repeatable-request.ts';
import { settledUnlessAborted, sleep } from './timers.ts';

/** How often and how patiently a call is repeated. */
export interface RetryPolicy {
  /** How many times a call is repeated at the most; 0 never repeats. */
  readonly limit: number;
  /** The wait before the first repetition; it doubles with each further one. */
  readonly baseDelayMs: number;
  /** The longest wait. A server that asks for more by `Retry-After` is not asked again: the call fails. */
  readonly maxDelayMs: number;
}

const defaultRetries: RetryPolicy = { limit: 4, baseDelayMs: 250, maxDelayMs: 30_000 };

/** Sends one request. */
export type Send = (request: Request) => Promise<Response>;

/** An access token or an API key, or what gives one: a wait may outlive a token, so that it is asked for each attempt. */
export type Token = string | (() => string | Promise<string>);

/** What an attempt gave: an answer, or what the network said instead, in the middle of one if it was begun. */
type Outcome = { readonly response: Response } | { readonly failure: unknown; readonly begun: boolean };

const idempotentMethods = new Set(['GET', 'HEAD', 'PUT', 'DELETE']);
/**
 * What does the same twice as once, in its answer too: a change of one version finds another one when it comes again, and
 * would be told that somebody else has made it.
 */
function isIdempotent({ method, headers }: Request): boolean {
  return idempotentMethods.has(method) && !(method === 'PUT' && headers.has('If-Match'));
}

/** What gets the answer of the first where it is sent again, by its key: the contract has it for POST alone. */
function isKeyed({ method, headers }: Request): boolean {
  return method === 'POST' && headers.has('Idempotency-Key');
}

/** What a server or a proxy says when the next attempt may find it well. */
const passingStatuses = new Set([429, 502, 503, 504]);
/** The codes of a 503 that is given before the operation begins; under any other a POST may have acted. */
const refusedBeforeActing = new Set<unknown>(['draining', 'overloaded']);
/** After these the first request may be at work or done, of which its key tells. A proxy's own answer (null) is no JSON. */
const unknownWhetherDone = new Set<unknown>(['database_unavailable', null]);

/** Whether a status is one that passes by itself. */
export function isPassing(status: number): boolean {
  return passingStatuses.has(status);
}

/** The whole policy. What a caller hands on from settings of its own may be undefined, though it is there. */
export function policyOf(given: Partial<RetryPolicy>): RetryPolicy {
  const { limit, baseDelayMs, maxDelayMs } = defaultRetries;
  const policy = {
    limit: given.limit ?? limit,
    baseDelayMs: given.baseDelayMs ?? baseDelayMs,
    maxDelayMs: given.maxDelayMs ?? maxDelayMs,
  };
  for (const [name, value] of Object.entries(policy))
    if (!(value >= 0)) throw new TypeError(`retries.${name} is ${value}; it has to be 0 or more.`);
  return policy;
}

/** Wraps `send` so that it repeats by the policy. Network failures leave it as `ConnectionError`. */
export function withRetries(send: Send, policy: RetryPolicy, token?: Token): Send {
  return async (given) => {
    // Where no types say that it cannot be, a call may bring a `Request` of its own.
    const request = given instanceof RepeatableRequest ? given : new RepeatableRequest(given);
    // A credential that the caller set for one request stays: two in one request are refused.
    const hasOwnCredential = request.headers.has('Authorization') || request.headers.has('x-api-key');
    for (let attempt = 0; ; attempt += 1) {
      const isLast = attempt >= policy.limit || request.isOnce;
      if (!hasOwnCredential) await authorize(request, token);
      const outcome = await outcomeOf(send, request, isLast);
      request.signal.throwIfAborted();
      const delay = isLast ? null : await delayBeforeNext(request, outcome, attempt, policy);
      if (delay === null) return answerOf(request, outcome);
      // A body that has broken off says so once more.
      if ('response' in outcome) await outcome.response.body?.cancel().catch(() => undefined);
      await sleep(delay, request.signal);
    }
  };
}

async function authorize({ headers, signal }: Request, token: Token | undefined): Promise<void> {
  if (token === undefined) return;
  const given = typeof token === 'string' ? token : await settledUnlessAborted(async () => token(), signal);
  const credential = given.trim();
  // Headers refuse it too, and show the whole of it.
  if (/[\0\r\n]|[^\0-\xff]/.test(credential))
    throw new TypeError(
      'The token has a line break, a NUL or a letter beyond Latin-1 in it: it is not one token, and no header holds it.',
    );
  headers.set('Authorization', `Bearer ${credential}`);
}

/** The wait before a repetition: exponential, of which the upper half is chance, so that clients do not come in step. */
export function backOffMs(attempt: number, { baseDelayMs, maxDelayMs }: RetryPolicy): number {
  const longest = Math.min(maxDelayMs, baseDelayMs * 2 ** attempt);
  return longest * (0.5 + Math.random() / 2);
}

/**
 * The requests of what is being read. Node hears a signal by way of the request that it was given with, and lets that go
 * once the caller has it no more: the next garbage collection would make the call one that nothing ends.
 */
const requestsOf = new WeakMap<ReadableStream, readonly Request[]>();

async function outcomeOf(send: Send, request: RepeatableRequest, isLast: boolean): Promise<Outcome> {
  let begun = false;
  try {
    const sent = request.toSend(isLast);
    const response = await send(sent);
    begun = true;
    if (response.body !== null) requestsOf.set(response.body, [request, sent]);
    const isWanted = response.ok && (!request.isStreamed || isEmpty(response));
    return { response: isWanted ? await readWhole(response) : response };
  } catch (failure) {
    return isRefusedRedirect(failure) ? { response: Response.error() } : { failure, begun };
  }
}

/** What Node says where a request has it that a redirect is an error: no more than that, and as if the network had failed. */
function isRefusedRedirect(failure: unknown): boolean {
  return reasonOf(failure) === 'unexpected redirect';
}

function isEmpty({ headers }: Response): boolean {
  return headers.get('Content-Length') === '0';
}

/** Successes that have no body by their status: browsers give an empty one, and make no answer with even that. */
const bodilessStatuses = new Set([204, 205]);

async function readWhole(response: Response): Promise<Response> {
  if (response.body === null) return response;
  const { status, statusText, url } = response;
  const headers = new Headers(response.headers);
  // By this openapi-fetch gives no text or bytes at all, where they are empty ones.
  if (isEmpty(response)) headers.delete('Content-Length');
  const bytes = await response.arrayBuffer();
  const body = bodilessStatuses.has(status) ? null : bytes;
  const whole = new Response(body, { status, statusText, headers });
  // It cannot be given.
  return Object.defineProperty(whole, 'url', { value: url });
}

function answerOf(request: Request, outcome: Outcome): Response {
  if ('response' in outcome) return outcome.response;
  const { origin } = new URL(request.url);
  const { failure, begun } = outcome;
  if (failure instanceof ConnectionError) throw failure;
  const what = begun ? 'an answer that broke off' : 'no answer';
  const message = `${callOf(request)}: ${what} from ${origin} (${reasonOf(failure)}). ${adviceFor(outcome)}`;
  throw new ConnectionError(message, failure);
}

/** Node gives up after five minutes without an answer, though all is well where a run takes longer. */
function adviceFor({ failure, begun }: Extract<Outcome, { failure: unknown }>): string {
  const isLate = /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/.test(codeOf(failure));
  if (isLate)
    return 'What was asked may still be at work there: fetch waits no longer. Follow long runs with streamQuery, or ask again with the same Idempotency-Key.';
  // There was a connection, through which the request may have come.
  const wasThere = begun || /^(UND_ERR_SOCKET|ECONNRESET|EPIPE)$/.test(codeOf(failure));
  return wasThere ? 'What was asked may be done.' : 'Is the server running there?';
}

/** The code of what happened, at the bottom of its causes. */
function codeOf(failure: unknown): string {
  if (!(failure instanceof Error)) return '';
  if (failure.cause instanceof Error) return codeOf(failure.cause);
  return 'code' in failure ? String(failure.code) : '';
}

/** fetch says only "fetch failed"; what happened stands in the cause. */
function reasonOf(failure: unknown): string {
  if (!(failure instanceof Error)) return String(failure);
  if (failure.cause instanceof Error) return reasonOf(failure.cause);
  // A host with several addresses fails once for each, without a sentence of its own.
  const code = 'code' in failure ? String(failure.code) : failure.name;
  return failure.message || code;
}

/** How long to wait before the next attempt; null where there must be none. */
async function delayBeforeNext(
  request: Request,
  outcome: Outcome,
  attempt: number,
  policy: RetryPolicy,
): Promise<number | null> {
  const backOff = backOffMs(attempt, policy);
  // Who sends for the caller has given it up, and says why in words of his own.
  if ('failure' in outcome && outcome.failure instanceof ConnectionError) return null;
  if ('failure' in outcome) return isIdempotent(request) || isKeyed(request) ? backOff : null;
  if (!(await mayBeRepeated(request, outcome.response))) return null;
  const asked = retryAfterSeconds(outcome.response.headers);
  if (asked === null) return backOff;
  const askedMs = asked * 1000;
  return askedMs > policy.maxDelayMs ? null : askedMs + Math.random() * policy.baseDelayMs;
}

async function mayBeRepeated(request: Request, response: Response): Promise<boolean> {
  const { status } = response;
  if (isIdempotent(request)) return isPassing(status);
  if (status === 429) return true;
  if (!isPassing(status) && status !== 409) return false;
  const code = await problemCode(response);
  if (status === 503 && refusedBeforeActing.has(code)) return true;
  if (!isKeyed(request)) return false;
  return status === 409 ? code === 'idempotency_key_in_use' : unknownWhetherDone.has(code);
}

/** Null where the answer is no JSON, and so none of the service. */
async function problemCode(response: Response): Promise<unknown> {
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  if (typeof body !== 'object' || body === null) return null;
  return 'code' in body ? body.code : undefined;
}
