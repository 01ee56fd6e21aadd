/** Corpora: what belongs together and is searched together, and to whom it is granted. */
import type { Corpus } from '../contract/api.ts';
import { etagWith, type Handler, isCurrent, rowTags, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';

export const listCorpora: Handler<'listCorpora'> = async ({ principal, query }, { store, embedders }) => {
  const { data, next_cursor } = await store.corpora.list(principal, query);
  return { status: 200, body: { data: await marked(data, embedders), next_cursor } };
};

export const createCorpus: Handler<'createCorpus'> = async ({ principal, body }, { store }) => {
  const { corpus, etag } = await store.corpora.create(principal, body);
  const headers = { Location: `/api/v1/corpora/${corpus.id}`, ETag: tagOf(etag, corpus) };
  return { status: 201, headers, body: corpus };
};

export const getCorpus: Handler<'getCorpus'> = async ({ principal, path, headers }, { store, embedders }) => {
  const found = await store.corpora.find(principal, path.corpus_id);
  if (!found) throw new Problem('not_found', 'No corpus has this id, or it is not yours.');
  const corpus = await markedOne(found.corpus, embedders);
  const ETag = tagOf(found.etag, corpus);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: corpus };
};

export const updateCorpus: Handler<'updateCorpus'> = async (
  { principal, path, headers, body },
  { store, embedders },
) => {
  const ifMatch = rowTags(headers['If-Match']);
  const changed = await store.corpora.update(principal, path.corpus_id, body, ifMatch);
  const corpus = await markedOne(changed.corpus, embedders);
  return { status: 200, headers: { ETag: tagOf(changed.etag, corpus) }, body: corpus };
};

export const reindexCorpus: Handler<'reindexCorpus'> = async (
  { principal, path },
  { store, embedders, reindexing },
) => {
  const identity = await embedders.identity();
  const asked = await store.reindexings.ask(principal, path.corpus_id, identity);
  reindexing.wake();
  const corpus = await markedOne(asked.corpus, embedders);
  return { status: 202, headers: { ETag: tagOf(asked.etag, corpus) }, body: corpus };
};

export const deleteCorpus: Handler<'deleteCorpus'> = async (
  { principal, path, headers },
  { store, ingestion },
) => {
  await store.corpora.delete(principal, path.corpus_id, rowTags(headers['If-Match']));
  ingestion.dropLost();
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

function tagOf(rowTag: string, { stats, stale }: Corpus): string {
  return etagWith(rowTag, { stats, stale });
}

type Embedders = Pick<Services['embedders'], 'identity' | 'current'>;

async function markedOne(corpus: Corpus, embedders: Embedders): Promise<Corpus> {
  const [one = corpus] = await marked([corpus], embedders);
  return one;
}

/** With whether documents are searched that the embedder of today has not embedded. */
async function marked(corpora: Corpus[], embedders: Embedders): Promise<Corpus[]> {
  const identity = await embedders.identity();
  const isStale = ({ stats, embedder }: Corpus): boolean => stats.chunks > 0 && embedder !== identity;
  // Where nothing embeds today, nothing would end it.
  if (!corpora.some(isStale) || !(await embedders.current()).embedder) return corpora;
  return corpora.map((corpus) => ({ ...corpus, stale: isStale(corpus) }));
}
