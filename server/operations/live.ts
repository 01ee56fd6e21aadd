/** What a session is doing right now. */
import type { Session } from '../contract/api.ts';
import type { Call, Handler, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { askedSession } from './asked-session.ts';

export const listQueuedPrompts: Handler<'listQueuedPrompts'> = async (
  { principal, path, query },
  { store },
) => ({
  status: 200,
  body: await store.queue.list(principal, path.session_id, query),
});

export const clearQueuedPrompts: Handler<'clearQueuedPrompts'> = async (
  { principal, path },
  { store, runtime },
) => {
  for (const runId of await store.queue.clear(principal, path.session_id)) runtime.wake(runId);
  return { status: 204 };
};

export const listSessionTodos: Handler<'listSessionTodos'> = async (call, services) => {
  const session = await requireSession(call, services);
  return { status: 200, body: { data: await todosOf(session.id, services), next_cursor: null } };
};

export const inspectSession: Handler<'inspectSession'> = async (call, services) => {
  const { principal, signal } = call;
  const session = await requireSession(call, services);
  const { store, runtime } = services;
  const pending = { status: 'pending', limit: 100 } as const;
  const [run, queue, permissions, prompts, todos, inspection] = await Promise.all([
    store.runs.current(principal, session.id),
    store.queue.list(principal, session.id, { limit: 100 }),
    store.permissions.list(principal, session.id, pending),
    store.prompts.list(principal, session.id, pending),
    todosOf(session.id, services),
    runtime.inspect(askedSession(session), signal),
  ]);
  const { model, window, parts, tools, extensions, jobs, unavailable } = inspection;
  return {
    status: 200,
    body: {
      session_id: session.id,
      status: session.status,
      agent_slug: session.agent_slug,
      ...{ model, run, todos, unavailable },
      queue: queue.data,
      permission_requests: permissions.data,
      prompt_requests: prompts.data,
      context: {
        used: session.context.used,
        window: window ?? session.context.window,
        estimated: parts.reduce((sum, { tokens }) => sum + tokens, 0),
        parts: [...parts],
      },
      tools: [...tools],
      extensions: [...extensions],
      jobs: [...jobs],
    },
  };
};

async function requireSession(
  { principal, path }: Pick<Call<'inspectSession'>, 'principal' | 'path'>,
  { store }: Services,
): Promise<Session> {
  const found = await store.sessions.find(principal, path.session_id);
  if (!found) throw new Problem('not_found', 'No session has this id, or it is not yours.');
  return found.session;
}

async function todosOf(sessionId: string, { runtime }: Services) {
  return (await runtime.todos(sessionId)).map((todo) => ({ ...todo }));
}
