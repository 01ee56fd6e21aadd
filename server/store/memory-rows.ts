/** Rows of memories: who reaches them, and how they become memories. */
import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { Memory, MemoryVersion } from '../contract/api.ts';
import { etagOf } from './etag.ts';
import { partsWithin, type Reach, requireRole, within } from './reach.ts';
import { nullableTimestamp, timestamp } from './timestamps.ts';

export interface TaggedMemory {
  readonly memory: Memory;
  readonly etag: string;
}

export interface MemoryRow {
  id: string;
  scope: Memory['scope'];
  owner_key: string;
  organization_id: string;
  private_to: string | null;
  workspace_id: string | null;
  session_id: string | null;
  agent_slug: string | null;
  kind: Memory['kind'];
  content: string;
  content_hash: string;
  tags: string;
  source_session_id: string | null;
  source_message_id: string | null;
  author_id: string;
  author_run_id: string | null;
  user_id: string;
  api_key_id: string | null;
  size: number;
  revision: number;
  expires_at: number | null;
  created_at: number;
  updated_at: number;
}

export interface MemoryVersionRow {
  organization_id: string;
  memory_id: string;
  version: number;
  kind: Memory['kind'];
  content: string;
  tags: string;
  expires_at: number | null;
  author_id: string;
  author_run_id: string | null;
  created_at: number;
}

/** Those that have not expired: what has is not there, whether or not it was swept. */
export function unexpired<Query extends Knex.QueryBuilder>(query: Query, now: number): Query {
  query.where((there) => there.whereNull('memories.expires_at').orWhere('memories.expires_at', '>', now));
  return query;
}

/**
 * A person's own, in the organizations that they belong to, and what is shared where they reach. A credential that is
 * bound to a workspace reaches nothing of its person besides.
 */
export function memoriesWithin<Query extends Knex.QueryBuilder>(query: Query, reach: Reach): Query {
  query.where((seen) => {
    seen.where((shared) => within(shared.whereNull('memories.private_to'), reach, 'memories'));
    if (reach.workspaceId !== undefined) return;
    seen.orWhere((own) =>
      own
        .where({ 'memories.private_to': reach.userId })
        .whereIn('memories.organization_id', reach.organizationIds),
    );
  });
  return query;
}

/** The parts of a list, each of which walks one index. */
export function memoryParts(sql: Knex, reach: Reach): Knex.QueryBuilder[] {
  const shared = partsWithin(reach, (place) => sql('memories').where({ ...place, private_to: null }));
  if (reach.workspaceId !== undefined) return shared;
  const own = reach.organizationIds.map((organization_id) =>
    sql('memories').where({ organization_id, private_to: reach.userId }),
  );
  return [...own, ...shared];
}

/** What is one's own needs no role. */
export function requireMemoryRole(
  reach: Reach,
  {
    private_to,
    organization_id,
    workspace_id,
  }: Pick<MemoryRow, 'private_to' | 'organization_id' | 'workspace_id'>,
): void {
  if (private_to === null) requireRole(reach, { organization_id, workspace_id });
}

/** Two that differ in blanks, capitals and the width of signs only say the same. */
export function hashOfContent(content: string): string {
  const plain = content.normalize('NFKC').toLowerCase().replaceAll(/\s+/g, ' ').trim();
  return createHash('sha256').update(plain).digest('hex');
}

export function tagged(row: MemoryRow): TaggedMemory {
  return { memory: toMemory(row), etag: etagOf(row) };
}

export function toMemory(row: MemoryRow): Memory {
  return {
    id: row.id,
    scope: row.scope,
    organization_id: row.organization_id,
    workspace_id: row.workspace_id,
    session_id: row.session_id,
    agent_slug: row.agent_slug,
    kind: row.kind,
    content: row.content,
    tags: JSON.parse(row.tags),
    source: sourceOf(row),
    author: { user_id: row.author_id, run_id: row.author_run_id },
    version: row.revision,
    expires_at: nullableTimestamp(row.expires_at),
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

function sourceOf({ source_session_id, source_message_id }: MemoryRow): Memory['source'] {
  if (source_session_id === null) return null;
  return { session_id: source_session_id, message_id: source_message_id };
}

export function toVersion(row: MemoryVersionRow): MemoryVersion {
  return {
    version: row.version,
    kind: row.kind,
    content: row.content,
    tags: JSON.parse(row.tags),
    expires_at: nullableTimestamp(row.expires_at),
    author: { user_id: row.author_id, run_id: row.author_run_id },
    created_at: timestamp(row.created_at),
  };
}

/** What the audit log says of a memory: never what it says itself, which may be one person's alone. */
export function told({ scope, workspace_id, session_id, agent_slug, kind, size }: MemoryRow) {
  return { scope, workspace_id, session_id, agent_slug, kind, size: Number(size) };
}

export function auditOf<Verb extends string>({ id, organization_id }: MemoryRow, verb: Verb) {
  return {
    action: `memory.${verb}` as const,
    target: { type: 'memory', id },
    organizationId: organization_id,
  };
}
