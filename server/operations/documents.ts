/** Documents of a corpus: added, looked at, changed and deleted. */
import type { Document } from '../contract/api.ts';
import { etagWith, type Handler, isCurrent, rowTags } from '../handler.ts';
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
  const ETag = tagOf(found);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.document };
};

export const updateDocument: Handler<'updateDocument'> = async (
  { principal, path, headers, body },
  { store },
) => {
  const ifMatch = rowTags(headers['If-Match']);
  const changed = await store.documents.update(principal, placeOf(path), body, ifMatch);
  return { status: 200, headers: { ETag: tagOf(changed) }, body: changed.document };
};

export const deleteDocument: Handler<'deleteDocument'> = async (
  { principal, path, headers },
  { store, ingestion },
) => {
  await store.documents.delete(principal, placeOf(path), rowTags(headers['If-Match']));
  ingestion.dropLost();
  return { status: 204 };
};

/** A file that is deleted is named no more, and writes no document by that. */
function tagOf({ document, etag }: { readonly document: Document; readonly etag: string }): string {
  return etagWith(etag, [document.file_id]);
}

function nothingNamed(): Problem {
  const message = 'At least one of file_ids, urls and texts.';
  return new Problem('invalid_request', `Nothing is named to make documents from. ${message}`, {
    errors: [{ in: 'body', pointer: '', message, code: 'anyOf' }],
  });
}

function placeOf(path: { readonly corpus_id: string; readonly document_id: string }) {
  return { corpusId: path.corpus_id, documentId: path.document_id };
}
