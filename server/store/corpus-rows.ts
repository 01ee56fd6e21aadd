/** Rows of corpora: who finds them, in which role, and how they become corpora. */
import type { Knex } from 'knex';
import type { Chunking, Corpus, CorpusGrant, Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { etagOf, requireMatch } from './etag.ts';
import { covers, notFound, type Reach, roleIn, wholeOrganizations } from './reach.ts';
import { timestamp } from './timestamps.ts';

export interface CorpusRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  name: string;
  name_key: string;
  description: string;
  visibility: Corpus['visibility'];
  chunking: string;
  embedder_identity: string | null;
  vector_set: number;
  documents: number;
  chunks: number;
  bytes: number;
  metadata: string;
  user_id: string;
  revision: number;
  grants_revision: number;
  created_at: number;
  updated_at: number;
}

export interface GrantRow {
  organization_id: string;
  corpus_id: string;
  principal_id: string;
  user_id: string | null;
  group_id: string | null;
  role: CorpusGrant['role'];
  created_at: number;
}

export interface TaggedCorpus {
  readonly corpus: Corpus;
  readonly etag: string;
}

/** Leaves of a query on `corpora` what the caller finds. */
function corporaSeen<Query extends Knex.QueryBuilder>(sql: Knex, query: Query, reach: Reach): Query {
  query.where((seen) => {
    seen
      .whereIn('corpora.organization_id', wholeOrganizations(reach))
      .orWhere((own) => inReachedWorkspaces(own, reach))
      .orWhere((shared) => sharedBeyond(sql, shared, reach));
  });
  return query;
}

/** In the workspaces that were given to them: what is private to others is not among it. */
export function inReachedWorkspaces(query: Knex.QueryBuilder, reach: Reach): Knex.QueryBuilder {
  const ids = (workspaces: Reach['workspaces']) => workspaces.map(({ id }) => id);
  const led = reach.workspaces.filter(({ role }) => covers(role, 'admin'));
  return query
    .whereIn('corpora.workspace_id', ids(reach.workspaces))
    .where((open) =>
      open
        .whereNot('corpora.visibility', 'private')
        .orWhere('corpora.user_id', reach.userId)
        .orWhereIn('corpora.workspace_id', ids(led)),
    );
}

/** What is open to the organization, or granted to them or to a group of theirs. */
export function sharedBeyond(sql: Knex, query: Knex.QueryBuilder, reach: Reach): Knex.QueryBuilder {
  query.whereIn('corpora.organization_id', reach.organizationIds);
  // A key that is bound to a workspace finds nothing outside it.
  if (reach.workspaceId !== undefined) query.where('corpora.workspace_id', reach.workspaceId);
  return query.where((either) =>
    either
      .where('corpora.visibility', 'organization')
      .orWhereIn('corpora.id', grantsTo(sql, reach).select('corpus_grants.corpus_id')),
  );
}

function grantsTo(sql: Knex, { userId, organizationIds }: Reach) {
  const groups = sql('group_members')
    .where({ user_id: userId })
    .whereIn('organization_id', organizationIds)
    .select('group_id');
  return sql<GrantRow>('corpus_grants').where((to) =>
    to.where('corpus_grants.user_id', userId).orWhereIn('corpus_grants.group_id', groups),
  );
}

/** The corpus, if the caller finds it; throws `role_required` where their role does not do. */
export async function findCorpus(sql: Knex, reach: Reach, id: string): Promise<CorpusRow | null> {
  const row: CorpusRow | undefined = await corporaSeen(
    sql,
    sql('corpora').where('corpora.id', id),
    reach,
  ).first();
  if (row) await requireCorpusRole(sql, reach, row);
  return row ?? null;
}

/** As `findCorpus`; throws `not_found`. */
export async function requireCorpus(sql: Knex, reach: Reach, id: string): Promise<CorpusRow> {
  const row = await findCorpus(sql, reach, id);
  if (!row) throw notFound('corpus');
  return row;
}

/** Held against other writers. Throws `not_found` or `precondition_failed`. */
export async function lockCorpus(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch?: string | undefined,
): Promise<CorpusRow> {
  const row: CorpusRow | undefined = await corporaSeen(sql, sql('corpora').where('corpora.id', id), reach)
    .forUpdate()
    .first();
  if (!row) throw notFound('corpus');
  await requireCorpusRole(sql, reach, row);
  requireMatch(ifMatch, row);
  return row;
}

async function requireCorpusRole(sql: Knex, reach: Reach, row: CorpusRow): Promise<void> {
  const needs = reach.needs ?? 'viewer';
  const roles = await rolesIn(sql, reach, row);
  if (roles.some((role) => covers(role, needs))) return;
  throw new Problem(
    'role_required',
    `This needs the role ${needs} in the corpus; yours is ${highest(roles)}. Ask somebody who may to grant it.`,
  );
}

/** Every role that they have there, by whatever way. */
async function rolesIn(sql: Knex, reach: Reach, row: CorpusRow): Promise<Role[]> {
  const inWorkspace = roleIn(reach, row);
  const granted: Role[] = await grantsTo(sql, reach).where({ corpus_id: row.id }).pluck('role');
  const roles: (Role | null)[] = [...granted];
  // Who made it says who may, as long as they work in its workspace.
  if (row.user_id === reach.userId && inWorkspace !== null && covers(inWorkspace, 'member'))
    roles.push('admin');
  if (row.visibility !== 'private' || (inWorkspace !== null && covers(inWorkspace, 'admin')))
    roles.push(inWorkspace);
  if (row.visibility === 'organization') roles.push('viewer');
  return roles.filter((role) => role !== null);
}

function highest(roles: readonly Role[]): string {
  return roles.toSorted((a, b) => (covers(a, b) ? -1 : 1))[0] ?? 'none';
}

/** What the audit log says of a corpus. */
export function toldOf(row: CorpusRow) {
  const { workspace_id, name, description, visibility, chunking, metadata } = toCorpus(row);
  return { workspace_id, name, description, visibility, chunking, metadata };
}

export function taggedCorpus(row: CorpusRow): TaggedCorpus {
  return { corpus: toCorpus(row), etag: etagOf(row) };
}

export function chunkingOf(row: Pick<CorpusRow, 'chunking'>): Chunking {
  return JSON.parse(row.chunking);
}

/** Whether it is stale says who knows the embedder of today. */
export function toCorpus(row: CorpusRow): Corpus {
  return {
    id: row.id,
    workspace_id: row.workspace_id,
    name: row.name,
    description: row.description,
    visibility: row.visibility,
    chunking: chunkingOf(row),
    embedder: row.embedder_identity,
    stale: false,
    stats: { documents: row.documents, chunks: row.chunks, bytes: Number(row.bytes) },
    metadata: JSON.parse(row.metadata),
    created_by: row.user_id,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
