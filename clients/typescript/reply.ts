/** Answers what a run asks a person. */
import type { ServiceClient } from './client.ts';
import type { PermissionReply, PermissionRequest, PromptReply, PromptRequest } from './generated/api.ts';

// It earns its place: a request event carries all that the answer needs, and every reader of a stream would write these
// two calls again. They go by the ids and not by `reply_path`, so that no text of an event decides where the credential
// is sent.

/** Lets a tool call run or refuses it; the first answer stands (409 `already_answered`, 410 `request_expired`). */
export async function replyPermission(
  client: ServiceClient,
  request: Pick<PermissionRequest, 'session_id' | 'id'>,
  body: PermissionReply,
  { signal = null }: { signal?: AbortSignal | null } = {},
): Promise<PermissionRequest> {
  const path = { session_id: request.session_id, request_id: request.id };
  const url = '/api/v1/sessions/{session_id}/permissions/{request_id}/reply';
  return (await client.POST(url, { params: { path }, body, signal })).data;
}

/** Answers the questions of the agent, or declines them with `{ cancelled: true }`; the first answer stands. */
export async function replyPrompt(
  client: ServiceClient,
  request: Pick<PromptRequest, 'session_id' | 'id'>,
  body: PromptReply,
  { signal = null }: { signal?: AbortSignal | null } = {},
): Promise<PromptRequest> {
  const path = { session_id: request.session_id, request_id: request.id };
  const url = '/api/v1/sessions/{session_id}/prompts/{request_id}/reply';
  return (await client.POST(url, { params: { path }, body, signal })).data;
}
