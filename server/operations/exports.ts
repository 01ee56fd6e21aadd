/** Sessions in and out of the service, as documents. */
import type { ExportedMessage, Message, MessagePart, Session, SessionExport } from '../contract/api.ts';
import { givenAnew } from '../given-anew.ts';
import type { Call, Handler, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { askerIn } from './asked-session.ts';
import { refuseUntakable } from './export-calls.ts';
import { exportAsHtml } from './export-html.ts';
import { exportAsMarkdown } from './export-markdown.ts';
import { repaired } from './export-repair.ts';

export const exportSession: Handler<'exportSession'> = async (call, services) => {
  const { format = 'json', include_files = true } = call.query;
  const document = await documentOf(call, services);
  const messages = () => (include_files ? withFiles(call, services, document) : named(document));
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
        body: asJson(document, messages()),
      };
    case 'jsonl':
      return {
        status: 200,
        type: 'application/jsonl',
        headers: headers('jsonl'),
        body: asLines(document, messages()),
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
  const session = { ...body.session, ...namesIn(query) };
  const workspace =
    query.workspace_id === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, query.workspace_id);
  if (!workspace) throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
  const { agent_slug: agentSlug, model } = session;
  await runtime
    .check({ agentSlug, ...(model !== null && { model }) }, askerIn(principal, workspace.id))
    .catch((error: unknown) => {
      throw withWayOut(error);
    });
  refuseUntakable(body.messages);
  const made = await store.sessionImports.add(principal, workspace.id, { ...body, session });
  const { id } = made.session;
  return {
    status: 201,
    headers: { Location: `/api/v1/sessions/${id}`, ETag: made.etag },
    body: made.session,
  };
};

/** Without the bytes of files, which the formats for people only name. */
async function documentOf(
  { principal, path }: Call<'exportSession'>,
  { store, clock }: Services,
): Promise<SessionExport> {
  const found = await store.sessions.find(principal, path.session_id);
  if (!found) throw new Problem('not_found', 'No session has this id, or it is not yours.');
  // Looked at once: one that begins meanwhile would come without its prompt.
  const end = await store.queue.firstUnbegun(principal, path.session_id);
  const messages: Message[] = [];
  let cursor: string | null = null;
  do {
    const query = { limit: 100, ...(end !== null && { beforeRun: end }), ...(cursor !== null && { cursor }) };
    const page = await store.messages.list(principal, path.session_id, query);
    messages.push(...page.data.map(repaired));
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

async function* named({ messages }: SessionExport): AsyncGenerator<ExportedMessage> {
  yield* messages;
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

type Names = Call<'importSession'>['query'];

function namesIn({ agent_slug, model }: Names): Partial<SessionExport['session']> {
  return { ...(agent_slug !== undefined && { agent_slug }), ...(model !== undefined && { model }) };
}

/** Servers have other profiles and models; nobody should have to edit the document. */
function withWayOut(error: unknown): unknown {
  const way = error instanceof Problem && waysOut[error.code];
  return way ? new Problem(error.code, `${error.message} ${way}`, { cause: error }) : error;
}

const otherModel = 'The query parameter model puts another model in the place of the document’s.';
const waysOut: Partial<Record<Problem['code'], string>> = {
  agent_not_found: 'The query parameter agent_slug puts another profile in the place of the document’s.',
  model_not_found: otherModel,
  no_provider_configured: otherModel,
};
