/** Whose a memory is to be: named by a caller, checked against what they may reach. */
import type { Knex } from 'knex';
import type { Memory } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { MemoryRow } from './memory-rows.ts';
import { notFound, type Reach, within } from './reach.ts';
import type { SessionRow } from './session-rows.ts';
import { findDefaultWorkspace, findWorkspace } from './workspaces.ts';

/** As a caller names it. */
export interface NamedOwner {
  readonly scope: Memory['scope'];
  readonly workspace_id?: string | undefined;
  readonly session_id?: string | undefined;
  readonly agent_slug?: string | undefined;
}

export type MemoryOwner = Pick<
  MemoryRow,
  'scope' | 'owner_key' | 'organization_id' | 'private_to' | 'workspace_id' | 'session_id' | 'agent_slug'
>;

/** Throws `not_found`, `role_required`, or `invalid_request` where the scope needs another name. */
export async function findOwner(sql: Knex, reach: Reach, named: NamedOwner): Promise<MemoryOwner> {
  const { scope, workspace_id, session_id, agent_slug } = named;
  if (scope !== 'session') refuseStray(session_id, 'session_id', scope);
  if (scope !== 'agent') refuseStray(agent_slug, 'agent_slug', scope);
  if (scope === 'session') {
    refuseStray(workspace_id, 'workspace_id', scope);
    return ofSession(sql, reach, required(session_id, 'session_id', scope));
  }
  const place = await placeOf(sql, reach, workspace_id);
  if (scope === 'user') return ofUser(reach, place.organizationId);
  if (scope === 'workspace') return ofWorkspace(place.organizationId, place.id);
  return ofAgent(place.organizationId, place.id, required(agent_slug, 'agent_slug', scope));
}

async function ofSession(sql: Knex, reach: Reach, sessionId: string): Promise<MemoryOwner> {
  const session = await findSessionOf(sql, reach, sessionId);
  return ownerInSession(session.organization_id, session.workspace_id, sessionId);
}

/** Throws `not_found`. */
export async function findSessionOf(sql: Knex, reach: Reach, id: string): Promise<SessionRow> {
  const session = await within(sql<SessionRow>('sessions').where({ id }), reach).first();
  if (!session) throw notFound('session');
  return session;
}

async function placeOf(sql: Knex, reach: Reach, workspaceId: string | undefined) {
  const place =
    workspaceId === undefined
      ? await findDefaultWorkspace(sql, reach)
      : await findWorkspace(sql, reach, workspaceId);
  if (!place) throw notFound('workspace');
  return place;
}

function ofUser(reach: Reach, organizationId: string): MemoryOwner {
  if (reach.workspaceId !== undefined)
    throw new Problem(
      'role_required',
      'This API key is bound to a workspace, and memories of the scope user are its person’s alone; use one that is not.',
    );
  return ownerOfPerson(organizationId, reach.userId);
}

/** Of one organization: what is said in one is not told in another. */
export function ownerOfPerson(organization_id: string, userId: string): MemoryOwner {
  const owner_key = `${organization_id}/${userId}`;
  return { ...nobody, scope: 'user', owner_key, organization_id, private_to: userId };
}

export function ofWorkspace(organization_id: string, workspace_id: string): MemoryOwner {
  return { ...nobody, scope: 'workspace', owner_key: workspace_id, organization_id, workspace_id };
}

export function ownerInSession(
  organization_id: string,
  workspace_id: string,
  session_id: string,
): MemoryOwner {
  return { ...nobody, scope: 'session', owner_key: session_id, organization_id, workspace_id, session_id };
}

/** Of one workspace: others of the organization may be closed to those who work here. */
export function ofAgent(organization_id: string, workspace_id: string, agent_slug: string): MemoryOwner {
  const owner_key = `${workspace_id}/${agent_slug}`;
  return { ...nobody, scope: 'agent', owner_key, organization_id, workspace_id, agent_slug };
}

const nobody = { private_to: null, workspace_id: null, session_id: null, agent_slug: null };

function refuseStray(value: string | undefined, name: string, scope: string): void {
  if (value !== undefined) throw misnamed(name, `does not go with the scope ${scope}`, 'scope');
}

function required(value: string | undefined, name: string, scope: string): string {
  if (value === undefined) throw misnamed(name, `is required with the scope ${scope}`, 'required');
  return value;
}

function misnamed(name: string, message: string, code: string): Problem {
  return new Problem('invalid_request', `body/${name}: ${message}`, {
    errors: [{ in: 'body', pointer: `/${name}`, message, code }],
  });
}
