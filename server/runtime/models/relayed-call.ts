/** One call that a provider answers in the client's own words: passed on as it comes, and metered on the way. */
import { estimateTokens } from '../prompt/context-use.ts';
import { spendingOf } from '../runs/spending.ts';
import type { SpentByCall } from '../transcript.ts';
import {
  type Model,
  ModelFailure,
  noUsage,
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
    if ('pieces' in answer) return { pieces: metered(model, request, answer.pieces, spent) };
    await spent(await spentOn(model, countOf(answer.message.usage)));
    return answer;
  } catch (error) {
    throw problemOf(error);
  }
}

async function* metered(
  model: Model,
  { body }: RelayRequest,
  pieces: AsyncIterable<RelayedPiece>,
  spent: Spent,
): AsyncGenerator<RelayedPiece> {
  let usage: Readonly<Record<string, unknown>> = {};
  let heard = 0;
  let counted = false;
  let told = false;
  const tell = async (count: TokenCount): Promise<void> => {
    told = true;
    await spent(await spentOn(model, count));
  };
  try {
    for await (const piece of pieces) {
      heard += piece.heard;
      // Said anew with the end of the answer, maybe more than once; what is not said again stays.
      if (piece.usage) usage = { ...usage, ...piece.usage };
      counted ||= piece.counted;
      if (piece.last) await tell(countOf(usage));
      yield piece;
    }
  } catch (error) {
    throw problemOf(error);
  } finally {
    if (!told && counted) await tell(countOf(usage));
    // Nobody counts what an answer has used that was not heard to its end; what was heard of it is no gift.
    else if (!told && heard > 0) {
      const count = countOf(usage);
      const input = count.input_tokens || estimateTokens(JSON.stringify(body.messages));
      await tell({ ...count, input_tokens: input, output_tokens: Math.ceil(heard / 4) });
    }
  }
}

async function spentOn(model: Model, count: TokenCount): Promise<SpentByCall> {
  return { model: model.name, ...spendingOf(await model.facts(), count) };
}

/** This vendor counts what came from its cache, and what went there, apart from the rest. */
function countOf(usage: unknown): TokenCount {
  const number = (name: string) => Number(memberOf({ usage }, 'usage')?.[name] ?? 0);
  const cached = number('cache_read_input_tokens');
  const written = number('cache_creation_input_tokens');
  return {
    ...noUsage,
    input_tokens: number('input_tokens') + cached + written,
    output_tokens: number('output_tokens'),
    cached_input_tokens: cached,
    cacheWriteTokens: written,
  };
}

function memberOf(value: unknown, name: string): Record<string, unknown> | undefined {
  const member: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  return typeof member === 'object' && member !== null ? { ...member } : undefined;
}

function problemOf(error: unknown): unknown {
  return error instanceof ModelFailure ? problemOfModel(error) : error;
}
