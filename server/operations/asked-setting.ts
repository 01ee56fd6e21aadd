/** Which provider setting a request is about, and whose: what operations on settings and on their models have in common. */
import type { McpServer, ProviderSetting } from '../contract/api.ts';
import type { Principal, Services } from '../handler.ts';
import { Problem } from '../problem.ts';

interface OwnerNamed {
  readonly scope: ProviderSetting['scope'];
  readonly workspace_id?: string | undefined;
  readonly organization_id?: string | undefined;
}

/** The setting that the path names. */
export async function foundSetting(
  { principal, path }: { readonly principal: Principal; readonly path: { readonly setting_id: string } },
  { store }: Services,
) {
  const stored = await store.providerSettings.find(principal, path.setting_id);
  if (stored) return stored;
  throw new Problem('not_found', 'No provider setting has this id, or it is not yours.');
}

/** The one of which the caller speaks, or that of their default workspace. */
export async function ownerOf(
  principal: Principal,
  { scope, workspace_id, organization_id }: OwnerNamed,
  part: 'body' | 'query',
  services: Services,
) {
  refuseStray(scope === 'workspace' ? undefined : workspace_id, 'workspace_id', scope, part);
  refuseStray(scope === 'organization' ? undefined : organization_id, 'organization_id', scope, part);
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

/** The same, or the installation, of which nobody is the owner. */
export async function ownerOrInstallation(
  principal: Principal,
  { scope, ...named }: Omit<OwnerNamed, 'scope'> & { readonly scope: McpServer['scope'] },
  services: Services,
) {
  if (scope !== 'installation') return await ownerOf(principal, { scope, ...named }, 'body', services);
  refuseStray(named.workspace_id, 'workspace_id', scope, 'body');
  refuseStray(named.organization_id, 'organization_id', scope, 'body');
  return { scope, organizationId: null, workspaceId: null };
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

function refuseStray(value: string | undefined, name: string, scope: string, part: 'body' | 'query'): void {
  if (value === undefined) return;
  const message = `does not go with the scope ${scope}`;
  const place = part === 'body' ? { in: part, pointer: `/${name}` } : { in: part, name };
  throw new Problem('invalid_request', `${part}/${name}: ${message}`, {
    errors: [{ ...place, message, code: 'scope' }],
  });
}
