/** The settings files in the folder of a workspace, and who trusts them. */
import { type Handler, isCurrent } from '../handler.ts';
import { Problem } from '../problem.ts';

export const getWorkspaceConfig: Handler<'getWorkspaceConfig'> = async (
  call,
  { store, workspaceSettings },
) => {
  const { principal, path, headers } = call;
  if (!(await store.workspaces.get(principal, path.workspace_id))) throw missing();
  const { config, etag } = await workspaceSettings.read(path.workspace_id, principal);
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: config };
};

export const updateWorkspaceConfig: Handler<'updateWorkspaceConfig'> = async (call, services) => {
  const { principal, path, headers, body } = call;
  const { store, workspaceSettings } = services;
  const ifMatch = headers['If-Match'];
  if (ifMatch === undefined) {
    // Whoever may not know of it is told nothing else.
    if (!(await store.workspaces.get(principal, path.workspace_id))) throw missing();
    throw new Problem(
      'precondition_required',
      'Send the ETag of the settings that you have read as If-Match.',
    );
  }
  // Their own right to the workspace counts for operators, too.
  const reach = { ...principal, operator: false };
  const { config, etag } = await store.workspaceTrust.change(reach, path.workspace_id, (trusted) =>
    workspaceSettings.patch(path.workspace_id, principal, { patch: body, ifMatch }, trusted),
  );
  return { status: 200, headers: { ETag: etag }, body: config };
};

export const getWorkspaceTrust: Handler<'getWorkspaceTrust'> = async ({ principal, path }, services) => {
  const { workspaces } = services.store;
  const { workspace_id } = path;
  const found = principal.operator
    ? await workspaces.terms(workspace_id)
    : await workspaces.get(principal, workspace_id);
  if (!found) throw missing();
  return { status: 200, body: await services.workspaceSettings.trust(workspace_id) };
};

export const trustWorkspace: Handler<'trustWorkspace'> = async ({ principal, path, body }, services) => {
  const { store, workspaceSettings } = services;
  const trust = await store.workspaceTrust.change(principal, path.workspace_id, (trusted) =>
    workspaceSettings.addTrust(path.workspace_id, body.files, trusted),
  );
  return { status: 200, body: trust };
};

export const revokeWorkspaceTrust: Handler<'revokeWorkspaceTrust'> = async (
  { principal, path },
  services,
) => {
  const { store, workspaceSettings } = services;
  await store.workspaceTrust.change(principal, path.workspace_id, (trusted) =>
    workspaceSettings.removeTrust(path.workspace_id, trusted),
  );
  return { status: 204 };
};

function missing(): Problem {
  return new Problem('not_found', 'No workspace has this id, or it is not yours.');
}
