/** Asks a provider that speaks the Messages API in the client's own words, and hands on its answer as it comes. */
import type { OutboundFetch } from '../../outbound/outbound.ts';
import { ModelFailure, type RelayedAnswer, type RelayedEvent, type RelayRequest } from '../models/model.ts';
import type { ProviderConnection, RequestBody } from './provider-factory.ts';
import { failureOf, timedOut, withoutSecrets } from './provider-failures.ts';
import { Silence } from './silence.ts';

/** One request on its way. */
export interface RelayCall {
  readonly connection: ProviderConnection;
  readonly request: RelayRequest;
  /** What the body becomes: its model by the provider's name, and what the settings add. */
  readonly body: RequestBody;
  readonly fetch: OutboundFetch;
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
  const { connection, request, body, fetch, signal } = call;
  const silence = new Silence(call.silenceMs);
  const url = `${(connection.baseUrl ?? ownBaseUrl).replace(/\/$/, '')}/messages${request.beta ? '?beta=true' : ''}`;
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: headersOf(connection, request),
      body: JSON.stringify(body),
      signal: AbortSignal.any([signal, silence.signal]),
    });
    if (!response.ok) throw await refusalOf(response);
    if (body.stream === true) return { events: events(response, call, silence) };
    const message: unknown = await response.json();
    silence.end();
    return { message: message as Record<string, unknown> }; // any other form breaks the contract where that is checked
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

/** In the form of the errors of the AI SDK, whose meaning is known. */
async function refusalOf(response: Response): Promise<Error> {
  const responseBody = (await response.text()).slice(0, mostRefusalCharacters);
  return Object.assign(new Error(`The provider refused with status ${response.status}`), {
    statusCode: response.status,
    responseHeaders: Object.fromEntries(response.headers),
    responseBody,
  });
}

const mostRefusalCharacters = 4000;

/** The events as they come. An answer that ends without its last event was cut. */
async function* events(response: Response, call: RelayCall, silence: Silence): AsyncGenerator<RelayedEvent> {
  try {
    for await (const data of frames(response)) {
      silence.heard();
      const event: unknown = JSON.parse(data);
      if (!isEvent(event)) continue;
      if (event.type === 'error') throw failedWithin(event);
      yield event;
      if (event.type === 'message_stop') return;
    }
    throw new ModelFailure('provider_failed', 'retry', 'The provider cut its answer short.');
  } catch (error) {
    throw meaningOf(error, call, silence);
  } finally {
    silence.end();
  }
}

function isEvent(value: unknown): value is RelayedEvent {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

/** Statuses are known to mean something; within a stream there is a type in the place of one. */
function failedWithin({ error }: RelayedEvent): Error {
  const type = typeof error === 'object' && error !== null && 'type' in error ? error.type : null;
  const statusCode = type === 'overloaded_error' ? 529 : type === 'rate_limit_error' ? 429 : 500;
  return Object.assign(new Error('The provider ended its answer with an error'), { statusCode });
}

/** The data of each frame; an event is named in its data once more. */
async function* frames(response: Response): AsyncGenerator<string> {
  let rest = '';
  for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    rest += text;
    const complete = rest.split(/\r?\n\r?\n/);
    rest = complete.pop() ?? '';
    if (rest.length > mostFrameCharacters) throw new Error('A frame has no end');
    for (const frame of complete) {
      const lines = frame.split(/\r?\n/).filter((line) => line.startsWith('data:'));
      if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join('\n');
    }
  }
}

const mostFrameCharacters = 32 * 1024 * 1024;

/** What a failure of the call means: whoever aborted it knows why, and wants no second reason. */
function meaningOf(error: unknown, { signal, silenceMs, secrets }: RelayCall, silence: Silence): unknown {
  if (signal.aborted) return error;
  if (silence.signal.aborted) return timedOut(silenceMs, withoutSecrets(error, secrets));
  return failureOf(error, secrets);
}
