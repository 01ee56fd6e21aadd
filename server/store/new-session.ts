/** The session of a query that names none: stored with its first run, so that what is refused leaves none behind. */
import type { Knex } from 'knex';
import { indexNewTitle } from './search-index.ts';
import { freshSession, type SessionRow, tellNewSession } from './session-rows.ts';

/** Whether it may be made there has been checked. */
export interface NewSession {
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly title: string;
}

export async function insertNewSession(
  sql: Knex.Transaction,
  { organizationId, workspaceId, title }: NewSession,
  { sessionId, userId }: { readonly sessionId: string; readonly userId: string },
  now: number,
): Promise<SessionRow> {
  const row: SessionRow = {
    ...freshSession(now),
    ...{ id: sessionId, organization_id: organizationId, workspace_id: workspaceId, user_id: userId },
    ...{ parent_id: null, title, agent_slug: 'coder', model: null, system_prompt: null },
    permission_rules: '[]',
  };
  await sql('sessions').insert(row);
  await indexNewTitle(sql, row);
  tellNewSession(sql, row, now);
  return row;
}
