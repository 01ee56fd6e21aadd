/** Requests with an Idempotency-Key: sent again, they have no second effect and get the answer of the first. */
import { createHash } from 'node:crypto';
import type { Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import type { Exchange } from './exchange.ts';
import { readWhole, saidBy, saidWith } from './form.ts';
import type { AnyCall, Caller, EarlierRequest, IdempotentRequest, OnceReceived, Ports } from './ports.ts';
import { type AnyReply, eventsOf } from './wire.ts';

export type PerformOnce = (exchange: Exchange, route: Route, call: AnyCall) => Promise<AnyReply>;

/** Performs operations, those with a key once. */
export function createIdempotency(ports: Pick<Ports, 'perform' | 'requests' | 'log'>): PerformOnce {
  const answering = new Map<string, string>();
  return async (exchange, route, first) => {
    const key = keyOf(route, first);
    if (!key) return ports.perform(route, first);
    const name = `${key.principalId} ${key.key}`;
    const leave = () => answering.delete(name);
    if (route.idempotent === 'file') {
      // What its bytes are nobody knows before they are there.
      if (answering.has(name)) throw inUse();
      answering.set(name, '');
      return await answerFile(route, first, key, ports).finally(leave);
    }
    const { body, said } = await readWhole(first.body);
    const call = { ...first, body };
    const request = requestOf(route, { ...first, body: said }, key);
    const under = answering.get(name);
    if (under !== undefined) throw under === request.fingerprint ? inUse() : reused();
    answering.set(name, request.fingerprint);
    // A run goes on when its caller has gone: whoever asks again gets to it.
    if (route.idempotent === 'run') call.signal.addEventListener('abort', leave);
    try {
      const reply = await answer(request, route, call, ports);
      if (eventsOf(reply) && !exchange.response.destroyed) exchange.response.once('close', leave);
      else leave();
      return reply;
    } catch (error) {
      leave();
      throw error;
    }
  };
}

/**
 * The bytes of a file go to the storage as they arrive, and only at their end it is known whether the request is one
 * that came before: so the key is taken in the transaction that makes the file. Where another server took it
 * meanwhile, the bytes have come in vain.
 */
async function answerFile(
  route: Route,
  call: AnyCall,
  key: Key,
  { requests, perform }: Pick<Ports, 'perform' | 'requests'>,
): Promise<AnyReply> {
  const earlier = await requests.find(key);
  if (earlier) return answerOf(earlier, requestOf(route, { ...call, body: await saidBy(call.body) }, key));
  const onceReceived: OnceReceived = async (sha256, work) => {
    const request = requestOf(route, { ...call, body: saidWith(call.body, sha256) }, key);
    const reply = await requests.once(request, work);
    if (reply) return reply;
    const faster = await requests.find(key);
    if (!faster) throw inUse();
    // Kept as the answer of the same operation to the same request.
    return answerOf(faster, request) as Awaited<ReturnType<typeof work>>;
  };
  return await perform(route, { ...call, onceReceived });
}

function answerOf({ fingerprint, reply }: EarlierRequest, request: IdempotentRequest): AnyReply {
  if (fingerprint !== request.fingerprint) throw reused();
  if (!reply) throw inUse();
  return reply;
}

async function answer(
  request: IdempotentRequest,
  route: Route,
  call: AnyCall,
  { requests, perform, log }: Pick<Ports, 'perform' | 'requests' | 'log'>,
): Promise<AnyReply> {
  const repeat = (earlier: EarlierRequest): AnyReply | Promise<AnyReply> => {
    if (earlier.fingerprint !== request.fingerprint) throw reused();
    if (earlier.reply) return earlier.reply;
    if (earlier.runId !== null) return perform(route, { ...call, earlierRun: earlier.runId });
    throw inUse();
  };
  const earlier = await requests.find(request);
  if (earlier) return repeat(earlier);
  if (route.idempotent === 'answer') {
    const reply = await perform(route, call);
    // A stream of the vendor's surface cannot be read again: it is kept from running twice at once only.
    if (!eventsOf(reply))
      await requests.add(request, reply).catch((error: unknown) => {
        // The work is done, and may have been paid for: its caller gets the answer all the same.
        log.error({ err: error }, 'an answer could not be kept for its Idempotency-Key');
      });
    return reply;
  }
  const keepMeanwhile: AnyCall['keepMeanwhile'] = (meanwhile, hiddenMs) =>
    requests.keepMeanwhile(request, meanwhile, hiddenMs);
  const reply = await requests.once(request, () => perform(route, { ...call, keepMeanwhile }));
  if (reply) return reply;
  const faster = await requests.find(request);
  if (!faster) throw inUse();
  return repeat(faster);
}

type Key = Pick<IdempotentRequest, 'principalId' | 'userId' | 'key'>;

function keyOf(route: Route, { headers, principal }: AnyCall): Key | null {
  const key = headers['Idempotency-Key'];
  if (route.idempotent === null || typeof key !== 'string' || !principal) return null;
  return { principalId: principalOf(principal), userId: principal.userId, key };
}

function requestOf(route: Route, call: AnyCall, key: Key): IdempotentRequest {
  const { 'Idempotency-Key': _, ...headers } = call.headers;
  const said = [route.operationId, call.path, call.query, headers, call.body];
  return {
    ...key,
    fingerprint: createHash('sha256').update(inOrder(said)).digest('base64url'),
  };
}

/** Whoever logs in again is the same; two API keys of one account are not. */
function principalOf({ credential, credentialId, userId }: Caller): string {
  return credential === 'login' ? userId : credentialId;
}

/** The same text for the same content, in whatever order its members came. */
function inOrder(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([one], [other]) => (one < other ? -1 : 1)))
      : member,
  );
}

function inUse(): Problem {
  return new Problem(
    'idempotency_key_in_use',
    'The first request with this Idempotency-Key has not been answered yet; wait for its answer, or ask again in a moment.',
  );
}

function reused(): Problem {
  return new Problem(
    'idempotency_key_reused',
    'Another request came with this Idempotency-Key; take a new key for each new request.',
  );
}
