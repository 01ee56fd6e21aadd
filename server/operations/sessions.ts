/** Persisted conversations and their messages. */
import { type Handler, isCurrent, type Principal, type Reply, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { removeFiles } from './after-changes.ts';
import { askedSession, askedWith, asker, askerIn, preferring } from './asked-session.ts';

export const listSessions: Handler<'listSessions'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.sessions.list(principal, query),
});

export const createSession: Handler<'createSession'> = async ({ principal, body }, { store, runtime }) => {
  const workspace =
    body.workspace_id === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, body.workspace_id);
  if (!workspace) throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
  await runtime.check(namesIn(body), askerIn(principal, workspace.id));
  const { session, etag } = await store.sessions.create(principal, body);
  return { status: 201, headers: { Location: `/api/v1/sessions/${session.id}`, ETag: etag }, body: session };
};

export const getSession: Handler<'getSession'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.sessions.find(principal, path.session_id);
  if (!found) throw missing();
  if (isCurrent(headers['If-None-Match'], found.etag)) return { status: 304, headers: { ETag: found.etag } };
  return { status: 200, headers: { ETag: found.etag }, body: found.session };
};

export const updateSession: Handler<'updateSession'> = async (call, { store, runtime }) => {
  const { principal, path, headers, body } = call;
  const found = await store.sessions.find(principal, path.session_id);
  if (!found) throw missing();
  await runtime.check(namesIn(body), askerIn(principal, found.session.workspace_id));
  const { session, etag } = await store.sessions.update(
    principal,
    path.session_id,
    body,
    headers['If-Match'],
  );
  return { status: 200, headers: { ETag: etag }, body: session };
};

export const deleteSession: Handler<'deleteSession'> = async ({ principal, path, headers }, services) => {
  const { sessions } = services.store;
  const sessionIds = await sessions.delete(principal, path.session_id, headers['If-Match']);
  await removeFiles({ workspaceIds: [], sessionIds }, services);
  return { status: 204 };
};

export const interruptSession: Handler<'interruptSession'> = async (
  { principal, path, body },
  { store, runtime },
) => {
  const runs = await store.runs.activeOf(principal, path.session_id);
  const active = body?.keep_queue ? runs.slice(0, 1) : runs;
  if (active.length === 0) throw new Problem('run_ended', 'Nothing is running or queued in this session.');
  // The last in the queue first, so that none of them begins while the one before it stops.
  for (const run of active.toReversed()) {
    await store.runs.requestInterrupt(principal, run.id, 'requested').catch(unlessEnded);
    runtime.wake(run.id);
  }
  return { status: 202, body: { data: active, next_cursor: null } };
};

export const summarizeSession: Handler<'summarizeSession'> = async (call, { store, runtime, draining }) => {
  const { principal, path, body = {}, earlierRun } = call;
  if (earlierRun !== null) return begunRun(principal, earlierRun, store);
  if (draining()) throw new Problem('draining', 'The server is stopping; try again in a moment.');
  const active = await store.runs.activeOf(principal, path.session_id);
  if (active.length > 0)
    throw new Problem('session_busy', 'The session has a run that has not ended; interrupt it, or wait.');
  const session = (await store.sessions.find(principal, path.session_id))?.session;
  if (!session) throw missing();
  if (session.message_count === 0)
    throw new Problem('session_empty', 'The session has no messages yet; send it a query first.');
  const preferred = await store.preferences.preferredModel(principal.userId);
  const model = body.model ?? session.model ?? preferred;
  await runtime.check({ model }, askerIn(principal, session.workspace_id));
  const { runId } = await runtime.start({
    session: askedSession(session),
    ...asker(principal),
    trigger: 'api',
    messages: [],
    ...(body.model !== undefined && { model: body.model }),
    ...preferring(preferred),
    ...askedWith(principal, { summary: { wishes: body.instructions ?? null } }),
    onUnanswered: 'deny',
  });
  return begunRun(principal, runId, store);
};

async function begunRun(
  principal: Principal,
  runId: string,
  { runs }: Services['store'],
): Promise<Reply<'summarizeSession'>> {
  const run = (await runs.find(principal, runId))?.run;
  if (!run) throw missing();
  return { status: 202, headers: { Location: `/api/v1/runs/${runId}` }, body: run };
}

export const listMessages: Handler<'listMessages'> = async ({ principal, path, query }, { store }) => {
  return { status: 200, body: await store.messages.list(principal, path.session_id, query) };
};

/** What has to be known before a session may name it. */
function namesIn({ agent_slug, model }: { agent_slug?: string; model?: string | null }) {
  return { ...(agent_slug !== undefined && { agentSlug: agent_slug }), ...(model != null && { model }) };
}

/** A run that has ended by itself meanwhile is no reason to leave the others at work. */
function unlessEnded(error: unknown): void {
  if (!(error instanceof Problem && error.code === 'run_ended')) throw error;
}

function missing(): Problem {
  return new Problem('not_found', 'No session has this id, or it is not yours.');
}
