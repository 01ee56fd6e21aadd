/** One call that a provider answers in the client's own words: passed on as it comes, and metered on the way. */
import { estimateTokens } from '../prompt/context-use.ts';
import { countedOr, spendingOf } from '../runs/spending.ts';
import type { SpentByCall } from '../transcript.ts';
import { believedCount, believedTokens } from './believed-counts.ts';
import {
  type Model,
  ModelFailure,
  problemOfModel,
  type RelayedAnswer,
  type RelayedPiece,
  type RelayRequest,
  type TokenCount,
} from './model.ts';

/** Told once what the call has used. */
type Spent = (spending: SpentByCall) => Promise<void>;

/** Only for a model whose provider speaks the Messages API. Throws Problem. */
export async function relayOnce(
  model: Model,
  request: RelayRequest,
  spent: Spent,
  signal: AbortSignal,
): Promise<RelayedAnswer> {
  if (!model.relay) throw new Error(`The provider of ${model.name} does not speak the Messages API`);
  try {
    const answer = await model.relay(request, signal);
    if ('pieces' in answer) return { pieces: new Metered(model, request, answer.pieces, spent) };
    const { content, usage } = answer.message;
    const writes = () => estimateTokens(JSON.stringify(content ?? []));
    await spent(await spentOn(model, countedAt(request, countOf(usage), writes)));
    return answer;
  } catch (error) {
    throw problemOf(error);
  }
}

/** Tells what an answer has used with its last piece, or once it has failed or was left. By hand, as what it reads is. */
class Metered implements AsyncIterableIterator<RelayedPiece> {
  readonly #model: Model;
  readonly #request: RelayRequest;
  readonly #pieces: AsyncIterator<RelayedPiece>;
  readonly #spent: Spent;
  #usage: Readonly<Record<string, unknown>> = {};
  #heard = 0;
  #counted = false;
  #told = false;

  constructor(model: Model, request: RelayRequest, pieces: AsyncIterable<RelayedPiece>, spent: Spent) {
    this.#model = model;
    this.#request = request;
    this.#pieces = pieces[Symbol.asyncIterator]();
    this.#spent = spent;
  }

  next(): Promise<IteratorResult<RelayedPiece>> {
    return this.#pieces.next().then(this.#read, this.#fail);
  }

  async return(): Promise<IteratorResult<RelayedPiece>> {
    await this.#pieces.return?.();
    await this.#end();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  readonly #read = (
    next: IteratorResult<RelayedPiece>,
  ): IteratorResult<RelayedPiece> | Promise<IteratorResult<RelayedPiece>> => {
    if (next.done) return next;
    const { heard, usage, counted, last } = next.value;
    this.#heard += heard;
    // Said anew with the end of the answer, maybe more than once; what is not said again stays.
    if (usage) this.#usage = { ...this.#usage, ...usage };
    this.#counted ||= counted;
    return last ? this.#tell(this.#count()).then(() => next) : next;
  };

  readonly #fail = async (error: unknown): Promise<never> => {
    await this.#end();
    throw problemOf(error);
  };

  async #end(): Promise<void> {
    if (this.#told) return;
    if (this.#counted) return await this.#tell(this.#count());
    const count = countOf(this.#usage);
    // An answer that says at its begin what was read has been paid for, whatever else was heard of it.
    if (this.#heard === 0 && count.input_tokens + count.output_tokens === 0) return;
    // Nobody counts what an answer has used that was not heard to its end; what was heard of it is no gift.
    const input = count.input_tokens || readsOf(this.#request);
    const output = Math.max(count.output_tokens, this.#writes());
    await this.#tell({ ...count, input_tokens: input, output_tokens: output });
  }

  #count(): TokenCount {
    return countedAt(this.#request, countOf(this.#usage), this.#writes);
  }

  readonly #writes = (): number => Math.ceil(this.#heard / 4);

  async #tell(count: TokenCount): Promise<void> {
    this.#told = true;
    await this.#spent(await spentOn(this.#model, count));
  }
}

/** A provider that does not count makes no gift of its answers. */
function countedAt(request: RelayRequest, count: TokenCount, writes: () => number): TokenCount {
  if (count.input_tokens + count.output_tokens > 0) return count;
  return countedOr(count, { reads: readsOf(request), writes: writes() });
}

function readsOf({ body }: RelayRequest): number {
  return estimateTokens(JSON.stringify(body.messages));
}

async function spentOn(model: Model, count: TokenCount): Promise<SpentByCall> {
  return { model: model.name, ...spendingOf(await model.facts(), count) };
}

/** This vendor counts what came from its cache, and what went there, apart from the rest. */
function countOf(usage: unknown): TokenCount {
  const count = numbersIn(usage);
  const cached = count('cache_read_input_tokens');
  const written = count('cache_creation_input_tokens');
  return believedTokens({
    input_tokens: count('input_tokens') + cached + written,
    output_tokens: count('output_tokens'),
    cached_input_tokens: cached,
    cacheWriteTokens: written,
    longCacheWriteTokens: numbersIn(memberOf(usage, 'cache_creation'))('ephemeral_1h_input_tokens'),
    webSearches: numbersIn(memberOf(usage, 'server_tool_use'))('web_search_requests'),
  });
}

function numbersIn(value: unknown): (name: string) => number {
  return (name) => believedCount(memberOf(value, name));
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

function problemOf(error: unknown): unknown {
  return error instanceof ModelFailure ? problemOfModel(error) : error;
}
