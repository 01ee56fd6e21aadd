/** What a session is doing right now. */
import type { Session } from '../contract/api.ts';
import type { Call, Handler, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { askedSession, askedWith, asker, preferring } from './asked-session.ts';
import { followWorkspace } from './workspace-stream.ts';

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

export const listSessionChildren: Handler<'listSessionChildren'> = async (
  { principal, path, query },
  { store },
) => {
  const { data, next_cursor } = await store.sessions.children(principal, path.session_id, query);
  const children = data.map((session) => ({ kind: kindOf(session), session }));
  return { status: 200, body: { data: children, next_cursor } };
};

function kindOf({ parent_run_id }: Session): 'agent' | 'fork' {
  return parent_run_id === null ? 'fork' : 'agent';
}

export const listSessionTodos: Handler<'listSessionTodos'> = async (call, services) => {
  const session = await requireSession(call, services);
  return { status: 200, body: { data: await todosOf(session.id, services), next_cursor: null } };
};

export const inspectSession: Handler<'inspectSession'> = async (call, services) => {
  const { principal, signal } = call;
  const session = await requireSession(call, services);
  const { store, runtime } = services;
  const pending = { status: 'pending', limit: 100 } as const;
  const preferred = await store.preferences.preferredModel(principal.userId);
  const [run, queue, permissions, prompts, todos, inspection] = await Promise.all([
    store.runs.current(principal, session.id),
    store.queue.list(principal, session.id, { limit: 100 }),
    store.permissions.list(principal, session.id, pending),
    store.prompts.list(principal, session.id, pending),
    todosOf(session.id, services),
    runtime.inspect(
      {
        session: askedSession(session),
        ...asker(principal),
        ...preferring(preferred),
        ...askedWith(principal),
      },
      signal,
    ),
  ]);
  const { model, window, parts, tools, extensions, memories, jobs, unavailable } = inspection;
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
      memories: memories.map(({ id, scope, kind, content }) => ({ id, scope, kind, content })),
      jobs: [...jobs],
    },
  };
};

export const streamEvents: Handler<'streamEvents'> = async (call, services) => {
  const { principal, query, signal } = call;
  const { store } = services;
  const workspace =
    query.workspace_id === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, query.workspace_id);
  if (!workspace) throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
  const bounds = await store.workspaceEvents.bounds(workspace.id);
  const cursor = cursorOf(call);
  if (cursor !== undefined) requireKept(cursor, bounds);
  const opened = cursor === undefined && query.follow;
  const stream = {
    workspaceId: workspace.id,
    after: cursor ?? (opened ? bounds.last : bounds.pruned),
    opened,
    follow: query.follow,
    filter: { types: query.types?.split(','), sessionId: query.session_id },
    signal,
  };
  return { status: 200, type: 'text/event-stream', body: followWorkspace(stream, services) };
};

/** The header is what browsers send by themselves on a reconnect, so it is the newer of the two. */
function cursorOf({ headers, query }: Call<'streamEvents'>): number | undefined {
  return headers['Last-Event-ID'] === undefined ? query.after : Number(headers['Last-Event-ID']);
}

function requireKept(
  cursor: number,
  { last, pruned }: { readonly last: number; readonly pruned: number },
): void {
  if (cursor > last)
    throw new Problem('invalid_request', `The workspace has no event ${cursor} yet; its newest is ${last}.`);
  if (cursor < pruned)
    throw new Problem(
      'events_expired',
      `The events up to ${pruned} are no longer kept; read the sessions and go on after ${pruned}.`,
    );
}

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
