/** What the stored events tell of the tool calls of an answer whose process died among them. */
import type { PermissionRequest, PromptRequest, ToolResult } from '../../contract/api.ts';
import type { NumberedEvent } from '../transcript.ts';

/** A question as it was stored, and whether the run's events have told how it ended. */
export interface StoredQuestion<Request> {
  readonly request: Request;
  told: boolean;
  /** How a permission ended, where it was told; null means that nobody answered in time. */
  decision?: PermissionRequest['decision'];
}

/** A tool call that was begun. */
export interface CallRecord {
  /** What it gave, where it has ended. */
  result: ToolResult | null;
  permission: StoredQuestion<PermissionRequest> | null;
  /** In the order in which they were asked. */
  readonly prompts: StoredQuestion<PromptRequest>[];
}

type RuntimeEvent = Extract<NumberedEvent, { name: 'runtime' }>['data'];

/**
 * The calls that the run has begun, by their ids. What its agents ask is told in its events too, and the calls of these
 * may bear the same ids: many a model numbers them anew in each conversation.
 */
export function callRecords(runId: string, events: readonly NumberedEvent[]): Map<string, CallRecord> {
  const records = new Map<string, CallRecord>();
  for (const event of events)
    if (event.name === 'runtime' && !isOfOther(runId, event.data)) note(records, event.data);
  return records;
}

function isOfOther(runId: string, data: RuntimeEvent): boolean {
  const asks = data.type === 'permission_requested' || data.type === 'prompt_requested';
  return asks && data.request.run_id !== runId;
}

/**
 * Whether the call's work may have begun, so that nobody knows what came of it. Before a person has allowed it, it has
 * not.
 */
export function mayHaveRun({ permission }: CallRecord): boolean {
  if (permission === null) return true;
  return permission.told && permission.decision !== null && permission.decision !== 'deny';
}

function note(records: Map<string, CallRecord>, data: RuntimeEvent): void {
  if (data.type === 'tool_started') {
    records.set(data.tool_call_id, { result: null, permission: null, prompts: [] });
    return;
  }
  const callId =
    data.type === 'permission_requested' || data.type === 'prompt_requested'
      ? data.request.tool_call_id
      : 'tool_call_id' in data
        ? data.tool_call_id
        : '';
  const record = records.get(callId);
  if (!record) return;
  if (data.type === 'tool_finished')
    record.result = {
      type: 'tool_result',
      tool_use_id: data.tool_call_id,
      name: data.tool_name,
      content: data.content,
      is_error: data.is_error,
    };
  if (data.type === 'permission_requested') record.permission = { request: data.request, told: false };
  const { permission } = record;
  if (data.type === 'permission_resolved' && permission?.request.id === data.request_id)
    Object.assign(permission, { told: true, decision: data.decision });
  if (data.type === 'permission_expired' && permission?.request.id === data.request_id)
    Object.assign(permission, { told: true, decision: null });
  if (data.type === 'prompt_requested') record.prompts.push({ request: data.request, told: false });
  if (data.type === 'prompt_resolved' || data.type === 'prompt_expired') {
    const prompt = record.prompts.find(({ request }) => request.id === data.request_id);
    if (prompt) prompt.told = true;
  }
}
