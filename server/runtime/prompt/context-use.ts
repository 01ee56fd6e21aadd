/** How full a model's window is: by its provider's own count where there is one, estimated where something was added since. */
import type { FilePart, ModelMessage, ModelMessagePart, ToolDefinition } from '../models/model.ts';

/** Between English prose, of which a token is four bytes or more, and code and other scripts, of which it is less. */
const bytesPerToken = 3.5;
/** What separates a message from the next one. */
export const tokensPerMessage = 4;

/** Nobody counts tokens exactly but the provider; this is meant to be near, and to err on the larger side. */
export function estimateTokens(text: string): number {
  return tokensOfBytes(Buffer.byteLength(text));
}

/** The same for a text that came in many pieces, of which each alone would be rounded. */
export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

/** How long a text may be that is estimated so. */
export function bytesOfTokens(tokens: number): number {
  return Math.floor(tokens * bytesPerToken);
}

/** What instructions and tools add to a conversation. */
export function estimatePreamble(system: string, tools: readonly ToolDefinition[]): number {
  return estimateTokens(system) + tools.reduce((sum, tool) => sum + estimateTokens(JSON.stringify(tool)), 0);
}

/** Whether the provider has counted any of it, and with it what stands before the conversation. */
export function isCounted(conversation: readonly ModelMessage[]): boolean {
  return conversation.some(({ tokens }) => tokens !== undefined);
}

/** What a call reads, instructions and tools among it. */
export function estimateInput({
  system,
  messages,
  tools,
}: {
  readonly system: string;
  readonly messages: readonly ModelMessage[];
  readonly tools: readonly ToolDefinition[];
}): number {
  return tokensOf(messages) + (isCounted(messages) ? 0 : estimatePreamble(system, tools));
}

/** What the next call reads. */
export function tokensOf(conversation: readonly ModelMessage[]): number {
  const counted = conversation.findLastIndex(({ tokens }) => tokens !== undefined);
  const since = conversation.slice(counted + 1);
  return since.reduce(
    (sum, { parts }) => sum + tokensPerMessage + estimateParts(parts),
    conversation[counted]?.tokens ?? 0,
  );
}

function estimateParts(parts: readonly ModelMessagePart[]): number {
  return parts.reduce((sum, part) => sum + estimatePart(part), 0);
}

export function estimatePart(part: ModelMessagePart): number {
  return part.type === 'file' ? estimateFile(part) : estimateTokens(textOf(part));
}

/** Vendors count a picture by its size on the screen, and a document by its pages: some fifty thousand characters each. */
function estimateFile({ mediaType, data, kept }: FilePart): number {
  // Nobody has seen yet what stands behind an address.
  const read = typeof data === 'string' ? data.length : 0;
  const length = kept ? (kept.size * 4) / 3 : read;
  return mediaType.startsWith('image/') ? 1600 : Math.max(1600, Math.ceil(length / 32));
}

function textOf(part: Exclude<ModelMessagePart, FilePart>): string {
  if (part.type === 'tool_use') return `${part.name} ${JSON.stringify(part.input)}`;
  if (part.type === 'tool_result') return part.content;
  // Thoughts are not sent back.
  return part.type === 'text' ? part.text : '';
}

/** Large windows keep room for one long answer; small ones for a fifth of themselves. */
export function isNearlyFull(used: number, window: number | null): boolean {
  if (window === null) return false;
  return window - used <= (window > 200_000 ? 20_000 : window / 5);
}

/** How much of the window one tool result may take. */
const resultShare = 1 / 4;

/** The conversation with tool results cut that would fill the window by themselves; nothing else is changed. */
export function withoutHugeResults(
  conversation: readonly ModelMessage[],
  window: number | null,
): readonly ModelMessage[] {
  if (window === null) return conversation;
  const limit = Math.floor(window * resultShare * bytesPerToken);
  const huge = (part: ModelMessagePart) =>
    part.type === 'tool_result' && Buffer.byteLength(part.content) > limit;
  return conversation.map((message) =>
    message.parts.some(huge)
      ? { ...message, parts: message.parts.map((part) => (huge(part) ? cut(part, limit) : part)) }
      : message,
  );
}

function cut(part: ModelMessagePart, limit: number): ModelMessagePart {
  if (part.type !== 'tool_result') return part;
  // A character has three bytes at most for each of its halves, so that this is never too long.
  const kept = Buffer.from(part.content)
    .subarray(0, limit)
    .toString()
    .replace(/\ufffd+$/, '');
  return {
    ...part,
    content: `${kept}\n\n[Cut here: the result is too long for the model's window. Ask for a part of it.]`,
  };
}
