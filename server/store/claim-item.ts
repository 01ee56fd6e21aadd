/** Which document a process takes in next, and that it is the one which does. */
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { Knex } from 'knex';
import type { Chunking } from '../contract/api.ts';
import { type CorpusRow, chunkingOf } from './corpus-rows.ts';
import type { DocumentRow } from './document-rows.ts';
import type { ItemRow, JobRow } from './ingestion-rows.ts';

/** A document that this process takes in. */
export interface ClaimedItem {
  readonly itemId: string;
  readonly jobId: string;
  readonly worker: string;
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly corpusId: string;
  readonly documentId: string;
  readonly userId: string;
  readonly apiKeyId: string | null;
  /** Counts up with each time that the document is taken in. */
  readonly generation: number;
  readonly attempts: number;
  readonly title: string;
  readonly source:
    | { readonly kind: 'file'; readonly fileId: string | null; readonly mediaType: string | null }
    | { readonly kind: 'url'; readonly url: string }
    | { readonly kind: 'text'; readonly text: Buffer };
  readonly chunking: Chunking;
}

/** What is known of an item when it is claimed. */
export interface ClaimedRows {
  readonly item: ItemRow;
  readonly job: JobRow;
  readonly document: DocumentRow;
  readonly corpus: CorpusRow;
}

/** More jobs of one organization than these are not looked at when one is chosen: they come later. */
const mostJobs = 500;

const decompress = promisify(gunzip);

/** The next document to take in, of the organization that has the fewest at work; null where there is none. */
export async function claimItem(
  sql: Knex.Transaction,
  worker: string,
  now: number,
): Promise<ClaimedRows | null> {
  for (const organizationId of await organizationsInTurn(sql)) {
    const item = await nextItem(sql, organizationId, now);
    if (item) return take(sql, item, worker, now);
  }
  return null;
}

/**
 * Of the job that was served longest ago. Passes over the items that other processes hold: all of them take from one
 * job at the same time.
 */
async function nextItem(
  sql: Knex.Transaction,
  organization_id: string,
  now: number,
): Promise<ItemRow | undefined> {
  const jobs: string[] = await sql<JobRow>('ingestion_jobs')
    .whereNull('ended_at')
    .where({ organization_id })
    .orderBy('served_at')
    .limit(mostJobs)
    .pluck('id');
  for (const id of jobs) {
    const queued = sql<ItemRow>('ingestion_items')
      .where({ job_id: id, status: 'queued' })
      .where('not_before', '<=', now)
      .orderBy('ordinal');
    const item: ItemRow | undefined = await unlocked(queued).first();
    if (item) return item;
  }
  return undefined;
}

/** SQLite has one writer, who is held up by nobody. */
function unlocked(query: Knex.QueryBuilder): Knex.QueryBuilder {
  return query.client.config.client === 'pg' ? query.forUpdate().skipLocked() : query;
}

/**
 * First those that have the fewest documents at work, and of these the one whose jobs have waited longest. All that have
 * any: however many jobs one of them has, they hide nobody else's.
 */
async function organizationsInTurn(sql: Knex.Transaction): Promise<string[]> {
  const waiting = await sql('ingestion_jobs')
    .whereNull('ended_at')
    .groupBy('organization_id')
    .select<{ organization_id: string; served_at: number }[]>(
      'organization_id',
      sql.raw('min(served_at) as served_at'),
    );
  if (waiting.length <= 1) return waiting.map(({ organization_id }) => organization_id);
  const counts = await sql('ingestion_items')
    .whereNotNull('worker')
    .groupBy('organization_id')
    .select<{ organization_id: string; count: number }[]>('organization_id', sql.raw('count(*) as count'));
  const atWork = new Map(counts.map(({ organization_id, count }) => [organization_id, Number(count)]));
  const load = ({ organization_id }: { organization_id: string }) => atWork.get(organization_id) ?? 0;
  return waiting
    .toSorted((a, b) => load(a) - load(b) || Number(a.served_at) - Number(b.served_at))
    .map(({ organization_id }) => organization_id);
}

async function take(
  sql: Knex.Transaction,
  item: ItemRow,
  worker: string,
  now: number,
): Promise<ClaimedRows | null> {
  // Another process may take the item of another job at this moment, which is about the same document: under one generation
  // they would replace each other's passages.
  const document = await sql<DocumentRow>('documents').where({ id: item.document_id }).forUpdate().first();
  const corpus = await sql<CorpusRow>('corpora')
    .where({ id: document?.corpus_id ?? '' })
    .first();
  if (!document || !corpus) return null;
  const generation = document.newest_generation + 1;
  await sql<DocumentRow>('documents').where({ id: document.id }).update({ newest_generation: generation });
  // A process is known as soon as it has something in hand: else nobody would miss it. Whoever was about to bury it for its
  // silence waits for this, and sees that it lives.
  await sql('ingestion_workers')
    .insert({ owner: worker, renewals: 1 })
    .onConflict('owner')
    .merge({ renewals: sql.raw('ingestion_workers.renewals + 1') });
  const taken = {
    ...item,
    status: 'running' as const,
    stage: 'fetch' as const,
    attempts: item.attempts + 1,
    generation,
    worker,
    started_at: item.started_at ?? now,
  };
  await sql<ItemRow>('ingestion_items').where({ id: item.id }).update(taken);
  return { item: taken, job: await serve(sql, item.job_id, now), document, corpus };
}

/** Comes last: all who work for the job wait for its row. */
async function serve(sql: Knex.Transaction, id: string, now: number): Promise<JobRow> {
  const job = await sql<JobRow>('ingestion_jobs').where({ id }).forUpdate().first();
  if (!job) throw new Error(`There is no ingestion job ${id}.`);
  await sql<JobRow>('ingestion_jobs')
    .where({ id })
    .update({
      status: 'running',
      started_at: job.started_at ?? now,
      served_at: now,
      revision: job.revision + 1,
    });
  return job;
}

/** With its text, unpacked: outside of the transaction that claimed it. */
export async function toClaimed({ item, job, document, corpus }: ClaimedRows): Promise<ClaimedItem> {
  return {
    itemId: item.id,
    jobId: job.id,
    worker: item.worker ?? '',
    organizationId: job.organization_id,
    workspaceId: job.workspace_id,
    corpusId: job.corpus_id,
    documentId: document.id,
    userId: job.user_id,
    apiKeyId: job.api_key_id,
    generation: item.generation ?? 0,
    attempts: item.attempts,
    title: document.title,
    source: await sourceOf(document),
    chunking: chunkingOf(corpus),
  };
}

async function sourceOf(document: DocumentRow): Promise<ClaimedItem['source']> {
  const { source, url, given } = document;
  if (source === 'url' && url !== null) return { kind: 'url', url };
  if (source === 'text' && given !== null) return { kind: 'text', text: await decompress(given) };
  return { kind: 'file', fileId: document.file_id, mediaType: document.media_type };
}
