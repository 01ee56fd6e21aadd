/** Ask an agent: one answer, or a stream of what it does. */
import type { MessagePart, QueryRequest, Session } from '../contract/api.ts';
import type { Call, GivenPassages, Handler, Principal, Query, Services, StartedRun } from '../handler.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import {
  type AskedSession,
  askedSession,
  askedWith,
  asker,
  askerIn,
  homeOf,
  preferring,
  searcher,
} from './asked-session.ts';
import { failureOf } from './failed-run.ts';
import { eventsExpired, type FoundRun, requireKept } from './kept-events.ts';
import { attachedParts } from './query-attachments.ts';
import { quotaNotice } from './quota-notice.ts';
import { titleOf, untitled } from './session-title.ts';
import { requireStillValid } from './still-valid.ts';

export const createQuery: Handler<'createQuery'> = async (call, services) => {
  const { principal, signal } = call;
  const { runId, notices, earlier } = await runOf(call, 'deny', services);
  // Why it failed stands in the run, and is told for as long as the run is there; what it answered stood in its events.
  if (earlier?.run.status === 'failed') throw failureOf(earlier.run);
  if (earlier) requireKept(earlier, 0);
  for await (const event of services.runtime.follow(runId, { after: 0, follow: true, signal })) {
    if (event.name === 'done') return { status: 200, headers: quotaNotice(notices), body: event.data };
    if (event.name === 'error') throw await failure(principal, runId, services);
  }
  // The caller has gone; the run goes on, and its result stands in the run.
  throw new Problem('request_timeout', 'The connection closed before the run had ended.');
};

export const streamQuery: Handler<'streamQuery'> = async (call, services) => {
  const { signal } = call;
  const { runId, notices, earlier } = await runOf(call, 'wait', services);
  if (earlier) requireKept(earlier, 0);
  return {
    status: 200,
    type: 'text/event-stream',
    headers: { 'X-Run-Id': runId, ...quotaNotice(notices) },
    body: services.runtime.follow(runId, { after: 0, follow: true, signal }),
  };
};

export const estimateQuery: Handler<'estimateQuery'> = async ({ principal, body, signal }, services) => {
  const { runtime } = services;
  const { found, workspace, preferred } = await checkQuery(principal, body, services);
  const session = found ?? sessionToBe('', workspace);
  const asking = { principal, body, signal };
  const corpus = await retrieve(asking, workspace.id, services);
  const attached = await attachedParts(asking, services);
  const query = {
    ...queryIn(session, principal, body, { onUnanswered: 'deny', corpus, attached }),
    ...preferring(preferred),
  };
  return { status: 200, body: await runtime.estimate(query) };
};

/** The session that the query begins, of which nothing is stored yet. */
function sessionToBe(id: string, workspace: Pick<Home, 'id'>): AskedSession {
  const nothing = { agent_slug: 'coder', model: null, system_prompt: null, permission_rules: [] };
  return { id, workspace_id: workspace.id, ...nothing };
}

interface RunOfQuery extends Pick<StartedRun, 'runId' | 'notices'> {
  /** As it stands, of a query that came before. */
  readonly earlier: FoundRun | null;
}

/** The run of the query; of one that came before, the run that it began then. */
async function runOf(
  { principal, body, earlierRun, signal }: Pick<Call<'createQuery'>, 'earlierRun'> & Asking,
  onUnanswered: 'wait' | 'deny',
  services: Services,
): Promise<RunOfQuery> {
  const { store } = services;
  if (earlierRun === null) {
    const asking = { principal, body, signal };
    return { ...(await store.preparing(() => startQuery(asking, onUnanswered, services))), earlier: null };
  }
  const earlier = await store.runs.find(principal, earlierRun);
  if (!earlier) throw new Problem('not_found', 'The run that this query began is gone, or it is not yours.');
  return { runId: earlierRun, notices: [], earlier };
}

/** Everything that can be refused is refused before anything is stored. */
async function startQuery(
  asking: Asking,
  onUnanswered: 'wait' | 'deny',
  services: Services,
): Promise<StartedRun> {
  const { runtime, store } = services;
  const { principal, body } = asking;
  const { found, workspace, preferred } = await checkQuery(principal, body, services);
  // What would be refused asks no model for a vector.
  if (body.corpus_id !== undefined) await refuseExceeded(principal, workspace.id, services);
  // They wait for models, and for who reads documents.
  const [corpus, attached] = await store.keptRequests.apart(async () => [
    await retrieve(asking, workspace.id, services),
    await attachedParts(asking, services),
  ]);
  // A search may wait for a model, a document for whoever reads it: who asked may have gone, or may not ask any more.
  if (corpus || attached.length > 0) {
    asking.signal.throwIfAborted();
    await requireStillValid(principal, services);
  }
  if (found) {
    const query = queryIn(found, principal, body, { onUnanswered, corpus, attached });
    // Also behind a query that failed: the first answer names it.
    const session = { ...query.session, ...(found.title === untitled && { provisionalTitle: found.title }) };
    return runtime.start({ ...query, ...preferring(preferred), session });
  }
  const { organizationId, id: workspaceId } = workspace;
  const title = titleOf(body.prompt);
  const newSession = store.sessions.toBegin(principal, { organizationId, workspaceId, title });
  const session = sessionToBe(newId('session'), workspace);
  const query = queryIn(session, principal, body, { onUnanswered, corpus, attached });
  const titled = { ...query.session, provisionalTitle: title };
  return runtime.start({ ...query, ...preferring(preferred), session: titled, newSession });
}

type Asking = Pick<Call<'createQuery'>, 'principal' | 'body' | 'signal'>;

/** As many as fit beside a conversation, and as many as a model can be expected to heed. */
const passagesOfQuery = 8;
/** What a person asks stands at the beginning or at the end of what they paste; all of it finds nothing any more. */
const longestSearch = 2000;

/** What the corpus of the query, which is within reach, has to say to its prompt. It counts where the query counts. */
async function retrieve(
  { principal, body: { corpus_id, prompt }, signal }: Asking,
  workspaceId: string,
  services: Services,
): Promise<GivenPassages | null> {
  if (corpus_id === undefined) return null;
  const isLong = prompt.length > 2 * longestSearch;
  const query = isLong ? `${prompt.slice(0, longestSearch)} ${prompt.slice(-longestSearch)}` : prompt;
  const place = await placeOf(principal, workspaceId, services);
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
  const given = principal.workspaces.find(({ id }) => id === workspaceId);
  const workspace = given ?? (await store.workspaces.find(principal, workspaceId));
  return workspace && { organizationId: workspace.organizationId, workspaceId };
}

/** A workspace, and the organization that it belongs to. */
type Home = Pick<Principal['workspaces'][number], 'id' | 'organizationId'>;

/** The session that the query names with its workspace, or the workspace of the one to be. */
type CheckedQuery = Preferring &
  (
    | { readonly found: Session; readonly workspace: Pick<Home, 'id'> }
    | { readonly found: null; readonly workspace: Home }
  );

interface Preferring {
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
  const place = found
    ? { found: found.session, workspace: { id: found.session.workspace_id } }
    : { found: null, workspace: await homeIn(principal, store) };
  const named = body.model ?? found?.session.model ?? null;
  const preferred = named === null ? await store.preferences.preferredModel(principal.userId) : null;
  const names = {
    ...(body.agent_slug !== undefined && { agentSlug: body.agent_slug }),
    model: named ?? preferred,
  };
  await runtime.check(names, askerIn(principal, place.workspace.id));
  return { ...place, preferred };
}

/** Without a workspace there is no session either. */
async function homeIn(principal: Principal, { workspaces }: Services['store']): Promise<Home> {
  const home = homeOf(principal) ?? (await workspaces.defaultOf(principal));
  if (!home) throw new Problem('not_found', 'There is no such workspace, or it is not yours.');
  return home;
}

/** What was looked for before the query begins. */
interface Gathered extends Pick<Query, 'onUnanswered'> {
  readonly corpus: GivenPassages | null;
  readonly attached: readonly MessagePart[];
}

function queryIn(
  session: AskedSession,
  principal: Principal,
  body: QueryRequest,
  { onUnanswered, corpus, attached }: Gathered,
): Query {
  return {
    session: askedSession(session),
    ...asker(principal),
    trigger: 'api',
    messages: [{ role: 'user', parts: [{ type: 'text', text: body.prompt }, ...attached] }],
    ...(body.agent_slug !== undefined && { agentSlug: body.agent_slug }),
    ...(body.model !== undefined && { model: body.model }),
    ...(body.permission_mode !== undefined && { permissionMode: body.permission_mode }),
    ...askedWith(principal, { limits: body.limits ?? null, ...(corpus && { corpus }) }),
    onUnanswered,
  };
}

async function failure(principal: Principal, runId: string, { store }: Services): Promise<Problem> {
  const found = await store.runs.find(principal, runId);
  // Only one that failed ends with an error: of another the events were forgotten after it was looked at and before they
  // were read.
  return found && found.run.status !== 'failed' ? eventsExpired(found) : failureOf(found?.run);
}
