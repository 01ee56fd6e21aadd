/** Plans: what an agent proposes, and a person approves or rejects. */
import type { Plan, PlanApproval, Session } from '../contract/api.ts';
import { type Handler, isCurrent, type Principal, type Reply, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { askedSession, askedWith, asker, preferring } from './asked-session.ts';

export const listPlans: Handler<'listPlans'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.plans.list(principal, query),
});

export const getPlan: Handler<'getPlan'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.plans.find(principal, path.plan_id);
  if (!found) throw missing();
  if (isCurrent(headers['If-None-Match'], found.etag)) return { status: 304, headers: { ETag: found.etag } };
  return { status: 200, headers: { ETag: found.etag }, body: found.plan };
};

/** As a document that can be read by itself. */
export const getPlanContent: Handler<'getPlanContent'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.plans.find(principal, path.plan_id);
  if (!found) throw missing();
  const { plan, etag } = found;
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  const body = `# ${plan.title}\n\n${plan.content.trimEnd()}\n`;
  return { status: 200, type: 'text/markdown', headers: { ETag: etag }, body };
};

export const updatePlan: Handler<'updatePlan'> = async ({ principal, path, headers, body }, { store }) => {
  const ifMatch = headers['If-Match'];
  if (ifMatch === undefined)
    throw new Problem('precondition_required', 'Send the ETag of the plan that you have read as If-Match.');
  const { plan, etag } = await store.plans.update(principal, path.plan_id, body, ifMatch);
  return { status: 200, headers: { ETag: etag }, body: plan };
};

export const deletePlan: Handler<'deletePlan'> = async ({ principal, path, headers }, { store }) => {
  await store.plans.delete(principal, path.plan_id, headers['If-Match']);
  return { status: 204 };
};

export const listPlanVersions: Handler<'listPlanVersions'> = async (
  { principal, path, query },
  { store },
) => ({
  status: 200,
  body: await store.plans.versions(principal, path.plan_id, query),
});

export const approvePlan: Handler<'approvePlan'> = async (call, services) => {
  const { principal, path, body = {}, earlierRun } = call;
  const { store, runtime, draining } = services;
  if (earlierRun !== null) return begunRun(principal, earlierRun, store);
  if (draining()) throw new Problem('draining', 'The server is stopping; try again in a moment.');
  if (body.permission_mode === 'bypass' && !principal.operator)
    throw new Problem('permission_mode_refused', 'Only an operator may use the permission mode bypass.');
  const found = await store.plans.find(principal, path.plan_id);
  const home = found && (await store.sessions.find(principal, found.plan.session_id));
  if (!found || !home) throw missing();
  const { session } = home;
  const { runId } = await runtime.start({
    session: askedSession(session),
    ...asker(principal),
    trigger: 'api',
    messages: [{ role: 'user', parts: [{ type: 'text', text: orderOf(found.plan, body) }] }],
    agentSlug: body.agent_slug ?? (await carrierOf(session, services)),
    ...(body.model !== undefined && { model: body.model }),
    ...(body.permission_mode !== undefined && { permissionMode: body.permission_mode }),
    ...askedWith(principal),
    ...preferring(await store.preferences.preferredModel(principal.userId)),
    onUnanswered: 'wait',
    // The text above is that of this version: another one must not count as approved.
    approval: {
      planId: found.plan.id,
      version: body.version ?? found.plan.version,
      comment: body.comment ?? null,
      origin: principal.origin,
    },
  });
  return begunRun(principal, runId, store);
};

/** A profile that may change nothing cannot carry anything out. */
async function carrierOf(session: Session, { runtime }: Services): Promise<string> {
  const { slug, permission_mode } = await runtime.profile(session.agent_slug, session.workspace_id);
  return permission_mode === 'read_only' ? 'coder' : slug;
}

async function begunRun(
  principal: Principal,
  runId: string,
  { runs }: Services['store'],
): Promise<Reply<'approvePlan'>> {
  const begun = await runs.find(principal, runId);
  if (!begun) throw missing();
  return { status: 202, headers: { Location: `/api/v1/runs/${runId}` }, body: begun.run };
}

export const rejectPlan: Handler<'rejectPlan'> = async ({ principal, path, body = {} }, { store }) => ({
  status: 200,
  body: await store.plans.reject(principal, path.plan_id, body),
});

/** What the agent is told that carries the plan out. */
function orderOf({ title, content, steps }: Plan, { comment }: PlanApproval): string {
  return [
    'The plan below was approved. Carry it out.',
    ...(comment === undefined ? [] : [`The person who approved it adds: ${comment}`]),
    ...(steps.length === 0 ? [] : [`${stepsToTell}\n${steps.map(lineOf).join('\n')}`]),
    `# ${title}`,
    content,
  ].join('\n\n');
}

const stepsToTell =
  'Tell with the tool plan_step when you begin with a step, and when it is done. These are the steps:';

/** What an earlier run has told of a step is worth knowing. */
function lineOf({ id, text, status }: Plan['steps'][number]): string {
  return `${id}: ${text}${status === 'pending' ? '' : ` (${status})`}`;
}

function missing(): Problem {
  return new Problem('not_found', 'No plan has this id, or it is not yours.');
}
