/** Provider settings: where models are reached, and with which key, as people and admins keep it on the server. */
import type { ProviderSettingCreate } from '../contract/api.ts';
import { type Call, type Handler, isCurrent, type Principal, type Services } from '../handler.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';

export const listProviderSettings: Handler<'listProviderSettings'> = async (
  { principal, query },
  { store, providerSettings },
) => {
  const { data, next_cursor } = await store.providerSettings.list(principal, query);
  return { status: 200, body: { data: await Promise.all(data.map(providerSettings.show)), next_cursor } };
};

export const createProviderSetting: Handler<'createProviderSetting'> = async (
  { principal, body },
  services,
) => {
  const { store, providerSettings } = services;
  const owner = await ownerOf(principal, body, services);
  const id = newId('providerSetting');
  const content = await providerSettings.write(id, body);
  const stored = await store.providerSettings.create(principal, owner, {
    ...{ ...content, id },
    providerId: body.provider_id,
  });
  return {
    status: 201,
    headers: { Location: `/api/v1/settings/providers/${id}`, ETag: stored.etag },
    body: await providerSettings.show(stored),
  };
};

export const getProviderSetting: Handler<'getProviderSetting'> = async (call, services) => {
  const stored = await found(call, services);
  const headers = { ETag: stored.etag };
  if (isCurrent(call.headers['If-None-Match'], stored.etag)) return { status: 304, headers };
  return { status: 200, headers, body: await services.providerSettings.show(stored) };
};

export const updateProviderSetting: Handler<'updateProviderSetting'> = async (call, services) => {
  const { principal, headers, body } = call;
  const { store, providerSettings } = services;
  // What is checked and sealed is what was read: who comes in between is heard first.
  for (;;) {
    const read = await found(call, services);
    const content = await providerSettings.change(read, body);
    const stored = await store.providerSettings.replace(principal, read, content, headers['If-Match']);
    if (stored)
      return { status: 200, headers: { ETag: stored.etag }, body: await providerSettings.show(stored) };
  }
};

export const deleteProviderSetting: Handler<'deleteProviderSetting'> = async (
  { principal, path, headers },
  { store, providerOauth },
) => {
  const takeBack = await providerOauth.revocation(path.setting_id);
  await store.providerSettings.delete(principal, path.setting_id, headers['If-Match']);
  await takeBack();
  return { status: 204 };
};

async function found(
  { principal, path }: Pick<Call<'getProviderSetting'>, 'principal' | 'path'>,
  { store }: Services,
) {
  const stored = await store.providerSettings.find(principal, path.setting_id);
  if (stored) return stored;
  throw new Problem('not_found', 'No provider setting has this id, or it is not yours.');
}

/** The one of which the caller speaks, or that of their default workspace. */
async function ownerOf(
  principal: Principal,
  { scope, workspace_id, organization_id }: ProviderSettingCreate,
  services: Services,
) {
  refuseStray(scope === 'workspace' ? undefined : workspace_id, '/workspace_id', scope);
  refuseStray(scope === 'organization' ? undefined : organization_id, '/organization_id', scope);
  if (scope === 'user') return ownScope(principal);
  if (organization_id !== undefined && !principal.organizationIds.includes(organization_id))
    throw new Problem('not_found', 'No organization has this id, or it is not yours.');
  if (organization_id !== undefined) return { scope, organizationId: organization_id, workspaceId: null };
  const workspace = await workspaceOf(principal, workspace_id, services);
  return {
    scope,
    organizationId: workspace.organizationId,
    workspaceId: scope === 'workspace' ? workspace.id : null,
  };
}

/** A key that is bound to a workspace reaches nothing else of its person. */
function ownScope({ workspaceId }: Principal) {
  if (workspaceId !== undefined)
    throw new Problem('role_required', 'This API key is bound to a workspace; use one that is not.');
  return { scope: 'user' as const, organizationId: null, workspaceId: null };
}

async function workspaceOf(principal: Principal, workspaceId: string | undefined, { store }: Services) {
  const workspace =
    workspaceId === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, workspaceId);
  if (workspace) return workspace;
  throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
}

function refuseStray(value: string | undefined, pointer: string, scope: string): void {
  if (value === undefined) return;
  const message = `does not go with the scope ${scope}`;
  throw new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code: 'scope' }],
  });
}

export const startProviderOauth: Handler<'startProviderOauth'> = async (call, services) => {
  const { id } = await found(call, services);
  return { status: 201, body: await services.providerOauth.start(call.principal, id, call.body) };
};

export const completeProviderOauth: Handler<'completeProviderOauth'> = async (call, services) => {
  const { id } = await found(call, services);
  return { status: 200, body: await services.providerOauth.complete(call.principal, id, call.body) };
};

export const getProviderOauth: Handler<'getProviderOauth'> = async (call, services) => {
  const { id } = await found(call, services);
  return { status: 200, body: await services.providerOauth.show(id) };
};

export const revokeProviderOauth: Handler<'revokeProviderOauth'> = async (call, services) => {
  const { id } = await found(call, services);
  await services.providerOauth.revoke(call.principal, id);
  return { status: 204 };
};
