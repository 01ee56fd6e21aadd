/** The list of sessions: each filter and order walks one index. */
import type { Knex } from 'knex';
import type { operations, Session } from '../contract/api.ts';
import type { Cursors } from './cursor.ts';
import { type Page, readPage } from './page.ts';
import type { Reach } from './reach.ts';
import { type SessionRow, toSession } from './session-rows.ts';

type SessionQuery = Partial<NonNullable<operations['listSessions']['parameters']['query']>>;

export async function listSessions(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  query: SessionQuery,
): Promise<Page<Session>> {
  const { sort = '-created_at', workspace_id, status, tag, archived = false } = query;
  const order = sort.replace('-', '');
  const columns = tag === undefined ? [order, 'id'] : [`session_tags.${order}`, 'session_tags.session_id'];
  const filters = { workspace_id, status, tag, archived };
  const listing = {
    name: 'sessions',
    reach,
    filters,
    columns,
    direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
    parts: reach.organizationIds.map((organizationId) => sessionsOf(sql, organizationId, filters)),
  };
  const { data, next_cursor } = await readPage<SessionRow>(sql, cursors, listing, query);
  return { data: data.map(toSession), next_cursor };
}

interface SessionFilters {
  readonly workspace_id: string | undefined;
  readonly status: string | undefined;
  readonly tag: string | undefined;
  readonly archived: boolean;
}

function sessionsOf(sql: Knex, organizationId: string, filters: SessionFilters): Knex.QueryBuilder {
  const { tag, archived, workspace_id, status } = filters;
  const query =
    tag === undefined
      ? sql('sessions').where({ organization_id: organizationId, archived })
      : taggedSessions(sql, organizationId, tag, archived);
  if (workspace_id !== undefined) query.where({ 'sessions.workspace_id': workspace_id });
  if (status !== undefined) query.where({ 'sessions.status': status });
  return query.select('sessions.*');
}

/** Begins at the tags, whose index has the order already. */
function taggedSessions(
  sql: Knex,
  organizationId: string,
  tag: string,
  archived: boolean,
): Knex.QueryBuilder {
  return sql('session_tags')
    .join('sessions', 'sessions.id', 'session_tags.session_id')
    .where({
      'session_tags.organization_id': organizationId,
      'session_tags.tag': tag,
      'session_tags.archived': archived,
    })
    .select('session_tags.session_id');
}
