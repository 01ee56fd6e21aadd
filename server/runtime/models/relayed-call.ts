/** One call that a provider answers in the client's own words: passed on as it comes, and metered on the way. */
import { estimateTokens } from '../prompt/context-use.ts';
import { addUsage, countedOr, spendingOf } from '../runs/spending.ts';
import type { SpentByCall } from '../transcript.ts';
import { believedCount, believedTokens } from './believed-counts.ts';
import { addCosts } from './cost.ts';
import {
  type Model,
  type ModelFacts,
  ModelFailure,
  problemOfModel,
  type RelayedAnswer,
  type RelayedPiece,
  type RelayRequest,
  type TokenCount,
} from './model.ts';

/** Told once what the call has used. */
type Spent = (spending: SpentByCall) => Promise<void>;

/** A model whose provider speaks the Messages API, and what is known of its others: one may advise it. */
export interface RelayedModel {
  readonly model: Model;
  readonly factsOf: (modelId: string) => Promise<ModelFacts>;
}

/** Throws Problem. */
export async function relayOnce(
  asked: RelayedModel,
  request: RelayRequest,
  spent: Spent,
  signal: AbortSignal,
): Promise<RelayedAnswer> {
  const { model } = asked;
  if (!model.relay) throw new Error(`The provider of ${model.name} does not speak the Messages API`);
  try {
    const answer = await model.relay(request, signal);
    if ('pieces' in answer) return { pieces: new Metered(asked, request, answer.pieces, spent) };
    const { content, usage } = answer.message;
    const writes = () => estimateTokens(JSON.stringify(content ?? []));
    await spent(await spentOn(asked, countedAt(request, countOf(usage), writes), usage));
    return answer;
  } catch (error) {
    throw problemOf(error);
  }
}

/** Tells what an answer has used with its last piece, or once it has failed or was left. By hand, as what it reads is. */
class Metered implements AsyncIterableIterator<RelayedPiece> {
  readonly #asked: RelayedModel;
  readonly #request: RelayRequest;
  readonly #pieces: AsyncIterator<RelayedPiece>;
  readonly #spent: Spent;
  #usage: Readonly<Record<string, unknown>> = {};
  #heard = 0;
  #counted = false;
  #told = false;

  constructor(asked: RelayedModel, request: RelayRequest, pieces: AsyncIterable<RelayedPiece>, spent: Spent) {
    this.#asked = asked;
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
    await this.#spent(await spentOn(this.#asked, count, this.#usage));
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

/** What it writes faster has a price that nobody here knows. */
async function spentOn(
  { model, factsOf }: RelayedModel,
  count: TokenCount,
  said: unknown,
): Promise<SpentByCall> {
  const facts = await model.facts();
  const isFast = memberOf(said, 'speed') === 'fast';
  let { usage, cost } = spendingOf(facts, count);
  for (const { modelId, count } of countsBeside(said)) {
    const beside = spendingOf(modelId === null ? facts : await factsOf(modelId), count);
    [usage, cost] = [addUsage(usage, beside.usage), addCosts(cost, beside.cost)];
  }
  return { model: model.name, usage, cost: isFast ? null : cost };
}

/** Far more than an answer has; each may name another model. */
const mostCountsBeside = 100;

/**
 * What this vendor leaves out of the count of the answer: what was used to make the conversation shorter, and what another
 * of its models, which is named, has used to advise.
 */
function countsBeside(said: unknown): { readonly modelId: string | null; readonly count: TokenCount }[] {
  const entries = memberOf(said, 'iterations');
  return (Array.isArray(entries) ? entries : []).slice(0, mostCountsBeside).flatMap((entry: unknown) => {
    const [type, model] = [memberOf(entry, 'type'), memberOf(entry, 'model')];
    if (type !== 'compaction' && type !== 'advisor_message') return [];
    const isNamed = type === 'advisor_message' && typeof model === 'string';
    return [{ modelId: isNamed ? model : null, count: countOf(entry) }];
  });
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
