/** What the runtime has to know of who asks, and of the session that a query is for. */
import type { Session } from '../contract/api.ts';
import type { AskedModels, Asker, Principal, Query, Searcher, Services } from '../handler.ts';
import { Problem } from '../problem.ts';

/** The members of a session that count for its runs. */
export type AskedSession = Pick<
  Session,
  'id' | 'workspace_id' | 'agent_slug' | 'model' | 'system_prompt' | 'permission_rules'
>;

/** Who asks, as the runtime names them: what a run uses counts for the person, and for the key that they asked with. */
export function asker(principal: Principal): Pick<Query, 'userId' | 'apiKeyId'> {
  const { userId, credential, credentialId } = principal;
  return { userId, ...(credential === 'api_key' && { apiKeyId: credentialId }) };
}

/** Who searches: what a model is asked for it counts for them and their key, and in the place that is named. */
export function searcher(principal: Principal, place: Searcher['place'] = null): Searcher {
  return { ...principal, apiKeyId: asker(principal).apiKeyId ?? null, place };
}

/** Whose providers count for what they do in a workspace. */
export function askerIn({ userId, workspaceId: boundTo }: Principal, workspaceId: string): Asker {
  return { userId, workspaceId, bound: boundTo !== undefined };
}

/** A call that belongs to no session belongs to the workspace of the key, or to the default one of their organization. */
export function ownWorkspace({ workspaceId, memberships }: Principal): string {
  return workspaceId ?? memberships[0]?.defaultWorkspaceId ?? '';
}

/** The same with its organization, where their credential tells. */
export function homeOf(principal: Principal): Principal['workspaces'][number] | undefined {
  const id = ownWorkspace(principal);
  return principal.workspaces.find((workspace) => workspace.id === id);
}

/** The models that they may ask; `providerSettingId` is the setting that they want to be used before all others. */
export async function modelsOf(
  principal: Principal,
  { workspaceId = ownWorkspace(principal), providerSettingId }: Partial<Asker>,
  { runtime, store }: Pick<Services, 'runtime' | 'store'>,
): Promise<AskedModels> {
  if (providerSettingId !== undefined) {
    const found = await store.providerSettings.find({ ...principal, needs: 'member' }, providerSettingId);
    if (!found) throw new Problem('not_found', 'No provider setting has this id, or it is not yours.');
  }
  return runtime.modelsOf({ ...askerIn(principal, workspaceId), providerSettingId });
}

/** The session as the runtime names it. */
export function askedSession(session: AskedSession): Query['session'] {
  return {
    id: session.id,
    workspaceId: session.workspace_id,
    agentSlug: session.agent_slug,
    model: session.model,
    systemPrompt: session.system_prompt,
    permissionRules: session.permission_rules,
  };
}

/** The model that the caller wants where neither the query, the session nor the profile names one. */
export function preferring(preferredModel: string | null): Pick<Query, 'preferredModel'> {
  return preferredModel === null ? {} : { preferredModel };
}

type Request = NonNullable<Query['request']>;

/** What is asked for besides the prompt, with what the API key says that it is asked with. */
export function askedWith(
  { key, workspaceId }: Principal,
  request: Partial<Omit<Request, 'key'>> = {},
): Pick<Query, 'request'> {
  const asked = { limits: null, summary: null, ...request };
  const bound = workspaceId !== undefined;
  if (key && (bound || key.permissionRules.length > 0))
    return { request: { ...asked, key: { rules: key.permissionRules, bound } } };
  return Object.values(asked).some(Boolean) ? { request: asked } : {};
}
