/** One model call that belongs to no run: its answer is passed on, and what it used is told. */
import { estimateTokens, tokensOf } from '../prompt/context-use.ts';
import { spendingOf } from '../runs/spending.ts';
import type { SpentByCall } from '../transcript.ts';
import {
  type Generation,
  type Model,
  ModelFailure,
  type ModelMessage,
  type ModelPart,
  noUsage,
  problemOfModel,
} from './model.ts';

export interface CompletionRequest {
  readonly system: string;
  readonly messages: readonly ModelMessage[];
  readonly generation: Generation;
  /** Told what the call has used before its last piece, or what it must have used where the caller went away. */
  readonly spent?: (spending: SpentByCall) => Promise<void>;
}

export async function* completeOnce(
  model: Model,
  request: CompletionRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelPart> {
  const { system, messages, generation, spent } = request;
  let text = '';
  let counted = false;
  try {
    for await (const part of model.stream({ ...generation, system, messages, tools: [] }, signal)) {
      if (part.type === 'text' || part.type === 'reasoning') text += part.text;
      if (part.type === 'finish') {
        counted = true;
        await spent?.({ model: model.name, ...spendingOf(await model.facts(), part.usage) });
      }
      yield part;
    }
  } catch (error) {
    throw error instanceof ModelFailure ? problemOfModel(error) : error;
  } finally {
    // Nobody counts what an answer has used that was not heard to its end; what was heard of it is no gift.
    if (!counted && text !== '')
      await spent?.({ model: model.name, ...(await estimated(model, request, text)) });
  }
}

/** An answer that nobody waits for any more is metered as far as it came. */
async function estimated(
  model: Model,
  { system, messages }: CompletionRequest,
  text: string,
): Promise<Pick<SpentByCall, 'usage' | 'cost'>> {
  const usage = {
    ...noUsage,
    input_tokens: estimateTokens(system) + tokensOf(messages),
    output_tokens: estimateTokens(text),
  };
  return spendingOf(await model.facts(), usage);
}
