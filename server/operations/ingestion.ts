/** Ingestion jobs: documents on their way into a corpus. */
import type { Handler } from '../handler.ts';
import { Problem } from '../problem.ts';

export const listIngestionJobs: Handler<'listIngestionJobs'> = async (
  { principal, path, query },
  { store },
) => ({
  status: 200,
  body: await store.ingestionJobs.list(principal, path.corpus_id, query),
});

export const getIngestionJob: Handler<'getIngestionJob'> = async ({ principal, path }, { store }) => {
  const job = await store.ingestionJobs.find(principal, placeOf(path));
  if (!job) throw new Problem('not_found', 'No ingestion job of the corpus has this id, or it is not yours.');
  return { status: 200, body: job };
};

export const cancelIngestionJob: Handler<'cancelIngestionJob'> = async (
  { principal, path },
  { store, ingestion },
) => {
  const job = await store.ingestionJobs.cancel(principal, placeOf(path));
  ingestion.dropLost();
  return { status: 202, body: job };
};

export const retryIngestionJob: Handler<'retryIngestionJob'> = async (
  { principal, path },
  { store, ingestion },
) => {
  const job = await store.ingestionJobs.retry(principal, placeOf(path));
  ingestion.wake();
  return { status: 202, body: job };
};

function placeOf(path: { readonly corpus_id: string; readonly ingestion_id: string }) {
  return { corpusId: path.corpus_id, ingestionId: path.ingestion_id };
}
