/** An answer of the model as it is written: streamed to whoever watches, and kept for the transcript. */
import type { MessagePart, StopReason } from '../../contract/api.ts';
import { newId } from '../../ids.ts';
import type { EventLog } from '../events/event-log.ts';
import {
  type AnswerTerms,
  type Model,
  type ModelMessage,
  type ModelPart,
  noUsage,
  type TokenCount,
} from '../models/model.ts';
import { estimateInput, tokensOfBytes } from '../prompt/context-use.ts';
import { systemPrompt } from '../prompt/system-prompt.ts';
import type { Tool } from '../tools/tool.ts';
import type { NewMessage } from '../transcript.ts';
import type { RunScope } from './run-scope.ts';
import { countedOr, type Spending, spendingOf } from './spending.ts';

/** A model's answer as far as it has come. */
export interface Draft {
  readonly messageId: string;
  /** The full name of the model that writes it. */
  readonly model: string;
  readonly parts: MessagePart[];
  /** The ids of calls whose arguments nobody can read. */
  readonly unreadable: Set<string>;
  finish: Extract<ModelPart, { type: 'finish' }> | null;
  /** What its provider says that it has read, where it said so at the beginning. */
  read?: TokenCount;
  /** About how many tokens the model was given to read. */
  reads: number;
  /** What it has written so far, arguments of tool calls among it that nobody will carry out. */
  bytes: number;
}

export function newDraft(model: string): Draft {
  return {
    messageId: newId('message'),
    model,
    parts: [],
    unreadable: new Set(),
    finish: null,
    reads: 0,
    bytes: 0,
  };
}

/** Streams one answer of the model into the draft and to whoever watches. */
export async function writeDraft(
  scope: RunScope,
  log: EventLog,
  messages: readonly ModelMessage[],
  tools: readonly Tool[],
  draft: Draft,
  terms: AnswerTerms,
): Promise<void> {
  const own = tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
  const request = {
    ...scope.generation,
    ...terms,
    system: await systemPrompt(scope, tools),
    messages,
    tools: [...own, ...scope.callerTools],
  };
  draft.reads = estimateInput(request);
  for await (const part of scope.model.stream(request, scope.signal)) {
    addPart(draft, part);
    const chunk = chunkOf(draft.messageId, part);
    if (chunk) await log.push({ name: 'message', data: chunk });
  }
}

/** What the model has said next. */
export function addPart(draft: Draft, part: ModelPart): void {
  const last = draft.parts.at(-1);
  if (part.type === 'text' || part.type === 'reasoning') draft.bytes += Buffer.byteLength(part.text);
  if (part.type === 'tool_input') draft.bytes += Buffer.byteLength(part.json);
  if (part.type === 'text') {
    if (last?.type === 'text') last.text += part.text;
    else draft.parts.push({ type: 'text', text: part.text });
  } else if (part.type === 'reasoning') {
    addThought(draft.parts, part);
  } else if (part.type === 'tool_use') {
    draft.parts.push({ type: 'tool_use', id: part.id, name: part.name, input: part.input });
    if (part.unreadable) draft.unreadable.add(part.id);
  } else if (part.type === 'read') {
    draft.read = part.usage;
  } else if (part.type === 'finish') {
    draft.finish = part;
  }
}

/** A signature ends a thought; one that is shown to nobody stands for itself. */
export function addThought(
  parts: MessagePart[],
  {
    text,
    signature,
    redacted,
  }: Pick<Extract<ModelPart, { type: 'reasoning' }>, 'text' | 'signature' | 'redacted'>,
): void {
  const last = parts.at(-1);
  const signed = {
    ...(signature !== undefined && { signature }),
    ...(redacted !== undefined && { redacted }),
  };
  const isOpen = last?.type === 'reasoning' && last.signature === undefined && last.redacted === undefined;
  if (isOpen && redacted === undefined)
    parts[parts.length - 1] = { ...last, text: last.text + text, ...signed };
  else parts.push({ type: 'reasoning', text, ...signed });
}

function chunkOf(messageId: string, part: ModelPart) {
  if (part.type === 'text') return { type: 'text_delta', message_id: messageId, text: part.text } as const;
  if (part.type === 'reasoning') {
    const { type: _kind, ...thought } = part;
    return { type: 'reasoning_delta', message_id: messageId, ...thought } as const;
  }
  if (part.type !== 'tool_input') return null;
  return {
    type: 'tool_input_delta',
    message_id: messageId,
    tool_call_id: part.id,
    tool_name: part.name,
    json: part.json,
  } as const;
}

/** Whether anybody has seen something of it: of a tool call the beginning of its arguments, too. */
export function isSeen(draft: Draft | null): boolean {
  return draft !== null && (draft.parts.length > 0 || draft.bytes > 0);
}

/** What is left of an answer that was not finished. */
export interface Unfinished extends Spending {
  /** Who has written it. */
  readonly model?: string;
  /** What was streamed of it: nobody may have seen text that is nowhere. */
  readonly messages: readonly NewMessage[];
}

/**
 * The provider wants to be paid for what it has written. Where it has not come to say how much that is, it is estimated;
 * of an answer that had not begun nobody knows whether it was read at all, unless its provider has said so.
 */
export async function unfinishedAnswer(
  draft: Draft | null,
  model: Pick<Model, 'name'> & Partial<Pick<Model, 'facts'>>,
  stopReason: StopReason,
): Promise<Unfinished> {
  if (!draft || (!draft.finish && !draft.read && draft.bytes === 0))
    return { messages: [], usage: noUsage, cost: 0 };
  const count = countOf(draft);
  // Another model may have taken its place, whose price says nothing of this one; and no price is worth an end that fails.
  const facts = draft.model === model.name ? await model.facts?.().catch(() => null) : null;
  const spending = facts ? spendingOf(facts, count) : { usage: count, cost: null };
  const parts = draft.parts.filter((part) => part.type !== 'tool_use');
  const messages = parts.length === 0 ? [] : [assistantMessage({ ...draft, parts }, stopReason, spending)];
  return { messages, ...spending, model: draft.model };
}

/** What the answer has used so far. */
export function countOf({ finish, read, reads, bytes, parts }: Draft): TokenCount {
  const writes = tokensOfBytes(bytes) || parts.length;
  return countedOr(finish?.usage ?? (read && { ...read, output_tokens: writes }), { reads, writes });
}

export function assistantMessage(
  draft: Draft,
  stopReason: StopReason,
  { usage, cost }: Spending,
): NewMessage {
  return {
    id: draft.messageId,
    role: 'assistant',
    parts: draft.parts,
    model: draft.model,
    stop_reason: stopReason,
    usage,
    cost,
  };
}
