/** Corpora: what belongs together and is searched together, and to whom it is granted. */
import { etagWith, type Handler, isCurrent, rowTags } from '../handler.ts';
import { Problem } from '../problem.ts';

export const listCorpora: Handler<'listCorpora'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.corpora.list(principal, query),
});

export const createCorpus: Handler<'createCorpus'> = async ({ principal, body }, { store }) => {
  const { corpus, etag } = await store.corpora.create(principal, body);
  const headers = { Location: `/api/v1/corpora/${corpus.id}`, ETag: etagWith(etag, corpus.stats) };
  return { status: 201, headers, body: corpus };
};

export const getCorpus: Handler<'getCorpus'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.corpora.find(principal, path.corpus_id);
  if (!found) throw new Problem('not_found', 'No corpus has this id, or it is not yours.');
  const ETag = etagWith(found.etag, found.corpus.stats);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.corpus };
};

export const updateCorpus: Handler<'updateCorpus'> = async (
  { principal, path, headers, body },
  { store },
) => {
  const ifMatch = rowTags(headers['If-Match']);
  const { corpus, etag } = await store.corpora.update(principal, path.corpus_id, body, ifMatch);
  return { status: 200, headers: { ETag: etagWith(etag, corpus.stats) }, body: corpus };
};

export const deleteCorpus: Handler<'deleteCorpus'> = async ({ principal, path, headers }, { store }) => {
  await store.corpora.delete(principal, path.corpus_id, rowTags(headers['If-Match']));
  return { status: 204 };
};

export const getCorpusAccess: Handler<'getCorpusAccess'> = async (
  { principal, path, headers },
  { store },
) => {
  const { access, etag: ETag } = await store.corpora.access(principal, path.corpus_id);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: access };
};

export const putCorpusAccess: Handler<'putCorpusAccess'> = async (
  { principal, path, headers, body },
  { store },
) => {
  const { access, etag } = await store.corpora.putAccess(
    principal,
    path.corpus_id,
    body,
    headers['If-Match'],
  );
  return { status: 200, headers: { ETag: etag }, body: access };
};
