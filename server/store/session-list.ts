/** The list of sessions: each filter and order walks one index. */
import type { Knex } from 'knex';
import type { operations, Session } from '../contract/api.ts';
import type { Cursors } from './cursor.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import { type Part, partsWithin, type Reach } from './reach.ts';
import { findDocuments } from './search-index.ts';
import { type SearchTerm, searchTerms } from './search-words.ts';
import { type SessionRow, toSession } from './session-rows.ts';

type SessionQuery = Partial<NonNullable<operations['listSessions']['parameters']['query']>>;

export async function listSessions(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  query: SessionQuery,
): Promise<Page<Session>> {
  const {
    sort = '-created_at',
    q,
    workspace_id,
    parent_id,
    status,
    tag,
    pinned,
    updated_after,
    archived = false,
  } = query;
  const order = sort.replace('-', '');
  const columns = tag === undefined ? [order, 'id'] : [`session_tags.${order}`, 'session_tags.session_id'];
  const filters = { q, workspace_id, parent_id, status, tag, pinned, updated_after, archived };
  const terms = q === undefined ? null : searchTerms(q);
  if (terms?.length === 0) return { data: [], next_cursor: null };
  const listing = {
    name: 'sessions',
    reach,
    filters,
    columns,
    direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
    parts: partsWithin(reach, (place) => titled(sql, terms, reach, sessionsOf(sql, place, filters))),
  };
  const { data, next_cursor } = await readPage<SessionRow>(sql, cursors, listing, query);
  return { data: data.map(toSession), next_cursor };
}

/** The oldest first, and archived ones among them. */
export async function listChildren(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  parentId: string,
  query: PageQuery,
): Promise<Page<Session>> {
  const listing = {
    name: 'children',
    reach,
    filters: { parentId },
    columns: ['created_at', 'id'],
    direction: 'asc',
    // Each walks one index.
    parts: [false, true].flatMap((archived) =>
      partsWithin(reach, (place) => sql('sessions').where({ ...place, parent_id: parentId, archived })),
    ),
  } as const;
  const { data, next_cursor } = await readPage<SessionRow>(sql, cursors, listing, query);
  return { data: data.map(toSession), next_cursor };
}

interface SessionFilters {
  readonly workspace_id: string | undefined;
  readonly parent_id: string | undefined;
  readonly pinned: boolean | undefined;
  readonly updated_after: string | undefined;
  readonly status: string | undefined;
  readonly tag: string | undefined;
  readonly archived: boolean;
}

function sessionsOf(sql: Knex, place: Part, filters: SessionFilters): Knex.QueryBuilder {
  const { tag, archived, workspace_id, parent_id, status, pinned, updated_after } = filters;
  const query =
    tag === undefined
      ? sql('sessions').where({ ...place, archived })
      : taggedSessions(sql, place, tag, archived);
  if (workspace_id !== undefined) query.where({ 'sessions.workspace_id': workspace_id });
  if (parent_id === undefined) query.whereNull('sessions.parent_run_id');
  else query.where({ 'sessions.parent_id': parent_id });
  if (status !== undefined) query.where({ 'sessions.status': status });
  if (pinned !== undefined) query.where({ 'sessions.pinned': pinned });
  if (updated_after !== undefined) query.where('sessions.updated_at', '>', Date.parse(updated_after));
  return query.select('sessions.*');
}

/** Only those whose title the index finds: there is one title for each session, so that no list is long. */
function titled(
  sql: Knex,
  terms: readonly SearchTerm[] | null,
  reach: Reach,
  sessions: Knex.QueryBuilder,
): Knex.QueryBuilder {
  if (terms === null) return sessions;
  const scope = { reach, kinds: ['title'] } as const;
  const { query, sessionId } = findDocuments(sql, scope, terms);
  return sessions.whereIn('sessions.id', query.clearSelect().select(sessionId));
}

/** Begins at the tags, whose index has the order already. */
function taggedSessions(
  sql: Knex,
  { organization_id, workspace_id }: Part,
  tag: string,
  archived: boolean,
): Knex.QueryBuilder {
  return sql('session_tags')
    .join('sessions', 'sessions.id', 'session_tags.session_id')
    .where({
      'session_tags.organization_id': organization_id,
      ...(workspace_id !== undefined && { 'session_tags.workspace_id': workspace_id }),
      'session_tags.tag': tag,
      'session_tags.archived': archived,
    })
    .select('session_tags.session_id');
}
