/** `service sessions`: the conversations of this project, or those on a server. */
import type { ServiceClient } from '@service/client';
import type { Message, Session } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { askYesNo, canAsk } from '../ask.ts';
import { withSessions } from '../connection.ts';
import { describeMessage, describeSession } from '../conversation.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { localTime } from '../local-time.ts';
import { unless } from '../lost-answers.ts';
import {
  brief,
  type Column,
  columnsOf,
  counted,
  isTerminal,
  notice,
  print,
  printable,
  printJson,
  printTable,
} from '../output.ts';
import { findSession, noSuchSession, shortIds } from '../session-ids.ts';

interface Where {
  /** A remote server instead of the one inside this process. */
  readonly server?: string;
}

/** The latest first. On a terminal ids are as short as they may be. */
export async function listSessions(options: Where & { limit: string; json?: boolean }): Promise<void> {
  const limit = readLimit(options.limit);
  const sessions = await withSessions(
    options.server,
    (client) => latest(client, limit),
    () => [],
  );
  if (sessions.length === 0 && !options.json)
    return notice('There is no session here yet. service run "…" begins one.');
  printTable(sessions, isTerminal() ? columnsForPeople(sessions) : columnsForPrograms, {
    json: options.json,
  });
}

const columnsForPrograms: readonly Column<Session>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'updated', value: ({ updated_at }) => updated_at },
  { title: 'messages', value: ({ message_count }) => String(message_count) },
  { title: 'model', value: ({ model }) => model ?? '' },
  { title: 'title', value: ({ title }) => title },
];

/** Short enough for one line each; the model only where one was chosen. */
function columnsForPeople(sessions: readonly Session[]): readonly Column<Session>[] {
  const short = shortIds(sessions.map(({ id }) => id));
  const model: Column<Session> = { title: 'model', value: (session) => session.model ?? '' };
  const width = Math.max(20, columnsOf() - 50);
  return [
    { title: 'id', value: ({ id }) => short(id), style: 'cyan' },
    { title: 'updated', value: ({ updated_at }) => localTime(updated_at), style: 'dim' },
    { title: 'messages', value: ({ message_count }) => String(message_count) },
    ...(sessions.some((session) => session.model) ? [model] : []),
    {
      title: 'title',
      value: ({ title, status }) => brief(status === 'idle' ? title : `(${status}) ${title}`, width),
    },
  ];
}

/** As a conversation, or as JSON with every message in full. */
export async function showSession(id: string, options: Where & { json?: boolean }): Promise<void> {
  await withSession(options.server, id, async (client, session) => {
    if (options.json)
      return printJson({ ...session, messages: await Array.fromAsync(messagesOf(client, session)) });
    print(describeSession(session));
    for await (const message of messagesOf(client, session)) print(describeMessage(message));
  });
}

/** Gives a session another title. */
export async function renameSession(id: string, title: string, { server }: Where): Promise<void> {
  if (title.trim() === '') throw new CommandFailure('The title is empty.', exitCodes.usage);
  await withSession(server, id, async (client, session) => {
    const params = { path: { session_id: session.id } };
    const { data } = await client.PATCH('/api/v1/sessions/{session_id}', { params, body: { title } });
    print(printable(`${data.id} is now called ${data.title}`));
  });
}

/** Deletes a session for good, after a question. */
export async function deleteSession(id: string, options: Where & { yes?: boolean }): Promise<void> {
  if (!options.yes && !canAsk())
    throw new CommandFailure(
      'There is no terminal to ask at: --yes deletes without asking.',
      exitCodes.usage,
    );
  await withSession(options.server, id, async (client, session) => {
    const { title, message_count: messages } = session;
    const sure =
      options.yes ||
      (await askYesNo(`Delete “${printable(title)}” with its ${counted(messages, 'message')}?`));
    if (!sure) return notice('Nothing was deleted.');
    await client
      .DELETE('/api/v1/sessions/{session_id}', { params: { path: { session_id: session.id } } })
      .catch(unless(404));
    print(printable(`Deleted ${session.id}`));
  });
}

async function withSession(
  server: string | undefined,
  id: string,
  work: (client: ServiceClient, session: Session) => Promise<void>,
): Promise<void> {
  await withSessions(
    server,
    async (client) => work(client, await findSession(client, id)),
    () => {
      throw noSuchSession(id);
    },
  );
}

async function latest(client: ServiceClient, limit: number): Promise<readonly Session[]> {
  const sessions: Session[] = [];
  const all = paginate((page) =>
    client.GET('/api/v1/sessions', {
      params: { query: { ...page, sort: '-updated_at', limit: Math.min(limit, 100) } },
    }),
  );
  for await (const session of all) if (sessions.push(session) === limit) break;
  return sessions;
}

function messagesOf(client: ServiceClient, { id }: Session): AsyncGenerator<Message> {
  const path = { session_id: id };
  return paginate((page) =>
    client.GET('/api/v1/sessions/{session_id}/messages', {
      params: { path, query: { ...page, limit: 100 } },
    }),
  );
}

function readLimit(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new CommandFailure(
    `--limit takes a number, as 20, and not ${JSON.stringify(text)}.`,
    exitCodes.usage,
  );
}
