/** Asks a provider that speaks the Messages API in the client's own words, and hands on its answer as it comes. */
import { parseExact } from '../../exact-json.ts';
import { type OutboundCall, textOf } from '../../outbound/outbound.ts';
import { parseHeld } from '../json-crowd.ts';
import type { RelayedAnswer, RelayedPiece, RelayRequest } from '../models/model.ts';
import { mostHeldBytes } from './answer-bounds.ts';
import { anthropicBaseUrl } from './anthropic-address.ts';
import { dropLate } from './left-answer.ts';
import type { ProviderConnection, RequestBody } from './provider-factory.ts';
import { cutShort, failureOf, timedOut, withoutSecrets } from './provider-failures.ts';
import { refusalOf } from './refusal.ts';
import { FrameReader } from './relayed-frames.ts';
import { framesOfWhole, wholeIn } from './relayed-whole.ts';
import { Silence, wholeAnswerMs } from './silence.ts';

/** One request on its way. */
export interface RelayCall {
  readonly connection: ProviderConnection;
  readonly request: RelayRequest;
  /** What the body becomes: its model by the provider's name, and what the settings add. */
  readonly body: RequestBody;
  readonly call: OutboundCall;
  readonly signal: AbortSignal;
  /** How long the provider may be silent within a stream. */
  readonly silenceMs: number;
  /** Those of the connection: no failure will quote them. */
  readonly secrets: readonly string[];
}

/** The version that every server of this API knows. */
const usualVersion = '2023-06-01';

/** Throws ModelFailure, or whatever aborted. */
export async function relayMessages(call: RelayCall): Promise<RelayedAnswer> {
  const { connection, request, body, signal } = call;
  const silence = new Silence(patienceMs(call), signal);
  const url = `${(connection.baseUrl ?? anthropicBaseUrl).replace(/\/$/, '')}/messages${request.beta ? '?beta=true' : ''}`;
  try {
    const answer = await call.call(url, {
      method: 'POST',
      headers: headersOf(connection, request),
      body: JSON.stringify(body),
      signal: silence.signal,
    });
    if (answer.status < 200 || answer.status > 299) throw await refusalOf(answer);
    const streamed = body.stream === true;
    // A few answer in one piece, whatever they are asked for.
    const inOne = /^application\/json\b/.test(String(answer.headers['content-type'] ?? ''));
    if (streamed && !inOne) return { pieces: new Pieces(answer, call, silence) };
    const said = parseHeld(await textOf(answer.body, mostHeldBytes), parseExact);
    silence.end();
    const whole = { ...wholeIn(said), model: request.body.model };
    return streamed ? { pieces: framesOfWhole(whole) } : { message: whole };
  } catch (error) {
    silence.end();
    throw meaningOf(error, call, silence);
  }
}

function patienceMs({ body, silenceMs }: RelayCall): number {
  const { stream, max_tokens } = body;
  return stream === true || typeof max_tokens !== 'number' ? silenceMs : wholeAnswerMs(silenceMs, max_tokens);
}

function headersOf({ apiKey, authToken, headers }: ProviderConnection, { version, betas }: RelayRequest) {
  return {
    'Content-Type': 'application/json',
    'anthropic-version': version ?? usualVersion,
    ...(authToken ? { Authorization: `Bearer ${authToken}` } : { 'x-api-key': apiKey ?? '' }),
    ...headers,
    ...joinedBetas(betas, headers),
  };
}

/** The client's, whose body may need them, and those of the settings. */
function joinedBetas(betas = '', headers: ProviderConnection['headers'] = {}) {
  const added = Object.entries(headers).flatMap(([name, value]) =>
    name.toLowerCase() === 'anthropic-beta' ? [value] : [],
  );
  const names = [betas, ...added].flatMap((list) => list.split(',').map((name) => name.trim()));
  const all = [...new Set(names)].filter(Boolean);
  return all.length > 0 ? { 'anthropic-beta': all.join(',') } : {};
}

type Answer = Awaited<ReturnType<OutboundCall>>;

/**
 * The frames as they come. An answer that ends without its last one was cut. By hand: a generator would make several turns
 * of each of thousands of pieces.
 */
class Pieces implements AsyncIterableIterator<RelayedPiece> {
  readonly #body: Answer['body'];
  readonly #call: RelayCall;
  readonly #silence: Silence;
  readonly #frames: FrameReader;
  /** What came behind the piece that was read last. */
  #failure: { readonly error: unknown } | null = null;
  #over = false;

  constructor({ body }: Answer, call: RelayCall, silence: Silence) {
    this.#body = body;
    this.#call = call;
    this.#silence = silence;
    this.#frames = new FrameReader(String(call.request.body.model));
  }

  next(): Promise<IteratorResult<RelayedPiece>> {
    if (this.#over) return Promise.resolve({ done: true, value: undefined });
    if (this.#failure) return this.#fail(this.#failure.error);
    return this.#body.next().then(this.#read, this.#fail);
  }

  async return(): Promise<IteratorResult<RelayedPiece>> {
    this.#end();
    await this.#body.return?.().catch(() => undefined);
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  readonly #read = ({
    done,
    value,
  }: IteratorResult<Buffer>): IteratorResult<RelayedPiece> | Promise<IteratorResult<RelayedPiece>> => {
    if (done) return this.#fail(cutShort());
    this.#silence.heard();
    const { piece, failure } = this.#frames.read(value);
    if (failure !== null) this.#failure = { error: failure };
    if (!piece) return this.next();
    if (piece.last) {
      this.#end();
      dropLate(this.#body);
    }
    return { done: false, value: piece };
  };

  /** What was cut cannot be left either, and would say so in the place of what the failure means. */
  readonly #fail = async (error: unknown): Promise<never> => {
    const meaning = this.#over ? error : meaningOf(error, this.#call, this.#silence);
    await this.return();
    throw meaning;
  };

  #end(): void {
    this.#over = true;
    this.#silence.end();
  }
}

/** What a failure of the call means: whoever aborted it knows why, and wants no second reason. */
function meaningOf(error: unknown, { signal, secrets }: RelayCall, silence: Silence): unknown {
  if (signal.aborted) return error;
  if (silence.signal.aborted) return timedOut(silence.limitMs, withoutSecrets(error, secrets));
  return failureOf(error, secrets);
}
