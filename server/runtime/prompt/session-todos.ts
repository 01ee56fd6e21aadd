/** The agent's list of what is to do, as it stands in what is stored of its session. */
import type { Message, MessagePart } from '../../contract/api.ts';
import { todosIn } from '../tools/todos.ts';
import type { Todo } from '../tools/tool.ts';
import type { Transcript } from '../transcript.ts';

/** Whoever has called in vain for as long as that has no list. */
const mostMessages = 50;

/** With a run named, as that has left it. */
export async function readTodos(
  transcript: Transcript,
  sessionId: string,
  runId?: string,
): Promise<readonly Todo[]> {
  const calls = { tool: 'todos', limit: mostMessages };
  return todosOf(await transcript.readCalls(sessionId, calls, runId)) ?? [];
}

/** The same where messages are read already: only before a summary there can be more. */
export async function todosWith(
  stored: readonly Message[],
  transcript: Transcript,
  sessionId: string,
  runId: string,
): Promise<readonly Todo[]> {
  const isWhole = !stored.some(({ summary }) => summary);
  return todosOf(stored) ?? (isWhole ? [] : readTodos(transcript, sessionId, runId));
}

/** As the last successful call left it; null where there was none. */
export function todosOf(
  messages: readonly { readonly parts: readonly MessagePart[] }[],
): readonly Todo[] | null {
  const failed = new Set<string>();
  for (const part of messages.flatMap((message) => message.parts).toReversed()) {
    if (part.type === 'tool_result' && part.is_error) failed.add(part.tool_use_id);
    if (part.type !== 'tool_use') continue;
    // Some models count their calls anew with each answer: the result is that of this one, and of none before.
    const hasFailed = failed.delete(part.id);
    // Of others' calls of that name, a client's or an import's, nobody has checked what they say.
    const todos = part.name === 'todos' && !hasFailed ? todosIn(part.input) : null;
    if (todos !== null) return todos;
  }
  return null;
}
