/** Ask an agent: one answer, or a stream of what it does. */
import type { QueryRequest, Session } from '../contract/api.ts';
import type { Call, GivenPassages, Handler, Principal, Query, Services, StartedRun } from '../handler.ts';
import { Problem } from '../problem.ts';
import { type AskedSession, askedSession, askedWith, asker, askerIn, searcher } from './asked-session.ts';
import { failureOf } from './failed-run.ts';
import { quotaNotice } from './quota-notice.ts';
import { titleOf, untitled } from './session-title.ts';
import { requireStillValid } from './still-valid.ts';

export const createQuery: Handler<'createQuery'> = async (call, services) => {
  const { principal, signal } = call;
  const { runId, notices } = await runOf(call, 'deny', services);
  for await (const event of services.runtime.follow(runId, { after: 0, follow: true, signal })) {
    if (event.name === 'done') return { status: 200, headers: quotaNotice(notices), body: event.data };
    if (event.name === 'error') throw await failure(principal, runId, services);
  }
  // The caller has gone; the run goes on, and its result stands in the run.
  throw new Problem('request_timeout', 'The connection closed before the run had ended.');
};

export const streamQuery: Handler<'streamQuery'> = async (call, services) => {
  const { signal } = call;
  const { runId, notices } = await runOf(call, 'wait', services);
  return {
    status: 200,
    type: 'text/event-stream',
    headers: { 'X-Run-Id': runId, ...quotaNotice(notices) },
    body: services.runtime.follow(runId, { after: 0, follow: true, signal }),
  };
};

export const estimateQuery: Handler<'estimateQuery'> = async ({ principal, body, signal }, services) => {
  const { store, runtime } = services;
  const { found, workspaceId, preferred } = await checkQuery(principal, body, services);
  const session = found ?? (await sessionToBe(principal, body, workspaceId, store));
  const corpus = await retrieve({ principal, body, signal }, workspaceId, services);
  const query = {
    ...queryIn(session, principal, body, { onUnanswered: 'deny', corpus }),
    ...preferring(preferred),
  };
  return { status: 200, body: await runtime.estimate(query) };
};

/** The session that the query would begin, of which nothing is stored. */
async function sessionToBe(
  principal: Principal,
  { prompt }: QueryRequest,
  workspaceId: string | undefined,
  { sessions }: Services['store'],
): Promise<AskedSession> {
  // Without a workspace there is no session either, as the store says.
  if (workspaceId === undefined)
    return (await sessions.create(principal, { title: titleOf(prompt) })).session;
  const nothing = { agent_slug: 'coder', model: null, system_prompt: null, permission_rules: [] };
  return { id: '', workspace_id: workspaceId, ...nothing };
}

/** The run of the query; of one that came before, the run that it began then. */
async function runOf(
  { principal, body, earlierRun, signal }: Pick<Call<'createQuery'>, 'earlierRun'> & Asking,
  onUnanswered: 'wait' | 'deny',
  services: Services,
): Promise<Pick<StartedRun, 'runId' | 'notices'>> {
  if (earlierRun === null) return startQuery({ principal, body, signal }, onUnanswered, services);
  if (!(await services.store.runs.find(principal, earlierRun)))
    throw new Problem('not_found', 'The run that this query began is gone, or it is not yours.');
  return { runId: earlierRun, notices: [] };
}

/** Everything that can be refused is refused before anything is stored. */
async function startQuery(
  asking: Asking,
  onUnanswered: 'wait' | 'deny',
  services: Services,
): Promise<StartedRun> {
  const { runtime, store } = services;
  const { principal, body } = asking;
  const { found, workspaceId, preferred } = await checkQuery(principal, body, services);
  // What would be refused leaves no empty session behind, and asks no model for a vector.
  const wouldLeave = !found || body.corpus_id !== undefined;
  if (wouldLeave && workspaceId !== undefined) await refuseExceeded(principal, workspaceId, services);
  const corpus = await retrieve(asking, workspaceId, services);
  // A search may wait for a model, and whoever was removed meanwhile leaves no session behind.
  if (corpus) await requireStillValid(principal, services);
  const session = found ?? (await store.sessions.create(principal, { title: titleOf(body.prompt) })).session;
  const nameless = !found || (session.message_count === 0 && session.title === untitled);
  const query = queryIn(session, principal, body, { onUnanswered, corpus });
  return runtime.start({
    ...query,
    ...preferring(preferred),
    session: { ...query.session, ...(nameless && { provisionalTitle: session.title }) },
  });
}

type Asking = Pick<Call<'createQuery'>, 'principal' | 'body' | 'signal'>;

/** As many as fit beside a conversation, and as many as a model can be expected to heed. */
const passagesOfQuery = 8;
/** What a person asks stands at the beginning or at the end of what they paste; all of it finds nothing any more. */
const longestSearch = 2000;

/** What the corpus of the query, which is within reach, has to say to its prompt. It counts where the query counts. */
async function retrieve(
  { principal, body: { corpus_id, prompt }, signal }: Asking,
  workspaceId: string | undefined,
  services: Services,
): Promise<GivenPassages | null> {
  if (corpus_id === undefined) return null;
  const isLong = prompt.length > 2 * longestSearch;
  const query = isLong ? `${prompt.slice(0, longestSearch)} ${prompt.slice(-longestSearch)}` : prompt;
  const place = workspaceId === undefined ? null : await placeOf(principal, workspaceId, services);
  const { data, notice } = await services.passageSearch.search(
    searcher(principal, place),
    { corpusIds: [corpus_id], query: query.toWellFormed(), mode: 'hybrid', topK: passagesOfQuery },
    signal,
  );
  return { corpusId: corpus_id, passages: data, notice };
}

async function refuseExceeded(principal: Principal, workspaceId: string, services: Services): Promise<void> {
  const place = await placeOf(principal, workspaceId, services);
  if (!place) return;
  await services.store.quotas.refuseExceeded(principal, place, asker(principal).apiKeyId ?? null);
}

async function placeOf(principal: Principal, workspaceId: string, { store }: Services) {
  const workspace = await store.workspaces.find(principal, workspaceId);
  return workspace && { organizationId: workspace.organizationId, workspaceId };
}

/** The session that the query names, and the workspace of it or of the one to be. */
interface CheckedQuery {
  readonly found: Session | null;
  readonly workspaceId: string | undefined;
  /** The model that the caller wants where nothing names another. */
  readonly preferred: string | null;
}

async function checkQuery(
  principal: Principal,
  body: QueryRequest,
  { runtime, store, draining }: Services,
): Promise<CheckedQuery> {
  if (draining()) throw new Problem('draining', 'The server is stopping; try again in a moment.');
  if (body.corpus_id !== undefined && !(await store.corpora.find(principal, body.corpus_id)))
    throw new Problem('corpus_not_found', 'No corpus has this id, or it is not yours; leave corpus_id out.');
  if (body.permission_mode === 'bypass' && !principal.operator)
    throw new Problem('permission_mode_refused', 'Only an operator may use the permission mode bypass.');
  const found = body.session_id === undefined ? null : await store.sessions.find(principal, body.session_id);
  if (body.session_id !== undefined && !found)
    throw new Problem('not_found', 'No session has this id, or it is not yours.');
  const workspaceId = found?.session.workspace_id ?? (await store.workspaces.defaultOf(principal))?.id;
  const named = body.model ?? found?.session.model ?? null;
  const preferred =
    named === null ? (await store.preferences.find(principal)).preferences.default_model : null;
  const names = {
    ...(body.agent_slug !== undefined && { agentSlug: body.agent_slug }),
    model: named ?? preferred,
  };
  // Without a workspace there is no session either, as the store says below.
  if (workspaceId !== undefined) await runtime.check(names, askerIn(principal, workspaceId));
  return { found: found?.session ?? null, workspaceId, preferred };
}

function preferring(preferredModel: string | null): Pick<Query, 'preferredModel'> {
  return preferredModel === null ? {} : { preferredModel };
}

function queryIn(
  session: AskedSession,
  principal: Principal,
  body: QueryRequest,
  { onUnanswered, corpus }: Pick<Query, 'onUnanswered'> & { readonly corpus: GivenPassages | null },
): Query {
  return {
    session: askedSession(session),
    ...asker(principal),
    trigger: 'api',
    messages: [{ role: 'user', parts: [{ type: 'text', text: body.prompt }] }],
    ...(body.agent_slug !== undefined && { agentSlug: body.agent_slug }),
    ...(body.model !== undefined && { model: body.model }),
    ...(body.permission_mode !== undefined && { permissionMode: body.permission_mode }),
    ...askedWith(principal, { limits: body.limits ?? null, ...(corpus && { corpus }) }),
    onUnanswered,
  };
}

async function failure(principal: Principal, runId: string, { store }: Services): Promise<Problem> {
  return failureOf((await store.runs.find(principal, runId))?.run);
}
