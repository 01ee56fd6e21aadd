/** What the runtime has to know of who asks, and of the session that a query is for. */
import type { Session } from '../contract/api.ts';
import type { Principal, Query } from '../handler.ts';

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

type Request = NonNullable<Query['request']>;

/** What is asked for besides the prompt, with what the API key says that it is asked with. */
export function askedWith(
  { key }: Principal,
  request: Partial<Omit<Request, 'key'>> = {},
): Pick<Query, 'request'> {
  const asked = { limits: null, summary: null, ...request };
  if (key && key.permissionRules.length > 0)
    return { request: { ...asked, key: { rules: key.permissionRules } } };
  return Object.values(asked).some(Boolean) ? { request: asked } : {};
}
