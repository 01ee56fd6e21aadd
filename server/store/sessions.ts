/** Sessions: made, found, listed, changed and deleted, each only within the caller's reach. */
import type { Knex } from 'knex';
import type { operations, PermissionRule, Session, SessionCreate, SessionUpdate } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { agentSessionsBelow, personsSession, requireRootEnded } from './agent-sessions.ts';
import { recordAudit } from './audit.ts';
import { despiteDeadlocks } from './despite-deadlocks.ts';
import { requireMatch } from './etag.ts';
import { mergeMetadata } from './metadata.ts';
import type { NewSession } from './new-session.ts';
import type { Page, PageQuery } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole, within } from './reach.ts';
import type { RunRow } from './runs.ts';
import { indexNewTitle } from './search-index.ts';
import { listChildren, listSessions } from './session-list.ts';
import {
  freshSession,
  lockSession,
  replaceTags,
  requireSession,
  type SessionRow,
  saveSession,
  type TaggedSession,
  tellNewSession,
  toTaggedSession,
} from './session-rows.ts';
import { tellWorkspace } from './workspace-events.ts';
import { type FoundWorkspace, findDefaultWorkspace, findWorkspace } from './workspaces.ts';

/** `limit`, `cursor`, `sort` and the filters of the contract. */
export type SessionQuery = Partial<NonNullable<operations['listSessions']['parameters']['query']>>;

export interface Sessions {
  /** In the default workspace unless one is named. Throws `not_found` for a workspace or parent out of reach. */
  create(reach: Reach, input: SessionCreate, origin?: { readonly parentId: string }): Promise<TaggedSession>;
  /** One that is stored with its first run, in a workspace within reach. Throws `role_required`. */
  toBegin(reach: Reach, session: NewSession): NewSession;
  find(reach: Reach, id: string): Promise<TaggedSession | null>;
  list(reach: Reach, query: SessionQuery): Promise<Page<Session>>;
  /** Those that came from it, by forks and by agents. Throws `not_found` for a session out of reach. */
  children(reach: Reach, id: string, query: PageQuery): Promise<Page<Session>>;
  /** A merge patch. Throws `not_found`, `precondition_failed`, or `invalid_request` if too much metadata results. */
  update(
    reach: Reach,
    id: string,
    patch: SessionUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedSession>;
  /**
   * With its messages, runs and events, and with the sessions of agents below it. Answers with the ids of all that are
   * gone. Throws `not_found`, `precondition_failed` or `session_busy`.
   */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<readonly string[]>;
  /** Records that the session leaves the service as a document. Throws `not_found`. */
  recordExport(reach: Reach, id: string, format: string): Promise<void>;
  /** For the server's own work: what its runs may do, or, of one that an agent has, those of the session that a person sees. Throws `not_found`. */
  rules(id: string, ofAgent: boolean): Promise<readonly PermissionRule[]>;
}

export function sessionRepository({ database, clock, cursors }: StoreParts): Sessions {
  const now = (): number => clock.now().getTime();
  return {
    create: (reach, input, origin) =>
      database.write(reach, (sql) => insertSession(sql, reach, input, origin?.parentId ?? null, now())),
    toBegin: (reach, session) => {
      requireRole(reach, { organization_id: session.organizationId, workspace_id: session.workspaceId });
      return session;
    },
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await within(sql<SessionRow>('sessions').where({ id }), reach).first();
        if (!row) return null;
        requireRole(reach, row);
        return toTaggedSession(row);
      }),
    list: (reach, query) =>
      // Ownership is the first word of a search: the policies of PostgreSQL would keep it from its index.
      database.read(query.q === undefined ? reach : 'installation', (sql) =>
        listSessions(sql, cursors, reach, query),
      ),
    children: (reach, id, query) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, id);
        return listChildren(sql, cursors, reach, id, query);
      }),
    update: (reach, id, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockSession(sql, reach, id);
        requireMatch(ifMatch, row);
        return toTaggedSession(await saveSession(sql, row, patchedColumns(row, patch), now()));
      }),
    delete: (reach, id, ifMatch) =>
      despiteDeadlocks(() =>
        database.write(reach, async (sql) => {
          const row = await lockSession(sql, reach, id);
          requireMatch(ifMatch, row);
          await requireRootEnded(sql, row);
          const below = await agentSessionsBelow(sql, id);
          await requireIdle(sql, id, below);
          // Also a session of an agent can be asked something; whoever does that waits, or is seen here.
          if (below.length > 0) {
            await sql('sessions').whereIn('id', below).orderBy('id').forUpdate().pluck('id');
            await requireIdle(sql, id, below);
          }
          const ids = [id, ...below];
          // Of forks that stay, the database takes the parent away: whoever has read one has to read it anew.
          await sql<SessionRow>('sessions').whereIn('parent_id', ids).increment('revision', 1);
          await sql<SessionRow>('sessions').whereIn('id', ids).delete();
          for (const sessionId of ids) {
            const event = { type: 'session_deleted', session_id: sessionId } as const;
            const place = { sessionId, workspaceId: row.workspace_id };
            tellWorkspace(sql, place, [{ type: event.type, event }], now());
          }
          recordAudit(sql, reach, {
            action: 'session.delete',
            target: { type: 'session', id },
            organizationId: row.organization_id,
            before: { workspace_id: row.workspace_id, messages: row.message_count },
          });
          return ids;
        }),
      ),
    rules: (id, ofAgent) =>
      database.read('installation', async (sql) => {
        const ruled = ofAgent ? await personsSession(sql, id) : id;
        const row = await sql<SessionRow>('sessions').where({ id: ruled }).first('permission_rules');
        if (!row) throw notFound('session');
        return JSON.parse(row.permission_rules);
      }),
    recordExport: (reach, id, format) =>
      database.write(reach, async (sql) => {
        const row = await requireSession(sql, reach, id);
        recordAudit(sql, reach, {
          action: 'session.export',
          target: { type: 'session', id },
          organizationId: row.organization_id,
          after: { format },
        });
      }),
  };
}

/** Makes a session. Throws `not_found` for a workspace or parent out of reach. */
export async function insertSession(
  sql: Knex.Transaction,
  reach: Reach,
  input: SessionCreate,
  parentId: string | null,
  now: number,
): Promise<TaggedSession> {
  const workspace = input.workspace_id
    ? await findWorkspace(sql, reach, input.workspace_id)
    : await findDefaultWorkspace(sql, reach);
  if (!workspace) throw notFound('workspace');
  requireRole(reach, { organization_id: workspace.organizationId, workspace_id: workspace.id });
  if (parentId !== null) await requireSession(sql, reach, parentId);
  const row = sessionRow(reach, workspace, input, parentId, now);
  await sql('sessions').insert(row);
  if (row.tags !== '[]') await replaceTags(sql, row);
  await indexNewTitle(sql, row);
  tellNewSession(sql, row, now);
  return toTaggedSession(row);
}

function sessionRow(
  { userId }: Reach,
  workspace: FoundWorkspace,
  input: SessionCreate,
  parentId: string | null,
  now: number,
): SessionRow {
  return {
    ...freshSession(now),
    id: newId('session'),
    organization_id: workspace.organizationId,
    workspace_id: workspace.id,
    user_id: userId,
    parent_id: parentId,
    title: input.title ?? 'New session',
    agent_slug: input.agent_slug ?? 'coder',
    model: input.model ?? null,
    system_prompt: input.system_prompt ?? null,
    permission_rules: JSON.stringify(input.permission_rules ?? []),
    tags: JSON.stringify(input.tags ?? []),
    metadata: JSON.stringify(input.metadata ?? {}),
  };
}

function patchedColumns(row: SessionRow, patch: SessionUpdate): Partial<SessionRow> {
  const { title, agent_slug, model, system_prompt, permission_rules, tags, metadata, archived, pinned } =
    patch;
  return {
    ...(title !== undefined && { title }),
    ...(agent_slug !== undefined && { agent_slug }),
    ...(model !== undefined && { model }),
    ...(system_prompt !== undefined && { system_prompt }),
    ...(permission_rules !== undefined && { permission_rules: JSON.stringify(permission_rules) }),
    ...(tags !== undefined && { tags: JSON.stringify(tags) }),
    ...(metadata !== undefined && { metadata: mergeMetadata(row.metadata, metadata) }),
    ...(archived !== undefined && { archived }),
    ...(pinned !== undefined && { pinned }),
  };
}

/** Refuses a session with a run that has not ended, in itself or in one of those below it that are named. */
export async function requireIdle(
  sql: Knex,
  sessionId: string,
  below: readonly string[] = [],
): Promise<void> {
  const active = await sql<RunRow>('runs')
    .whereIn('session_id', [sessionId, ...below])
    .where({ ended_at: null })
    .first('session_id');
  if (!active) return;
  const { session_id } = active;
  const whose = session_id === sessionId ? 'The session' : `The session ${session_id} of a sub-agent`;
  throw new Problem(
    'session_busy',
    `${whose} has a run that has not ended; interrupt it, and try again when it has ended.`,
  );
}
