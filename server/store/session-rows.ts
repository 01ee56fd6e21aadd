/** Session rows: how they become sessions, and the few ways in which a session changes. */
import type { Knex } from 'knex';
import type { Session, SessionStatus, SessionUpdated, Usage } from '../contract/api.ts';
import { type CostColumns, noCost, toCost } from './costs.ts';
import { etagOf } from './etag.ts';
import { notFound, type Place, type Reach, requireRole, within } from './reach.ts';
import { indexTitle } from './search-index.ts';
import { timestamp } from './timestamps.ts';
import { tellWorkspace } from './workspace-events.ts';

export interface SessionRow extends CostColumns {
  id: string;
  organization_id: string;
  workspace_id: string;
  user_id: string;
  parent_id: string | null;
  parent_run_id: string | null;
  parent_call: string | null;
  root_run_id: string | null;
  agent_depth: number;
  tool_limits: string;
  title: string;
  status: SessionStatus;
  agent_slug: string;
  model: string | null;
  system_prompt: string | null;
  permission_rules: string;
  tags: string;
  metadata: string;
  archived: boolean;
  pinned: boolean;
  input_tokens: number;
  output_tokens: number;
  cached_input_tokens: number;
  context_used: number;
  context_window: number | null;
  summary_message_id: string | null;
  message_count: number;
  run_number: number;
  /** What the session keeps of files; the database begins it at 0. */
  kept_bytes?: number;
  revision: number;
  created_at: number;
  updated_at: number;
}

export interface TaggedSession {
  readonly session: Session;
  readonly etag: string;
}

/** What a new session does not share with any other kind. */
export function freshSession(now: number) {
  return {
    status: 'idle',
    tags: '[]',
    metadata: '{}',
    parent_run_id: null,
    parent_call: null,
    root_run_id: null,
    agent_depth: 0,
    tool_limits: '[]',
    archived: false,
    pinned: false,
    input_tokens: 0,
    output_tokens: 0,
    cached_input_tokens: 0,
    ...noCost,
    context_used: 0,
    context_window: null,
    summary_message_id: null,
    message_count: 0,
    run_number: 0,
    revision: 1,
    created_at: now,
    updated_at: now,
  } as const;
}

/** The session, held against other writers until the transaction ends. Sessions are locked before what they hold. */
export async function lockSession(sql: Knex.Transaction, reach: Reach, id: string): Promise<SessionRow> {
  const row = await within(sql<SessionRow>('sessions').where({ id }), reach).forUpdate().first();
  if (!row) throw notFound('session');
  requireRole(reach, row);
  return row;
}

/** Refuses a session that is not within reach, or where the role of the caller does not do. */
export async function requireSession(sql: Knex, reach: Reach, id: string): Promise<Place> {
  const row = await within(sql<SessionRow>('sessions').where({ id }), reach).first(
    'organization_id',
    'workspace_id',
  );
  if (!row) throw notFound('session');
  requireRole(reach, row);
  return row;
}

/**
 * Stores changes of a locked session; its tags follow, and its revision rises. `told` are members that the workspace is
 * told of besides. Answers with the row as it is now.
 */
export async function saveSession(
  sql: Knex.Transaction,
  row: SessionRow,
  changes: Partial<SessionRow>,
  now: number,
  told: readonly SessionUpdated['changed'][number][] = [],
): Promise<SessionRow> {
  const changed = { ...row, ...changes, revision: row.revision + 1, updated_at: now };
  await sql<SessionRow>('sessions')
    .where({ id: row.id })
    .update({ ...changes, revision: changed.revision, updated_at: now });
  if (changed.title !== row.title) await indexTitle(sql, changed);
  if (changed.tags !== row.tags) await replaceTags(sql, changed);
  else if (row.tags !== '[]')
    await sql('session_tags')
      .where({ session_id: row.id })
      .update({ archived: changed.archived, updated_at: now });
  tellUpdate(sql, row, changed, told, now);
  return changed;
}

/** What a workspace is told of; what a session has used changes at each step, and is told by its runs. */
const toldMembers = [
  'title',
  'status',
  'agent_slug',
  'model',
  'system_prompt',
  'permission_rules',
  'tags',
  'metadata',
  'archived',
  'pinned',
  'summary_message_id',
] as const;

function tellUpdate(
  sql: Knex.Transaction,
  before: SessionRow,
  after: SessionRow,
  told: readonly SessionUpdated['changed'][number][],
  now: number,
): void {
  // One engine keeps truth as a number.
  const differs = (a: unknown, b: unknown) => (typeof b === 'boolean' ? Boolean(a) !== b : a !== b);
  const changed = [...toldMembers.filter((member) => differs(before[member], after[member])), ...told];
  if (changed.length === 0) return;
  const event = { type: 'session_updated', session_id: after.id, changed } as const;
  tellWorkspace(
    sql,
    { sessionId: after.id, workspaceId: after.workspace_id },
    [{ type: event.type, event }],
    now,
  );
}

/** Tells the workspace of a session that was just inserted. */
export function tellNewSession(
  sql: Knex.Transaction,
  { id, parent_id, workspace_id }: Pick<SessionRow, 'id' | 'parent_id' | 'workspace_id'>,
  now: number,
): void {
  const event = { type: 'session_created', session_id: id, parent_id } as const;
  tellWorkspace(sql, { sessionId: id, workspaceId: workspace_id }, [{ type: event.type, event }], now);
}

/** Writes the tags of a session where lists look for them. */
export async function replaceTags(sql: Knex.Transaction, row: SessionRow): Promise<void> {
  await sql('session_tags').where({ session_id: row.id }).delete();
  const tags: string[] = JSON.parse(row.tags);
  if (tags.length === 0) return;
  const { organization_id, workspace_id, id: session_id, archived, created_at, updated_at } = row;
  await sql('session_tags').insert(
    tags.map((tag) => ({
      ...{ organization_id, workspace_id, session_id },
      ...{ tag, archived, created_at, updated_at },
    })),
  );
}

export function toTaggedSession(row: SessionRow): TaggedSession {
  return { session: toSession(row), etag: etagOf(row) };
}

export function toSession(row: SessionRow): Session {
  return {
    id: row.id,
    workspace_id: row.workspace_id,
    parent_id: row.parent_id,
    parent_run_id: row.parent_run_id,
    title: row.title,
    status: row.status,
    agent_slug: row.agent_slug,
    model: row.model,
    system_prompt: row.system_prompt,
    permission_rules: JSON.parse(row.permission_rules),
    tags: JSON.parse(row.tags),
    metadata: JSON.parse(row.metadata),
    archived: Boolean(row.archived),
    pinned: Boolean(row.pinned),
    usage: toUsage(row),
    cost: toCost(row),
    context: { used: row.context_used, window: row.context_window },
    summary_message_id: row.summary_message_id,
    message_count: row.message_count,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

type UsageColumns = { readonly [Column in keyof Usage]: number };

/** Tokens of a row; also of several rows together, of which there may be none. */
export function toUsage({ input_tokens, output_tokens, cached_input_tokens }: UsageColumns): Usage {
  return { input_tokens, output_tokens, cached_input_tokens };
}

export function addUsage(a: UsageColumns, b: UsageColumns): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
  };
}
