/** What a query would begin with, told without asking any model. */
import type { QueryEstimate } from '../../contract/api.ts';
import { estimatePreamble, isCounted, isNearlyFull, tokensOf } from '../prompt/context-use.ts';
import { shownParts, toModelMessages } from '../prompt/conversation.ts';
import { withPassages } from '../prompt/passages.ts';
import { type PromptScope, systemPrompt } from '../prompt/system-prompt.ts';
import type { Query } from '../query.ts';
import type { RunScope } from '../runs/run-scope.ts';
import { noUsage } from './model.ts';

/** Nobody pays for an estimate: what is remembered is looked for by words. */
function withoutModels({ memories, ...scope }: RunScope): PromptScope {
  return { ...scope, memories: memories && { ...memories, recalled: memories.recalledByWords } };
}

/** The first call of a run that has not begun. */
export async function estimateRun(scope: RunScope, { messages }: Query): Promise<QueryEstimate> {
  const said = toModelMessages(await scope.transcript.readMessages(scope.sessionId));
  const asked = messages.map(({ role, parts }) => ({ role, parts: shownParts(parts) }));
  const conversation = withPassages([...said, ...asked], scope.corpus, scope.runId);
  const tools = isCounted(said) ? [] : await scope.tools();
  const preamble = isCounted(said)
    ? 0
    : estimatePreamble(await systemPrompt(withoutModels(scope), tools), tools);
  const input = tokensOf(conversation) + preamble;
  const { contextWindow: window, maxOutputTokens, price } = await scope.model.facts();
  const output = scope.generation.maxTokens ?? maxOutputTokens;
  const { options } = await scope.settings();
  return {
    model: scope.model.name,
    input_tokens: input,
    output_tokens: output,
    context: { used: tokensOf(said), window },
    fits: window === null ? null : input < window,
    summarizes: !options?.disable_auto_summarize && said.length > 0 && isNearlyFull(input, window),
    cost: {
      input: price({ ...noUsage, input_tokens: input }),
      output: output === null ? null : price({ ...noUsage, output_tokens: output }),
    },
  };
}
