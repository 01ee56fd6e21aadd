/** Searching corpora, and the passages that searches find. */
import type { ChunkPage, Citation, CorpusSearchAnswer, Rerank, SearchMode } from '../contract/api.ts';
import type { Handler, Principal, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { askedReranker } from './asked-reranker.ts';
import { searcher } from './asked-session.ts';

export const searchCorpus: Handler<'searchCorpus'> = async (call, services) => {
  const { principal, path, body, signal } = call;
  if (!(await services.store.corpora.find(principal, path.corpus_id)))
    throw new Problem('not_found', 'No corpus has this id, or it is not yours.');
  return { status: 200, body: await answerFrom([path.corpus_id], body, { principal, signal }, services) };
};

export const searchCorpora: Handler<'searchCorpora'> = async ({ principal, body, signal }, services) => {
  const { corpus_ids, ...search } = body;
  for (const [at, id] of corpus_ids.entries())
    if (!(await services.store.corpora.find(principal, id)))
      throw new Problem('not_found', `No corpus has the id at /corpus_ids/${at}, or it is not yours.`);
  return { status: 200, body: await answerFrom(corpus_ids, search, { principal, signal }, services) };
};

export const listChunks: Handler<'listChunks'> = async ({ principal, path, query }, { store }) => {
  const place = { corpusId: path.corpus_id, documentId: path.document_id };
  if (!(await store.documents.find(principal, place)))
    throw new Problem('not_found', 'No document of the corpus has this id, or it is not yours.');
  const { data, next_cursor } = await store.passages.ofDocument(principal, place.documentId, query);
  const chunks: ChunkPage['data'] = data.map(({ id, ordinal, text, ...stands }) => ({
    ...{ id, ordinal, text },
    citation: citationOf(stands),
  }));
  return { status: 200, body: { data: chunks, next_cursor } };
};

interface Caller {
  readonly principal: Principal;
  readonly signal: AbortSignal;
}

/** How many passages an answer has where nobody says. */
const usualHits = 10;

async function answerFrom(
  corpusIds: readonly string[],
  { query, mode = 'hybrid', top_k: topK = usualHits, min_score: minScore, filter, rerank }: AskedSearch,
  { principal, signal }: Caller,
  services: Pick<Services, 'passageSearch' | 'store' | 'openReranker'>,
): Promise<CorpusSearchAnswer> {
  const reranker = await askedReranker(principal, rerank, services);
  const question = { corpusIds, query, mode, topK, minScore, filter, reranker };
  return services.passageSearch.search(searcher(principal), question, signal);
}

interface AskedSearch {
  readonly query: string;
  readonly mode?: SearchMode;
  readonly top_k?: number;
  readonly min_score?: number;
  readonly filter?: Record<string, string>;
  readonly rerank?: Rerank;
}

function citationOf(stands: Omit<Citation, 'headings'> & { readonly headings: readonly string[] }) {
  const { start, end, page, line, headings } = stands;
  return { start, end, page, line, headings: [...headings] };
}
