/** Organizations as they are listed and shown: to those who belong to them, and all of them to the operator. */
import type { Knex } from 'knex';
import type { Organization, Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { Cursors } from './cursor.ts';
import type { Database } from './database.ts';
import { organizationSettings } from './organization-settings.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { Reach } from './reach.ts';
import { timestamp } from './timestamps.ts';

/** An organization as one of its members sees it; `created_at` is when they came. */
export interface OwnRow {
  organization_id: string;
  name: string;
  slug: string;
  settings: string;
  revision: number;
  role: Role | null;
  default_workspace_id: string;
  created_at: number;
  made_at: number;
  updated_at: number;
}

export function listOwn(
  database: Database,
  cursors: Cursors,
  reach: Reach,
  page: PageQuery,
): Promise<Page<Organization>> {
  return database.read(reach, async (sql) => {
    const listing = {
      name: 'organizations',
      reach,
      filters: {},
      columns: ['memberships.created_at', 'memberships.organization_id'],
      direction: 'asc',
      parts: [ownOrganizations(sql, reach, reach.organizationIds)],
    } as const;
    const { data, next_cursor } = await readPage<OwnRow>(sql, cursors, listing, page);
    return { data: data.map(toOrganization), next_cursor };
  });
}

/** Whoever runs the installation has to find what is on it. Ids are in the order in which they were made. */
export async function listAll(
  database: Database,
  cursors: Cursors,
  reach: Reach,
  page: PageQuery,
): Promise<Page<Organization>> {
  if (!reach.operator)
    throw new Problem('role_required', 'Only the operator may list the organizations of everybody.');
  return database.read('installation', async (sql) => {
    const listing = {
      name: 'all organizations',
      reach,
      filters: {},
      columns: ['organizations.id'],
      direction: 'asc',
      parts: [allOrganizations(sql, reach)],
    } as const;
    const { data, next_cursor } = await readPage<OwnRow>(sql, cursors, listing, page);
    return { data: data.map(toOrganization), next_cursor };
  });
}

/** `ids` are those that a key of theirs reaches, or one that they came into by now. */
export function ownOrganizations(sql: Knex, { userId }: Reach, ids: readonly string[]) {
  const own = sql('memberships')
    .join('organizations', 'organizations.id', 'memberships.organization_id')
    .where('memberships.user_id', userId)
    .whereIn('memberships.organization_id', [...ids]);
  return shown(own).select('memberships.organization_id');
}

/** The operator may belong to some. */
function allOrganizations(sql: Knex, { userId }: Reach) {
  const all = sql('organizations').leftJoin('memberships', (join) =>
    join.on('memberships.organization_id', 'organizations.id').onVal('memberships.user_id', userId),
  );
  return shown(all).select('organizations.id', { organization_id: 'organizations.id' });
}

function shown(query: Knex.QueryBuilder) {
  return query
    .join('workspaces', (join) =>
      join.on('workspaces.organization_id', 'organizations.id').onVal('workspaces.is_default', true),
    )
    .select('memberships.role', 'memberships.created_at')
    .select('organizations.name', 'organizations.slug', 'organizations.settings', 'organizations.revision')
    .select('organizations.updated_at')
    .select({ made_at: 'organizations.created_at', default_workspace_id: 'workspaces.id' });
}

export function toOrganization(row: OwnRow): Organization {
  return {
    id: row.organization_id,
    name: row.name,
    slug: row.slug,
    role: row.role,
    default_workspace_id: row.default_workspace_id,
    settings: organizationSettings(row),
    created_at: timestamp(row.made_at),
    updated_at: timestamp(row.updated_at),
  };
}
