/** What fills a model's window, part by part, for people: estimated by length, since no provider tells it so. */
import type { ContextPart, Message } from '../../contract/api.ts';
import type { ModelMessage, ModelMessagePart, ToolDefinition } from '../models/model.ts';
import { estimatePart, estimateTokens, tokensPerMessage } from './context-use.ts';
import { toModelMessages } from './conversation.ts';
import type { PromptPart } from './system-prompt.ts';

/** Of the next call in the session; parts that take nothing are left out. */
export function contextParts(
  prompt: readonly PromptPart[],
  tools: readonly ToolDefinition[],
  stored: readonly Message[],
): ContextPart[] {
  const sizes = new Map<ContextPart['part'], number>();
  const add = (part: ContextPart['part'], tokens: number) => sizes.set(part, (sizes.get(part) ?? 0) + tokens);
  for (const { from, text } of prompt) add(partOf(from), estimateTokens(text));
  // As they are sent: of a tool there may be more to know than what a model is told.
  for (const { name, description, inputSchema } of tools)
    add('tools', estimateTokens(JSON.stringify({ name, description, inputSchema })));
  const isSummed = stored.some(({ summary, excluded }) => summary && !excluded);
  for (const [index, message] of toModelMessages(stored).entries())
    for (const [part, tokens] of sizesOf(message)) add(isSummed && index === 0 ? 'summary' : part, tokens);
  return [...sizes].filter(([, tokens]) => tokens > 0).map(([part, tokens]) => ({ part, tokens }));
}

function partOf(from: PromptPart['from']): ContextPart['part'] {
  if (from === null) return 'system_prompt';
  return from === 'context' ? 'context_files' : from;
}

function sizesOf({ parts }: ModelMessage): (readonly [ContextPart['part'], number])[] {
  const sized = parts.map((part) => [kindOf(part), estimatePart(part)] as const);
  return [['messages', tokensPerMessage], ...sized];
}

function kindOf(part: ModelMessagePart): ContextPart['part'] {
  return part.type === 'tool_result' ? 'tool_results' : 'messages';
}
