/** Agent profiles: those that a workspace knows, and the organization's own. */
import type { Agent } from '../contract/api.ts';
import { type Handler, isCurrent, type Principal, type Profile, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';

/** The precedence of two profiles with one slug. */
const sources: readonly Agent['source'][] = ['builtin', 'api', 'global', 'project'];

export const listAgents: Handler<'listAgents'> = async ({ principal, query }, services) => {
  const { limit } = query;
  const after = query.cursor === undefined ? '' : slugOf(query.cursor);
  const { id } = await workspaceOf(principal, query.workspace_id, services);
  const [stored, own] = await Promise.all([
    services.store.agents.ofWorkspace({ workspaceId: id, after, limit: limit + 1 }),
    services.runtime.profiles(id),
  ]);
  const known = inEffect([...stored, ...own.map(toAgent)])
    .filter(({ slug }) => slug > after)
    .slice(0, limit + 1);
  const data = known.slice(0, limit);
  const last = data.at(-1);
  return {
    status: 200,
    body: { data, next_cursor: last && known.length > limit ? cursorOf(last.slug) : null },
  };
};

export const createAgent: Handler<'createAgent'> = async ({ principal, body }, services) => {
  const { organizationId, id } = await workspaceOf(principal, body.workspace_id, services);
  if (
    (await services.runtime.profiles(id)).some(
      ({ slug, source }) => slug === body.slug && source === 'builtin',
    )
  )
    throw new Problem('slug_taken', `The agent profile ${body.slug} is built in; choose another slug.`);
  const owner = { organizationId, workspaceId: body.workspace_id ?? null };
  const { agent, etag } = await services.store.agents.create(principal, owner, body);
  return { status: 201, headers: { Location: `/api/v1/agents/${agent.id}`, ETag: etag }, body: agent };
};

export const getAgent: Handler<'getAgent'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.agents.find(principal, path.agent_id);
  if (!found) throw missing();
  if (isCurrent(headers['If-None-Match'], found.etag)) return { status: 304, headers: { ETag: found.etag } };
  return { status: 200, headers: { ETag: found.etag }, body: found.agent };
};

export const updateAgent: Handler<'updateAgent'> = async ({ principal, path, headers, body }, { store }) => {
  const { agent, etag } = await store.agents.update(principal, path.agent_id, body, headers['If-Match']);
  return { status: 200, headers: { ETag: etag }, body: agent };
};

export const deleteAgent: Handler<'deleteAgent'> = async ({ principal, path, headers }, { store }) => {
  await store.agents.delete(principal, path.agent_id, headers['If-Match']);
  return { status: 204 };
};

async function workspaceOf(principal: Principal, workspaceId: string | undefined, { store }: Services) {
  const workspace =
    workspaceId === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, workspaceId);
  if (workspace) return workspace;
  throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
}

/** By slug, each once: that which a query means. */
function inEffect(agents: readonly Agent[]): Agent[] {
  const ranked = agents.toSorted((a, b) => sources.indexOf(b.source) - sources.indexOf(a.source));
  return [...new Map(ranked.map((agent) => [agent.slug, agent])).values()].sort((a, b) =>
    a.slug < b.slug ? -1 : 1,
  );
}

function toAgent(profile: Profile): Agent {
  return { ...profile, id: null, workspace_id: null, created_at: null, updated_at: null };
}

/** A slug is the cursor, made opaque like every other. */
function cursorOf(slug: string): string {
  return Buffer.from(`agent:${slug}`).toString('base64url');
}

function slugOf(cursor: string): string {
  const slug = /^agent:([a-z0-9][a-z0-9_-]{0,63})$/.exec(Buffer.from(cursor, 'base64url').toString())?.[1];
  if (slug !== undefined && cursorOf(slug) === cursor) return slug;
  throw new Problem(
    'invalid_cursor',
    'This cursor does not belong to the list of agent profiles; begin again without it.',
  );
}

function missing(): Problem {
  return new Problem('not_found', 'No agent profile has this id, or it is not yours.');
}
