/** What a session remembers: its messages one by one, what is found in them, and the files that its runs changed. */
import type { Handler } from '../handler.ts';
import { diffOf, mostFiles } from './session-diff.ts';
import { revertTo } from './session-revert.ts';

export const getMessage: Handler<'getMessage'> = async ({ principal, path }, { store }) => ({
  status: 200,
  body: await store.messages.find(principal, path.session_id, path.message_id),
});

export const getSessionDiff: Handler<'getSessionDiff'> = async ({ principal, path, query }, { store }) => {
  const { session_id } = path;
  // One more than is shown, to know whether there are more.
  const files = await store.fileChanges.list(principal, session_id, {
    runId: query.run_id,
    limit: mostFiles + 1,
  });
  const read = (sha256: string) => store.fileChanges.content(principal, session_id, sha256);
  return { status: 200, body: await diffOf(session_id, files, read) };
};

export const searchSessions: Handler<'searchSessions'> = async ({ principal, body, query }, { store }) => ({
  status: 200,
  body: await store.searches.find(principal, body, query),
});

export const revertSession: Handler<'revertSession'> = async ({ principal, path, body }, services) => ({
  status: 200,
  body: await revertTo(principal, path.session_id, body, services),
});

export const forkSession: Handler<'forkSession'> = async ({ principal, path, body }, { store }) => {
  const { session, etag } = await store.history.fork(principal, path.session_id, body);
  return { status: 201, headers: { Location: `/api/v1/sessions/${session.id}`, ETag: etag }, body: session };
};

export const updateMessage: Handler<'updateMessage'> = async ({ principal, path, body }, { store }) => ({
  status: 200,
  body: await store.history.updateMessage(principal, path.session_id, path.message_id, body),
});

export const deleteMessage: Handler<'deleteMessage'> = async ({ principal, path }, { store }) => {
  await store.history.deleteMessage(principal, path.session_id, path.message_id);
  return { status: 204 };
};
