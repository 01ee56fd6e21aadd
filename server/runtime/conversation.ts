/** Turns stored messages into what a model may be shown. */
import type { Message, MessagePart, ToolResult } from '../contract/api.ts';
import type { ModelMessage } from './model.ts';
import type { Todo } from './tools/tool.ts';

type Spoken = Pick<Message, 'role' | 'parts' | 'run_id' | 'stop_reason'>;

/**
 * Every tool call gets a result: providers refuse a history in which one is missing, as after a crash. The beginning of an
 * answer that was then asked for again is left out; `atWork` is the run that is about to ask.
 */
export function toModelMessages(stored: readonly Spoken[], atWork?: string): ModelMessage[] {
  const messages = stored.filter(
    (message, index) => !wasAskedAgain(message, stored.slice(index + 1), atWork),
  );
  return messages.flatMap((message, index) => {
    // The results of a call are placed behind it below; on their own they would answer nothing.
    if (message.role === 'tool' || message.parts.length === 0) return [];
    const calls = message.parts.flatMap((part) => (part.type === 'tool_use' ? [part] : []));
    if (calls.length === 0) return [{ role: message.role, parts: message.parts }];
    const results = calls.map(
      (call) => resultOf(call.id, messages[index + 1]) ?? interruptedResult(call.id, call.name),
    );
    return [
      { role: message.role, parts: message.parts },
      { role: 'tool', parts: results },
    ];
  });
}

/** An answer that a process left unfinished when it died; one that a person stopped is the last word of its run. */
function wasAskedAgain(message: Spoken, later: readonly Spoken[], atWork: string | undefined): boolean {
  if (message.role !== 'assistant' || message.stop_reason !== 'interrupted' || message.run_id === null)
    return false;
  if (message.run_id === atWork) return true;
  return later.some(({ role, run_id }) => role === 'assistant' && run_id === message.run_id);
}

function resultOf(toolUseId: string, next: Spoken | undefined): ToolResult | undefined {
  return next?.parts.find((part) => part.type === 'tool_result' && part.tool_use_id === toolUseId) as
    | ToolResult
    | undefined; // the predicate has checked the type
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

/** The agent's list of what is to do, as its last successful call left it. */
export function todosOf(messages: readonly { readonly parts: readonly MessagePart[] }[]): readonly Todo[] {
  const parts = messages.flatMap((message) => message.parts);
  const failed = new Set(
    parts.flatMap((part) => (part.type === 'tool_result' && part.is_error ? [part.tool_use_id] : [])),
  );
  const call = parts.findLast(
    (part) => part.type === 'tool_use' && part.name === 'todos' && !failed.has(part.id),
  );
  const todos = call?.type === 'tool_use' ? call.input.todos : undefined;
  // The tool has checked the input before it succeeded.
  return Array.isArray(todos) ? (todos as Todo[]) : [];
}
