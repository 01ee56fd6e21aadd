/** Permissions that people gave for more than one call: for a session, or for every session of its workspace. */
import type { Knex } from 'knex';
import type { PermissionRequest } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { personsSession } from './agent-sessions.ts';
import { recordAudit } from './audit.ts';
import type { Origin } from './reach.ts';
import type { SessionRow } from './session-rows.ts';

export interface Grant {
  readonly toolName: string;
  readonly action: string;
  /** Which calls; null in what was given before there were patterns. */
  readonly pattern: string | null;
}

interface GrantRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  session_id: string | null;
  tool_name: string;
  action: string;
  pattern: string | null;
  granted_by: string;
  created_at: number;
}

/** What the session that a person sees, and its workspace, have been granted: agents that it started have no others. */
export async function readGrants(sql: Knex, ofSession: string): Promise<Grant[]> {
  const sessionId = await personsSession(sql, ofSession);
  const rows = await sql('permission_grants')
    .join('sessions', 'sessions.workspace_id', 'permission_grants.workspace_id')
    .where('sessions.id', sessionId)
    .where((scope) =>
      scope.whereNull('permission_grants.session_id').orWhere('permission_grants.session_id', sessionId),
    )
    .distinct<Pick<GrantRow, 'tool_name' | 'action' | 'pattern'>[]>('tool_name', 'action', 'pattern')
    .orderBy(['tool_name', 'action', 'pattern']);
  return rows.map(({ tool_name, action, pattern }) => ({ toolName: tool_name, action, pattern }));
}

/** Remembers all that a request said it would. Twice the same does no harm: it is read once. */
export async function insertGrants(
  sql: Knex.Transaction,
  session: SessionRow,
  { tool_name, action, grants }: PermissionRequest,
  given: {
    readonly forWorkspace: boolean;
    readonly by: string;
    readonly at: number;
    readonly origin?: Origin | undefined;
  },
): Promise<void> {
  const sessionId = given.forWorkspace ? null : await personsSession(sql, session.id);
  const rows = grants.map(
    (pattern): GrantRow => ({
      id: newId('grant'),
      organization_id: session.organization_id,
      workspace_id: session.workspace_id,
      session_id: sessionId,
      tool_name,
      action,
      pattern,
      granted_by: given.by,
      created_at: given.at,
    }),
  );
  if (rows.length > 0) await sql('permission_grants').insert(rows);
  for (const { id, pattern } of rows)
    recordAudit(
      sql,
      { userId: given.by, origin: given.origin },
      {
        action: 'grant.create',
        target: { type: 'grant', id },
        organizationId: session.organization_id,
        after: { workspace_id: session.workspace_id, session_id: sessionId, tool_name, action, pattern },
      },
    );
}
