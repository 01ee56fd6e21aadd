/** Where a run stood when its process died or stopped: what it had stored, and what it had begun. */
import type { MessagePart } from '../../contract/api.ts';
import { tokensOf } from '../prompt/context-use.ts';
import { toModelMessages } from '../prompt/conversation.ts';
import { todosWith } from '../prompt/session-todos.ts';
import type { NumberedEvent, TakenRun, Transcript } from '../transcript.ts';
import { callRecords } from './call-record.ts';
import { addThought, type Draft } from './draft.ts';
import { callsOf, type Progress } from './progress.ts';

/** Reads the run's progress out of the store; `draft` is what was streamed of an answer that was not finished. */
export async function readProgress(transcript: Transcript, run: TakenRun): Promise<Progress> {
  const stored = await transcript.readMessages(run.sessionId, run.runId);
  // With the last event that was committed: it may tell which model is asked now.
  const told = await eventsAfter(transcript, run.runId, Math.max(run.committedEventId - 1, 0));
  const events = told.filter(({ seq }) => seq > run.committedEventId);
  const ofRun = stored.filter((message) => message.run_id === run.runId);
  const complete = ofRun.filter(
    ({ role, stop_reason, summary }) => role !== 'assistant' || (stop_reason !== 'interrupted' && !summary),
  );
  const last = complete.at(-1);
  const answer = complete.findLast(({ role }) => role === 'assistant');
  const isAnswered = last?.role === 'assistant';
  const pending = isAnswered ? callsOf(last.parts) : [];
  const conversation = toModelMessages(stored, run.runId);
  // The results of calls that are still to be carried out are none yet.
  if (pending.length > 0) conversation.pop();
  const model = newestModel(told) ?? ofRun.findLast((message) => message.model !== null)?.model ?? run.model;
  return {
    conversation,
    memory: {
      todos: newestTodos(events) ?? (await todosWith(stored, transcript, run.sessionId, run.runId)),
    },
    steps: run.steps,
    usage: run.usage,
    cost: run.cost,
    toolUses: partsOf(complete, 'tool_use'),
    toolResults: partsOf(complete, 'tool_result'),
    messageId: last?.id ?? '',
    answer: answer?.parts ?? [],
    stopReason: isAnswered ? last.stop_reason : null,
    pending,
    records: callRecords(run.runId, events),
    told: new Set(),
    askedModel: model,
    draft: unfinishedDraft(model, events, new Set(stored.map(({ id }) => id)), tokensOf(conversation)),
  };
}

/** How often the run was resumed after a death since it last stored a step. */
export async function resumptionsInVain(transcript: Transcript, run: TakenRun): Promise<number> {
  const events = await eventsAfter(transcript, run.runId, run.committedEventId);
  return events.filter(
    ({ name, data }) => name === 'runtime' && data.type === 'run_resumed' && data.reason === 'lease_lost',
  ).length;
}

async function eventsAfter(transcript: Transcript, runId: string, after: number): Promise<NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for (;;) {
    const page = await transcript.readEvents(runId, events.at(-1)?.seq ?? after, pageSize);
    if (page.length === 0) return events;
    events.push(...page);
  }
}

const pageSize = 1000;

function newestTodos(events: readonly NumberedEvent[]) {
  const told = events.flatMap(({ name, data }) =>
    name === 'runtime' && data.type === 'todos_updated' ? [data.todos] : [],
  );
  return told.at(-1);
}

/** As far as events tell: each answer that was stored since names its own. */
function newestModel(events: readonly NumberedEvent[]): string | undefined {
  const told = events.flatMap(({ name, data }) => {
    if (name !== 'runtime') return [];
    if (data.type === 'model_replaced') return [data.to];
    return data.type === 'model_retried' ? [data.model] : [];
  });
  return told.at(-1);
}

/** The text of the newest message that was streamed and is neither stored nor, since its run was last resumed, paid for. */
function unfinishedDraft(
  model: string,
  events: readonly NumberedEvent[],
  stored: ReadonlySet<string>,
  reads: number,
): Draft | null {
  const resumed = events.findLastIndex(({ name, data }) => name === 'runtime' && data.type === 'run_resumed');
  const deltas = events
    .slice(resumed + 1)
    .flatMap(({ name, data }) => (name === 'message' && !stored.has(data.message_id) ? [data] : []));
  const messageId = deltas.at(-1)?.message_id;
  if (messageId === undefined) return null;
  const parts: MessagePart[] = [];
  let bytes = 0;
  for (const delta of deltas) {
    if (delta.message_id !== messageId) continue;
    bytes += Buffer.byteLength(delta.type === 'tool_input_delta' ? delta.json : delta.text);
    if (delta.type === 'tool_input_delta') continue;
    const last = parts.at(-1);
    if (delta.type === 'reasoning_delta') addThought(parts, delta);
    else if (last?.type === 'text') last.text += delta.text;
    else parts.push({ type: 'text', text: delta.text });
  }
  return { messageId, model, parts, unreadable: new Set(), finish: null, reads, bytes };
}

function partsOf<Type extends MessagePart['type']>(
  messages: readonly { readonly parts: readonly MessagePart[] }[],
  type: Type,
): Extract<MessagePart, { type: Type }>[] {
  const parts = messages.flatMap((message) => message.parts);
  return parts.filter((part): part is Extract<MessagePart, { type: Type }> => part.type === type);
}
