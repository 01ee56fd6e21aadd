/** Workspaces: each organization has a default one; its files lie in a folder that bears the workspace's id. */
import type { Knex } from 'knex';
import type { StoreParts } from './parts.ts';
import { type Reach, wholeOrganizations } from './reach.ts';

export interface Workspace {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly isDefault: boolean;
}

export interface Workspaces {
  /** The default workspace of the caller's first organization; null for a caller without one. */
  defaultOf(reach: Reach): Promise<Workspace | null>;
  find(reach: Reach, id: string): Promise<Workspace | null>;
}

interface WorkspaceRow {
  id: string;
  organization_id: string;
  name: string;
  is_default: boolean;
}

export function workspaceRepository({ database }: StoreParts): Workspaces {
  return {
    defaultOf: (reach) => database.read(reach, (sql) => findDefaultWorkspace(sql, reach)),
    find: (reach, id) => database.read(reach, (sql) => findWorkspace(sql, reach, id)),
  };
}

export async function findDefaultWorkspace(sql: Knex, reach: Reach): Promise<Workspace | null> {
  const [organizationId] = reach.organizationIds;
  if (organizationId === undefined) return null;
  const row = await sql<WorkspaceRow>('workspaces')
    .where({ organization_id: organizationId, is_default: true })
    .first();
  return row ? toWorkspace(row) : null;
}

export async function findWorkspace(sql: Knex, reach: Reach, id: string): Promise<Workspace | null> {
  const row = await sql<WorkspaceRow>('workspaces')
    .where({ id })
    .where((seen) =>
      seen.whereIn('organization_id', wholeOrganizations(reach)).orWhereIn(
        'id',
        reach.workspaces.map((workspace) => workspace.id),
      ),
    )
    .first();
  return row ? toWorkspace(row) : null;
}

function toWorkspace(row: WorkspaceRow): Workspace {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    isDefault: Boolean(row.is_default),
  };
}
