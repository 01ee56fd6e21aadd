/** What a session remembers: its messages one by one, what is found in them, and the files that its runs changed. */
import { type Handler, isCurrent } from '../handler.ts';
import { diffOf, mostFiles } from './session-diff.ts';
import { revertTo } from './session-revert.ts';

export const getMessage: Handler<'getMessage'> = async ({ principal, path, headers }, { store }) => {
  const { message, etag } = await store.messages.find(principal, path.session_id, path.message_id);
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: message };
};

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

export const updateMessage: Handler<'updateMessage'> = async (
  { principal, path, headers, body },
  { store },
) => {
  const { session_id, message_id } = path;
  const ifMatch = headers['If-Match'];
  const changed = await store.history.updateMessage(principal, session_id, message_id, body, ifMatch);
  return { status: 200, headers: { ETag: changed.etag }, body: changed.message };
};

export const deleteMessage: Handler<'deleteMessage'> = async ({ principal, path, headers }, { store }) => {
  await store.history.deleteMessage(principal, path.session_id, path.message_id, headers['If-Match']);
  return { status: 204 };
};
