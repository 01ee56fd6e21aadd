/** Turns stored messages into what a model may be shown. */
import type { Message, MessagePart, ToolResult } from '../../contract/api.ts';
import { givenAnew } from '../../given-anew.ts';
import type { FilePart, ModelMessage, ModelMessagePart } from '../models/model.ts';

type Spoken = Pick<Message, 'role' | 'parts' | 'run_id' | 'stop_reason'> &
  Partial<Pick<Message, 'usage' | 'summary' | 'excluded' | 'model'>>;

/**
 * Begins at the newest summary, and leaves out what a provider refused. Every tool call gets a result: providers refuse a
 * history in which one is missing, as after a crash. The beginning of an answer that was then asked for again is left
 * out; `atWork` is the run that is about to ask.
 */
export function toModelMessages(stored: readonly Spoken[], atWork?: string): ModelMessage[] {
  const shown = shownOf(stored, atWork);
  const at = shown.findLastIndex(({ summary }) => summary);
  const summary = shown[at];
  if (!summary) return spoken(shown);
  // Summed up in the middle of a run, it was asked for something before, which is still to be done. Copies and what was
  // imported belong to no run: whatever they asked for was asked elsewhere.
  const prompt = shown
    .slice(0, at)
    .findLast(({ role, run_id }) => role === 'user' && run_id !== null && run_id === summary.run_id);
  return [
    ...fromSummary(plainText(summary.parts), prompt?.parts ?? null),
    ...spokenBehind(shown.slice(0, at), shown.slice(at + 1)),
  ];
}

function shownOf<Given extends Spoken>(stored: readonly Given[], atWork?: string): Given[] {
  const anew = givenAnew(stored, atWork);
  return stored.filter((message) => !message.excluded && !anew.has(message));
}

/**
 * What a run was asked for and has given no answer to yet, what a client's tools gave before it among it: a summary leaves
 * it out, and stands before it. Nothing once there is an answer.
 */
export function unansweredOf(
  stored: readonly Message[],
  runId: string,
): { readonly first: string | null; readonly shown: readonly ModelMessage[] } {
  const shown = shownOf(stored, runId).filter(({ summary, run_id }) => !summary || run_id !== runId);
  const prompt = shown.findIndex(({ run_id }) => run_id === runId);
  const isAnswered = shown.some(({ role, run_id }) => role === 'assistant' && run_id === runId);
  if (prompt === -1 || isAnswered) return { first: null, shown: [] };
  const others = shown.slice(0, prompt);
  // Of all that came with a query its last message alone belongs to its run.
  const begin = others.findLastIndex(({ role, run_id }) => role !== 'tool' || run_id !== null) + 1;
  return {
    first: shown[begin]?.id ?? null,
    shown: spokenBehind(shown.slice(0, begin), shown.slice(begin)),
  };
}

/**
 * What a client's tools gave may be the first that is behind a summary: their calls come along. What was counted with
 * those is of the conversation as it was.
 */
function spokenBehind(before: readonly Spoken[], behind: readonly Spoken[]): ModelMessage[] {
  const isGiven = behind[0]?.role === 'tool';
  const calling = isGiven ? before.findLast(({ role, summary }) => role === 'assistant' && !summary) : null;
  if (!calling?.parts.some(({ type }) => type === 'tool_use')) return spoken(behind);
  const { usage: _ofBefore, ...calls } = calling;
  return spoken([calls, ...behind]);
}

/** As much of a prompt as is repeated behind the summary that tells of it. */
const promptLimit = 8000;

/** What the model is shown in the place of all that was summed up. */
export function fromSummary(summary: string, prompt: readonly MessagePart[] | null): ModelMessage[] {
  const asked = prompt ? plainText(prompt) : '';
  const words = asked.length > promptLimit ? `${asked.slice(0, promptLimit).toWellFormed()} […]` : asked;
  const repeated = words ? `\n\nWhat the person had asked for last, in their own words:\n\n${words}` : '';
  return [{ role: 'user', parts: [{ type: 'text', text: `${beginning}${summary}${repeated}` }] }];
}

const beginning = 'The conversation so far, summed up:\n\n';

/** Whether a message stands for all that was summed up. */
export function isSummary({ role, parts: [first] }: ModelMessage): boolean {
  return role === 'user' && first?.type === 'text' && first.text.startsWith(beginning);
}

function plainText(parts: readonly MessagePart[]): string {
  return parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

function spoken(messages: readonly Spoken[]): ModelMessage[] {
  return messages.flatMap((message, index) => {
    // The results of a call are placed behind it below; on their own they would answer nothing.
    if (message.role === 'tool' || message.parts.length === 0) return [];
    const calls = message.parts.flatMap((part) => (part.type === 'tool_use' ? [part] : []));
    const { role, parts, model } = message;
    const said = { role, parts: shownParts(parts), ...countOf(message), ...(model && { model }) };
    if (calls.length === 0) return [said];
    const given = resultsBehind(messages, index);
    const results = calls.map((call) => given.get(call.id) ?? interruptedResult(call.id, call.name));
    return [said, { role: 'tool', parts: results }];
  });
}

/** What a model is shown of stored parts, once what is kept was read: see `withFiles`. */
export function shownParts(parts: readonly MessagePart[]): ModelMessagePart[] {
  return parts.map((part): ModelMessagePart => {
    if (part.type !== 'file') return part;
    const { media_type: mediaType, name, data, url, sha256, size } = part;
    const content = data ?? (url === undefined ? null : URL.parse(url)) ?? '';
    const file = { type: 'file' as const, mediaType, data: content, ...(name !== undefined && { name }) };
    if (data === undefined && sha256 !== undefined) return { ...file, kept: { sha256, size: size ?? 0 } };
    return content === '' ? leftOut(file) : file;
  });
}

/** What a model is told in the place of a file. */
export function leftOut({ name, mediaType }: FilePart): ModelMessagePart {
  return { type: 'text', text: `[Here was a file, which is not shown any more: ${name ?? mediaType}]` };
}

/**
 * What was used by an answer that broke off is estimated, and no measure of what comes next; nor is what an import says of
 * answers that no run here has given: by that, people would be charged for what breaks off.
 */
function countOf({ usage, stop_reason, run_id }: Spoken): { readonly tokens?: number } {
  if (run_id === null || stop_reason === 'interrupted' || stop_reason === 'error') return {};
  const tokens = usage ? usage.input_tokens + usage.output_tokens : 0;
  return tokens > 0 ? { tokens } : {};
}

/** Those of our own tools come first; those that a caller carried out come with its next query. */
function resultsBehind(messages: readonly Spoken[], index: number): ReadonlyMap<string, ToolResult> {
  const results = new Map<string, ToolResult>();
  for (let at = index + 1; messages[at]?.role === 'tool'; at += 1)
    for (const part of messages[at]?.parts ?? [])
      if (part.type === 'tool_result') results.set(part.tool_use_id, part);
  return results;
}

/** What the model is told of a call that was cut off. */
export function interruptedResult(toolUseId: string, name: string): ToolResult {
  return {
    type: 'tool_result',
    tool_use_id: toolUseId,
    name,
    content: 'The call was interrupted; whether it had an effect is not known.',
    is_error: true,
  };
}
