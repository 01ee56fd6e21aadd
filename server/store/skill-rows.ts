/** Rows of skills: whose they are, who reaches them, and what is told of them. */
import type { Knex } from 'knex';
import type { SkillReach, SkillScope } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { etagOf } from './etag.ts';
import { notFound, type Reach, requireRole, within } from './reach.ts';
import { timestamp } from './timestamps.ts';
import { findDefaultWorkspace, findWorkspace } from './workspaces.ts';

/** A skill that is kept in the database: created through the API, or applied from a git repository. */
export interface StoredSkill {
  readonly id: string;
  readonly source: 'user' | 'repository';
  readonly scope: SkillReach;
  /** Null for those of repositories, which the installation has. */
  readonly organizationId: string | null;
  readonly workspaceId: string | null;
  readonly name: string;
  readonly description: string;
  readonly digest: string;
  readonly files: number;
  readonly size: number;
  readonly createdBy: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly etag: string;
}

/** One file of a skill. */
export interface SkillFileContent {
  readonly path: string;
  readonly sha256: string;
  readonly executable: boolean;
  readonly content: Uint8Array;
}

/** What a skill is made of. */
export interface SkillContent {
  readonly name: string;
  readonly description: string;
  readonly digest: string;
  readonly size: number;
  readonly files: readonly SkillFileContent[];
}

/** As a caller names it. */
export interface NamedSkillOwner {
  readonly scope: SkillScope;
  readonly workspace_id?: string | undefined;
}

export interface SkillOwner {
  readonly scope: SkillScope;
  readonly owner_key: string;
  readonly organization_id: string;
  readonly private_to: string | null;
  readonly workspace_id: string | null;
}

export interface SkillRow extends SkillOwner {
  id: string;
  name: string;
  description: string;
  digest: string;
  files: number;
  size: number;
  user_id: string;
  api_key_id: string | null;
  revision: number;
  created_at: number;
  updated_at: number;
}

export interface SkillFileRow {
  skill_id: string;
  path: string;
  size: number;
  sha256: string;
  executable: boolean;
  content: Uint8Array;
}

/** Throws `not_found` or `role_required`. */
export async function findSkillOwner(
  sql: Knex,
  reach: Reach,
  { scope, workspace_id }: NamedSkillOwner,
): Promise<SkillOwner> {
  const place =
    workspace_id === undefined
      ? await findDefaultWorkspace(sql, reach)
      : await findWorkspace(sql, reach, workspace_id);
  if (!place) throw notFound('workspace');
  const owner = ownerIn(place.organizationId, place.id, reach.userId)[scope];
  requireSkillRole(reach, owner);
  return owner;
}

/** The three whose skills a person's runs in a workspace have. */
export function ownerIn(
  organization_id: string,
  workspaceId: string,
  userId: string,
): Readonly<Record<SkillScope, SkillOwner>> {
  const shared = { organization_id, private_to: null };
  return {
    // Of one organization: what is written for the work of one is not told in another.
    user: {
      scope: 'user',
      owner_key: `${organization_id}/${userId}`,
      ...shared,
      private_to: userId,
      workspace_id: null,
    },
    workspace: { scope: 'workspace', owner_key: workspaceId, ...shared, workspace_id: workspaceId },
    organization: { scope: 'organization', owner_key: organization_id, ...shared, workspace_id: null },
  };
}

/** What is one's own needs no role; but a key that is bound to a workspace reaches nothing else of its person. */
export function requireSkillRole(reach: Reach, { scope, organization_id, workspace_id }: SkillOwner): void {
  if (scope === 'user' && reach.workspaceId !== undefined)
    throw new Problem(
      'role_required',
      'This API key is bound to a workspace, and skills of the scope user are its person’s alone; use one that is not.',
    );
  if (scope === 'user') return;
  requireRole(reach, { organization_id, workspace_id });
}

/** A person's own, what belongs to workspaces within reach, and what is for whole organizations of theirs. */
export function skillsWithin<Query extends Knex.QueryBuilder>(query: Query, reach: Reach): Query {
  query.where((seen) => {
    seen
      .where((shared) => within(shared.where({ scope: 'workspace' }), reach))
      .orWhere((common) =>
        common.where({ scope: 'organization' }).whereIn('organization_id', reach.organizationIds),
      );
    if (reach.workspaceId !== undefined) return;
    seen.orWhere((own) =>
      own.where({ private_to: reach.userId }).whereIn('organization_id', reach.organizationIds),
    );
  });
  return query;
}

export function toStoredSkill(row: SkillRow): StoredSkill {
  return {
    id: row.id,
    source: 'user',
    scope: row.scope,
    organizationId: row.organization_id,
    workspaceId: row.workspace_id,
    name: row.name,
    description: row.description,
    digest: row.digest,
    files: row.files,
    size: Number(row.size),
    createdBy: row.user_id,
    createdAt: timestamp(row.created_at),
    updatedAt: timestamp(row.updated_at),
    etag: etagOf(row),
  };
}

/** What the audit log says of a skill: the digest tells which files, and never what they say. */
export function toldSkill({ scope, workspace_id, name, digest, files, size }: SkillRow) {
  return { scope, workspace_id, name, digest, files, size: Number(size) };
}
