/** One model call that belongs to no run: its answer is passed on, and what it used is told. */
import { estimatePreamble, estimateTokens, tokensOf } from '../prompt/context-use.ts';
import { countedOr, spendingOf } from '../runs/spending.ts';
import type { SpentByCall } from '../transcript.ts';
import {
  type AnswerTerms,
  type Generation,
  type Model,
  ModelFailure,
  type ModelMessage,
  type ModelPart,
  problemOfModel,
  type TokenCount,
  type ToolDefinition,
} from './model.ts';

export interface CompletionRequest {
  readonly system: string;
  readonly messages: readonly ModelMessage[];
  readonly generation: Generation;
  /** The caller's own: what the model asks of them is passed on, and nothing is run. */
  readonly tools?: readonly ToolDefinition[];
  readonly terms?: AnswerTerms;
  /** Nobody reads the answer before its end. */
  readonly whole?: boolean;
  /** Told what the call has used before its last piece, or what it must have used where the caller went away. */
  readonly spent?: (spending: SpentByCall) => Promise<void>;
}

export async function* completeOnce(
  model: Model,
  request: CompletionRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelPart> {
  const { system, messages, generation, tools = [], terms, whole = false, spent } = request;
  let text = '';
  let counted = false;
  let read: TokenCount | undefined;
  try {
    for await (const part of model.stream(
      { ...generation, ...terms, system, messages, tools, whole },
      signal,
    )) {
      if (part.type === 'text' || part.type === 'reasoning') text += part.text;
      if (part.type === 'tool_input') text += part.json;
      if (part.type === 'read') read = part.usage;
      else if (part.type === 'finish') {
        counted = true;
        const usage = countedOr(part.usage, estimateOf(request, text));
        await spent?.({ model: model.name, ...spendingOf(await model.facts(), usage) });
        yield { ...part, usage };
      } else yield part;
    }
  } catch (error) {
    throw error instanceof ModelFailure ? problemOfModel(error) : error;
  } finally {
    // Nobody counts what an answer has used that was not heard to its end; what was heard of it is no gift.
    if (!counted && (text !== '' || read)) {
      const estimate = estimateOf(request, text);
      const usage = countedOr(read && { ...read, output_tokens: estimate.writes }, estimate);
      await spent?.({ model: model.name, ...spendingOf(await model.facts(), usage) });
    }
  }
}

/** What a model would read of the request, by its length. */
export function estimateInput({
  system,
  messages,
  tools = [],
}: Pick<CompletionRequest, 'system' | 'messages' | 'tools'>): number {
  return estimatePreamble(system, tools) + tokensOf(messages);
}

/** An answer that nobody waits for any more, or whose provider does not count, is metered as far as it came. */
function estimateOf(request: CompletionRequest, text: string) {
  return { reads: estimateInput(request), writes: estimateTokens(text) };
}
