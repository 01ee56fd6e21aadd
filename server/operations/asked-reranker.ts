/** The model that a search is to be put into order by, and whether its caller may ask it. */
import type { Rerank } from '../contract/api.ts';
import type { Principal, Reranker, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { asker, askerIn } from './asked-session.ts';

/** What asks a model of somebody's providers needs the rights of a query, whatever else it needs. */
export async function askedReranker(
  principal: Principal,
  rerank: Rerank | undefined,
  { store, openReranker }: Pick<Services, 'store' | 'openReranker'>,
): Promise<Reranker | undefined> {
  if (!rerank) return undefined;
  if (!principal.scopes.has('query'))
    throw new Problem('scope_required', 'This API key lacks the scope query, which rerank needs.');
  const workspace = await store.workspaces.defaultOf(principal);
  if (!workspace) throw new Problem('not_found', 'You have no workspace whose providers could be asked.');
  const reach = { ...principal, needs: 'member' as const };
  // Refuses whoever has a lower role there.
  await store.workspaces.get(reach, workspace.id);
  const { apiKeyId = null } = asker(principal);
  return openReranker(rerank, { reach, apiKeyId, asker: askerIn(principal, workspace.id) });
}
