/** Asks a provider that speaks the Messages API in the client's own words, and hands on its answer as it comes. */
import { type OutboundCall, textOf } from '../../outbound/outbound.ts';
import type { RelayedAnswer, RelayedPiece, RelayRequest } from '../models/model.ts';
import { dropLate } from './left-answer.ts';
import type { ProviderConnection, RequestBody } from './provider-factory.ts';
import { cutShort, failureOf, timedOut, withoutSecrets } from './provider-failures.ts';
import { refusalOf } from './refusal.ts';
import { FrameReader } from './relayed-frames.ts';
import { Silence } from './silence.ts';

/** One request on its way. */
export interface RelayCall {
  readonly connection: ProviderConnection;
  readonly request: RelayRequest;
  /** What the body becomes: its model by the provider's name, and what the settings add. */
  readonly body: RequestBody;
  readonly call: OutboundCall;
  readonly signal: AbortSignal;
  readonly silenceMs: number;
  /** Those of the connection: no failure will quote them. */
  readonly secrets: readonly string[];
}

const ownBaseUrl = 'https://api.anthropic.com/v1';

/** The version that every server of this API knows. */
const usualVersion = '2023-06-01';

/** Throws ModelFailure, or whatever aborted. */
export async function relayMessages(call: RelayCall): Promise<RelayedAnswer> {
  const { connection, request, body, signal } = call;
  const silence = new Silence(call.silenceMs, signal);
  const url = `${(connection.baseUrl ?? ownBaseUrl).replace(/\/$/, '')}/messages${request.beta ? '?beta=true' : ''}`;
  try {
    const answer = await call.call(url, {
      method: 'POST',
      headers: headersOf(connection, request),
      body: JSON.stringify(body),
      signal: silence.signal,
    });
    if (answer.status < 200 || answer.status > 299) throw await refusalOf(answer);
    if (body.stream === true) return { pieces: pieces(answer, call, silence) };
    const message: unknown = JSON.parse(await textOf(answer.body));
    silence.end();
    // Any other form breaks the contract where that is checked.
    return { message: { ...(message as object), model: request.body.model } };
  } catch (error) {
    silence.end();
    throw meaningOf(error, call, silence);
  }
}

function headersOf({ apiKey, authToken, headers }: ProviderConnection, { version, betas }: RelayRequest) {
  return {
    'Content-Type': 'application/json',
    'anthropic-version': version ?? usualVersion,
    ...(betas && { 'anthropic-beta': betas }),
    ...(authToken ? { Authorization: `Bearer ${authToken}` } : { 'x-api-key': apiKey ?? '' }),
    ...headers,
  };
}

type Answer = Awaited<ReturnType<OutboundCall>>;

/** The frames as they come. An answer that ends without its last one was cut. */
async function* pieces({ body }: Answer, call: RelayCall, silence: Silence): AsyncGenerator<RelayedPiece> {
  const frames = new FrameReader(String(call.request.body.model));
  let complete = false;
  try {
    for (;;) {
      const { done, value } = await body.next();
      if (done) throw cutShort();
      silence.heard();
      const { piece, failure } = frames.read(value);
      complete = piece?.last ?? false;
      if (piece) yield piece;
      if (complete) return;
      if (failure) throw failure;
    }
  } catch (error) {
    throw meaningOf(error, call, silence);
  } finally {
    silence.end();
    // What was cut cannot be left either, and would say so in the place of what the failure means.
    if (complete) dropLate(body);
    else await body.return?.().catch(() => undefined);
  }
}

/** What a failure of the call means: whoever aborted it knows why, and wants no second reason. */
function meaningOf(error: unknown, { signal, silenceMs, secrets }: RelayCall, silence: Silence): unknown {
  if (signal.aborted) return error;
  if (silence.signal.aborted) return timedOut(silenceMs, withoutSecrets(error, secrets));
  return failureOf(error, secrets);
}
