/** Documents of a corpus: added, looked at, changed and deleted. */
import { type Handler, isCurrent } from '../handler.ts';
import { Problem } from '../problem.ts';
import { quotaNotice } from './quota-notice.ts';

export const listDocuments: Handler<'listDocuments'> = async ({ principal, path, query }, { store }) => ({
  status: 200,
  body: await store.documents.list(principal, path.corpus_id, query),
});

export const addDocuments: Handler<'addDocuments'> = async (
  { principal, path, body },
  { store, ingestion },
) => {
  if (!body.file_ids && !body.urls && !body.texts) throw nothingNamed();
  const apiKeyId = principal.credential === 'api_key' ? principal.credentialId : null;
  const { job, notices } = await store.ingestionJobs.add(principal, path.corpus_id, body, apiKeyId);
  ingestion.wake();
  const Location = `/api/v1/corpora/${job.corpus_id}/ingestion-jobs/${job.id}`;
  return { status: 202, headers: { Location, ...quotaNotice(notices) }, body: job };
};

export const getDocument: Handler<'getDocument'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.documents.find(principal, placeOf(path));
  if (!found) throw new Problem('not_found', 'No document of the corpus has this id, or it is not yours.');
  const { document, etag } = found;
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: document };
};

export const updateDocument: Handler<'updateDocument'> = async (
  { principal, path, headers, body },
  { store },
) => {
  const ifMatch = headers['If-Match'];
  const { document, etag } = await store.documents.update(principal, placeOf(path), body, ifMatch);
  return { status: 200, headers: { ETag: etag }, body: document };
};

export const deleteDocument: Handler<'deleteDocument'> = async (
  { principal, path, headers },
  { store, ingestion },
) => {
  await store.documents.delete(principal, placeOf(path), headers['If-Match']);
  ingestion.dropLost();
  return { status: 204 };
};

function nothingNamed(): Problem {
  const message = 'At least one of file_ids, urls and texts.';
  return new Problem('invalid_request', `Nothing is named to make documents from. ${message}`, {
    errors: [{ in: 'body', pointer: '', message, code: 'anyOf' }],
  });
}

function placeOf(path: { readonly corpus_id: string; readonly document_id: string }) {
  return { corpusId: path.corpus_id, documentId: path.document_id };
}
