/** Workspaces: where sessions and files live, and who may work there. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Handler, isCurrent, type Principal, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { removeFiles, wakeRuns } from './after-changes.ts';
import { ownWorkspace } from './asked-session.ts';

export const listWorkspaces: Handler<'listWorkspaces'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.workspaces.list(principal, query),
});

export const createWorkspace: Handler<'createWorkspace'> = async ({ principal, body }, services) => {
  await requireTerms(principal, body, undefined, services);
  const { path, ...rest } = body;
  const { workspace, etag } = await services.store.workspaces.create(principal, {
    ...rest,
    ...(path !== undefined && { path: await services.workspaceFolders.accept(path) }),
  });
  const headers = { Location: `/api/v1/workspaces/${workspace.id}`, ETag: etag };
  return { status: 201, headers, body: workspace };
};

export const getWorkspace: Handler<'getWorkspace'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.workspaces.get(principal, path.workspace_id);
  if (!found) throw missing();
  const { workspace, etag } = found;
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: workspace };
};

export const updateWorkspace: Handler<'updateWorkspace'> = async (call, services) => {
  const { principal, path, headers, body } = call;
  await requireTerms(principal, body, path.workspace_id, services);
  const { workspaces } = services.store;
  const { workspace, etag } = await workspaces.update(
    principal,
    path.workspace_id,
    body,
    headers['If-Match'],
  );
  return { status: 200, headers: { ETag: etag }, body: workspace };
};

/** How long runs may take to stop before their workspace goes without them. */
const stopMs = 4000;
const pollMs = 100;

export const deleteWorkspace: Handler<'deleteWorkspace'> = async ({ principal, path, headers }, services) => {
  const { store, runtime } = services;
  const which = [principal, path.workspace_id, headers['If-Match']] as const;
  // A run that ends by itself stores what it has done, and leaves nobody waiting for it.
  const until = performance.now() + stopMs;
  for (let runs = await store.workspaces.stopRuns(...which); runs.length > 0; ) {
    for (const runId of runs) runtime.wake(runId);
    if (performance.now() > until) break;
    await sleep(pollMs);
    runs = await store.workspaces.stopRuns(...which);
  }
  const gone = await store.workspaces.delete(...which);
  for (const runId of gone.runIds) runtime.wake(runId);
  const workspaceIds = gone.path === null ? [path.workspace_id] : [];
  await removeFiles({ workspaceIds, sessionIds: gone.sessionIds }, services);
  return { status: 204 };
};

export const listWorkspaceMembers: Handler<'listWorkspaceMembers'> = async (
  { principal, path, query },
  { store },
) => ({
  status: 200,
  body: await store.workspaceMembers.list(principal, path.workspace_id, query),
});

export const putWorkspaceMember: Handler<'putWorkspaceMember'> = async (
  { principal, path, headers, body },
  services,
) => {
  const { workspaceMembers } = services.store;
  const { workspace_id, principal_id } = path;
  const ifMatch = headers['If-Match'];
  const changed = await workspaceMembers.put(principal, workspace_id, principal_id, body.role, ifMatch);
  wakeRuns(changed, services);
  return { status: 200, headers: { ETag: changed.member.etag }, body: changed.member };
};

export const removeWorkspaceMember: Handler<'removeWorkspaceMember'> = async (
  { principal, path, headers },
  services,
) => {
  const { workspaceMembers } = services.store;
  const { workspace_id, principal_id } = path;
  wakeRuns(
    await workspaceMembers.remove(principal, workspace_id, principal_id, headers['If-Match']),
    services,
  );
  return { status: 204 };
};

/** What a workspace says has to be there, and has to be the caller's to say. */
async function requireTerms(
  principal: Principal,
  terms: { readonly default_model?: string | null; readonly permission_mode?: string | null },
  workspaceId: string | undefined,
  services: Services,
): Promise<void> {
  if (terms.permission_mode === 'bypass' && !principal.operator)
    throw new Problem('permission_mode_refused', 'Only an operator may set the permission mode bypass.');
  if (terms.default_model != null) await requireModel(principal, terms.default_model, workspaceId, services);
}

/** For everybody there: what the caller has of their own does not count. */
async function requireModel(
  principal: Principal,
  name: string,
  workspaceId: string | undefined,
  { runtime, store }: Services,
): Promise<void> {
  const found = workspaceId === undefined ? null : await store.workspaces.find(principal, workspaceId);
  const asker = { userId: '', workspaceId: found?.id ?? ownWorkspace(principal) };
  await (await runtime.modelsOf(asker)).resolveModel(name);
}

function missing(): Problem {
  return new Problem('not_found', 'No workspace has this id, or it is not yours.');
}
