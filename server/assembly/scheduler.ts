/** Begins the runs of jobs, each with the rights that its owner has at that moment. */
import type { Identity, Principal } from '../identity/identity.ts';
import { newId } from '../ids.ts';
import { hasDied, nameOwner } from '../process-name.ts';
import type { Query, Runtime } from '../runtime/runtime.ts';
import { type Scheduler, type StartRefusal, startScheduler } from '../scheduler/scheduler.ts';
import { type ClaimedJobRun, hasRole, type Store } from '../store/store.ts';
import type { ServicesInput } from './input.ts';
import { leaseOf } from './lease.ts';

interface SchedulerParts {
  readonly store: Store;
  readonly identity: Identity;
  readonly runtime: Runtime;
  readonly now: () => Date;
}

/** A command that has the server inside goes when it is done: it begins nothing that others wait for. */
export function beginJobs(input: ServicesInput, parts: SchedulerParts): Scheduler {
  if (input.project) return { wake: () => undefined, stop: async () => undefined };
  const { store, runtime, now } = parts;
  const scheduler = startScheduler<ClaimedJobRun>({
    records: store.jobWork,
    begin: (claimed) => begin(claimed, parts),
    wakeRun: (runId) => runtime.wake(runId),
    draining: input.draining,
    room: () => runtime.limits.inProcess - runtime.activeRuns(),
    owner: nameOwner(),
    hasDied,
    lease: leaseOf(input.settings),
    now,
    log: input.log,
  });
  return { ...scheduler, wake: () => store.keptRequests.whenCommitted(scheduler.wake) };
}

async function begin(
  claimed: ClaimedJobRun,
  { store, identity, runtime }: SchedulerParts,
): Promise<StartRefusal | null> {
  const { userId, apiKeyId, workspaceId } = claimed;
  const principal = await identity.actingFor({ userId, apiKeyId });
  if (typeof principal === 'string') return principal;
  const place = { organization_id: claimed.organizationId, workspace_id: workspaceId };
  if (!hasRole(principal, place, 'member')) return 'access_lost';
  // First: a run that others are in the way of is not prepared whole each time.
  const { organizationId } = claimed;
  await store.quotas.refuseExceeded(principal, { organizationId, workspaceId }, apiKeyId);
  const session = await sessionOf(principal, claimed, store);
  const preferred = (await store.preferences.find(principal)).preferences.default_model;
  await runtime.start({
    session,
    userId,
    ...(apiKeyId !== null && { apiKeyId }),
    trigger: 'schedule',
    messages: [{ role: 'user', parts: [{ type: 'text', text: claimed.prompt }] }],
    agentSlug: claimed.agentSlug,
    ...(claimed.model !== null && { model: claimed.model }),
    ...(preferred !== null && { preferredModel: preferred }),
    permissionMode: claimed.permissionMode,
    request: {
      limits: null,
      summary: null,
      // As they are now: what was taken away from the job since is not left in a session that it has made.
      job: {
        rules: claimed.permissionRules,
        inPlace: claimed.madeSession || session.id !== claimed.sessionId,
      },
      ...(principal.key && {
        key: { rules: principal.key.permissionRules, bound: principal.workspaceId !== undefined },
      }),
    },
    onUnanswered: 'deny',
    occurrence: occurrenceOf(claimed, session.id !== claimed.sessionId),
  });
  return null;
}

function occurrenceOf(claimed: ClaimedJobRun, makesSession: boolean) {
  const { id, worker, claims, name: title, permissionRules, sessionId: replaces } = claimed;
  return { id, worker, claims, session: makesSession ? { title, permissionRules, replaces } : null };
}

/** The one that the job goes on with; where it has none, or that is gone, one that is made with the run. */
async function sessionOf(
  principal: Principal,
  claimed: ClaimedJobRun,
  { sessions }: Store,
): Promise<Query['session']> {
  const { sessionId, workspaceId, agentSlug, model } = claimed;
  const found = sessionId === null ? null : await sessions.find(principal, sessionId);
  if (!found) {
    const nothing = { systemPrompt: null, permissionRules: [] };
    return { id: newId('session'), workspaceId, agentSlug, model, ...nothing };
  }
  const { session } = found;
  return {
    id: session.id,
    workspaceId: session.workspace_id,
    agentSlug: session.agent_slug,
    model: session.model,
    systemPrompt: session.system_prompt,
    permissionRules: session.permission_rules,
  };
}
