/** Sessions that come from an export: new ones, with what was said in the old. */
import type { ExportedMessage, SessionExport } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { recordAudit } from './audit.ts';
import { insertRows } from './insert-rows.ts';
import { bringsFiles, refuseKept } from './kept-quota.ts';
import { putAside } from './message-files.ts';
import { type NewMessage, newRow } from './messages.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { type IndexingParts, indexNoted, indexOrNote } from './search-backlog.ts';
import { type SessionRow, saveSession, type TaggedSession, toTaggedSession } from './session-rows.ts';
import { insertSession } from './sessions.ts';

export interface SessionImports {
  /** All of it or nothing. Throws `quota_exceeded`, or `not_found` for a workspace out of reach. */
  add(reach: Reach, workspaceId: string, document: SessionExport): Promise<TaggedSession>;
}

export function sessionImports({ database, clock, log }: StoreParts & IndexingParts): SessionImports {
  const now = (): number => clock.now().getTime();
  return {
    // Quotas may hold beyond the organization: it is asked in the name of the server, with ownership in each query.
    add: async (reach, workspace_id, { session, messages }) => {
      const news = messages.map(newMessage);
      const imported = await database.write('installation', async (sql) => {
        const { title, agent_slug, model, system_prompt, tags, metadata } = session;
        const made = await insertSession(
          sql,
          reach,
          {
            ...{ workspace_id, title, agent_slug, tags, metadata },
            ...(model !== null && { model }),
            ...(system_prompt !== null && { system_prompt }),
          },
          null,
          now(),
        );
        const { id } = made.session;
        const row = await sql<SessionRow>('sessions').where({ id }).first();
        if (!row) throw new Error('The session that was just made is not there.');
        const { organization_id } = row;
        const place = { organization_id, workspace_id, session_id: id, run_number: 0 };
        const stored = await putAside(sql, { organization_id, session_id: id }, news);
        const rows = stored.map((message, index) => newRow(place, message, index + 1, now()));
        await insertRows(sql, 'messages', rows);
        await indexOrNote(sql, row);
        const spender = {
          organizationId: organization_id,
          workspaceId: workspace_id,
          userId: reach.userId,
          apiKeyId: null,
        };
        if (bringsFiles(news)) await refuseKept(sql, spender, { sessionId: id, before: 0 }, now());
        const summary_message_id = news.findLast(({ summary }) => summary)?.id ?? null;
        const changes = { message_count: news.length, summary_message_id };
        recordAudit(sql, reach, {
          action: 'session.import',
          target: { type: 'session', id },
          organizationId: organization_id,
          after: { workspace_id, messages: news.length },
        });
        return toTaggedSession(await saveSession(sql, row, changes, now()));
      });
      await indexNoted({ database, log }, imported.session.id);
      return imported;
    },
  };
}

/** Ids are this installation's own, so that nobody takes another's. */
function newMessage({
  role,
  parts,
  model,
  stop_reason,
  usage,
  summary = false,
  excluded = false,
  created_at,
}: ExportedMessage) {
  const message: NewMessage = {
    id: newId('message'),
    role,
    parts,
    model,
    stop_reason,
    usage,
    summary,
    excluded,
  };
  return { ...message, run_id: null, created_at: Date.parse(created_at) };
}
