/** Sessions in and out of the service, as documents. */
import type { ExportedMessage, Message, MessagePart, Session, SessionExport } from '../contract/api.ts';
import { givenAnew } from '../given-anew.ts';
import type { Call, Handler, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { askerIn } from './asked-session.ts';
import { exportAsHtml } from './export-html.ts';
import { exportAsMarkdown } from './export-markdown.ts';

export const exportSession: Handler<'exportSession'> = async (call, services) => {
  const { format = 'json' } = call.query;
  const document = await documentOf(call, services);
  await services.store.sessions.recordExport(call.principal, call.path.session_id, format);
  const headers = (ending: string) => ({
    'Content-Disposition': `attachment; filename="session-${call.path.session_id}.${ending}"`,
  });
  switch (format) {
    case 'json':
      return {
        status: 200,
        type: 'application/json',
        headers: headers('json'),
        body: asJson(document, withFiles(call, services, document)),
      };
    case 'jsonl':
      return {
        status: 200,
        type: 'application/jsonl',
        headers: headers('jsonl'),
        body: asLines(document, withFiles(call, services, document)),
      };
    case 'markdown':
      return { status: 200, type: 'text/markdown', headers: headers('md'), body: exportAsMarkdown(document) };
    case 'html':
      return { status: 200, type: 'text/html', headers: headers('html'), body: exportAsHtml(document) };
  }
};

export const importSession: Handler<'importSession'> = async (
  { principal, body, query },
  { store, runtime },
) => {
  const { agent_slug, model } = body.session;
  const workspace =
    query.workspace_id === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, query.workspace_id);
  if (!workspace) throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
  await runtime.check(
    { agentSlug: agent_slug, ...(model !== null && { model }) },
    askerIn(principal, workspace.id),
  );
  refuseStrayResults(body.messages);
  const { session, etag } = await store.sessionImports.add(principal, workspace.id, body);
  return { status: 201, headers: { Location: `/api/v1/sessions/${session.id}`, ETag: etag }, body: session };
};

/** Without the bytes of files, which the formats for people only name. */
async function documentOf(
  { principal, path }: Call<'exportSession'>,
  { store, clock }: Services,
): Promise<SessionExport> {
  const found = await store.sessions.find(principal, path.session_id);
  if (!found) throw new Problem('not_found', 'No session has this id, or it is not yours.');
  const messages: Message[] = [];
  let cursor: string | null = null;
  do {
    const query = { limit: 100, ...(cursor !== null && { cursor }) };
    const page = await store.messages.list(principal, path.session_id, query);
    messages.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor !== null);
  const anew = givenAnew(messages);
  return {
    format_version: 1,
    exported_at: clock.now().toISOString(),
    session: exportedSession(found.session),
    // A document names no runs, by which models would know what they are not to be shown.
    messages: messages.map((message) =>
      exported({ ...message, excluded: message.excluded || anew.has(message) }),
    ),
  };
}

/**
 * One message after the other with the bytes of its files, as far as the session has kept them: all at once they may be
 * more than the process can hold. Those that were given before are only named.
 */
async function* withFiles(
  { principal, path }: Call<'exportSession'>,
  { store: { fileChanges } }: Services,
  { messages }: SessionExport,
): AsyncGenerator<ExportedMessage> {
  const given = new Set<string>();
  for (const message of messages) {
    const parts: MessagePart[] = [];
    for (const part of message.parts) {
      if (part.type !== 'file' || part.sha256 === undefined || given.has(part.sha256)) {
        parts.push(part);
        continue;
      }
      given.add(part.sha256);
      const kept = await fileChanges.content(principal, path.session_id, part.sha256);
      parts.push(kept ? { ...part, data: Buffer.from(kept).toString('base64') } : part);
    }
    yield { ...message, parts };
  }
}

function exportedSession(session: Session): SessionExport['session'] {
  const { id, title, agent_slug, model, system_prompt, tags, metadata, created_at } = session;
  return { id, title, agent_slug, model, system_prompt, tags, metadata, created_at };
}

function exported({
  id,
  role,
  parts,
  model,
  stop_reason,
  usage,
  summary,
  excluded,
  created_at,
}: Message): ExportedMessage {
  return { id, role, parts, model, stop_reason, usage, summary, excluded, created_at };
}

async function* asJson(
  { messages: _unread, ...head }: SessionExport,
  messages: AsyncIterable<ExportedMessage>,
): AsyncGenerator<string> {
  yield `${JSON.stringify(head).slice(0, -1)},"messages":[`;
  let separator = '';
  for await (const message of messages) {
    yield separator + JSON.stringify(message);
    separator = ',';
  }
  yield ']}';
}

async function* asLines(
  { messages: _unread, ...head }: SessionExport,
  messages: AsyncIterable<ExportedMessage>,
): AsyncGenerator<string> {
  yield `${JSON.stringify(head)}\n`;
  for await (const message of messages) yield `${JSON.stringify(message)}\n`;
}

/** Providers refuse a history in which a tool answers what nobody has asked. */
function refuseStrayResults(messages: readonly ExportedMessage[]): void {
  const asked = new Set<string>();
  for (const [index, { parts }] of messages.entries()) {
    for (const part of parts) {
      if (part.type === 'tool_use') asked.add(part.id);
      if (part.type !== 'tool_result' || asked.has(part.tool_use_id)) continue;
      throw new Problem(
        'broken_export',
        `Message ${index + 1} answers the tool call ${part.tool_use_id}, which no message before it asks for.`,
        {
          errors: [
            {
              in: 'body',
              pointer: `/messages/${index}/parts/${parts.indexOf(part)}/tool_use_id`,
              message: 'no such tool call before it',
              code: 'broken_export',
            },
          ],
        },
      );
    }
  }
}
