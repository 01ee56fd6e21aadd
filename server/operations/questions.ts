/** What runs ask people: may a tool call run, and what the agent wants to know. */
import type { Handler } from '../handler.ts';

export const listPermissionRequests: Handler<'listPermissionRequests'> = async (call, { store }) => {
  return {
    status: 200,
    body: await store.permissions.list(call.principal, call.path.session_id, call.query),
  };
};

export const replyPermission: Handler<'replyPermission'> = async (
  { principal, path, body },
  { store, runtime },
) => {
  const request = await store.permissions.answer(principal, path.session_id, path.request_id, body);
  runtime.wake(request.run_id);
  return { status: 200, body: request };
};

export const listPromptRequests: Handler<'listPromptRequests'> = async (call, { store }) => {
  return { status: 200, body: await store.prompts.list(call.principal, call.path.session_id, call.query) };
};

export const replyPrompt: Handler<'replyPrompt'> = async ({ principal, path, body }, { store, runtime }) => {
  const request = await store.prompts.answer(principal, path.session_id, path.request_id, body);
  runtime.wake(request.run_id);
  return { status: 200, body: request };
};
