/** Jobs that take documents in, as people ask for them: made with their documents, looked at, cancelled and retried. */
import type { Knex } from 'knex';
import type { DocumentsAdd, IngestionJob, IngestionJobWithItems, operations } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { type AddedJob, addDocuments, markPending, packed } from './add-documents.ts';
import { recordAudit } from './audit.ts';
import { requireCorpus } from './corpus-rows.ts';
import type { Cursors } from './cursor.ts';
import { isDuplicate } from './database-errors.ts';
import type { DocumentRow } from './document-rows.ts';
import { mostDocuments, mostWaiting, requireRoom } from './ingestion-queue.ts';
import { countItems, type ItemRow, type JobRow, toJob, withItems } from './ingestion-rows.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { sweep } from './sweeps.ts';

export type JobQuery = Partial<NonNullable<operations['listIngestionJobs']['parameters']['query']>>;

export interface JobPlace {
  readonly corpusId: string;
  readonly ingestionId: string;
}

export interface IngestionJobs {
  /** Throws `not_found`, `queue_full` or `quota_exceeded`. */
  add(reach: Reach, corpusId: string, input: DocumentsAdd, apiKeyId: string | null): Promise<AddedJob>;
  /** Throws `not_found`. */
  list(reach: Reach, corpusId: string, query: JobQuery): Promise<Page<IngestionJob>>;
  find(reach: Reach, place: JobPlace): Promise<IngestionJobWithItems | null>;
  /** Throws `not_found` or `ingestion_conflict`. */
  cancel(reach: Reach, place: JobPlace): Promise<IngestionJobWithItems>;
  /** Throws `not_found`, `ingestion_conflict` or `queue_full`. */
  retry(reach: Reach, place: JobPlace): Promise<IngestionJobWithItems>;
  /** How many documents wait or are being taken in, of the organization of which most do. */
  mostWaiting(): Promise<number>;
  /** More of one organization are refused. */
  readonly waitingLimit: number;
  /** Forgets jobs that ended before. */
  prune(before: Date): Promise<number>;
}

export function ingestionJobRepository({ database, clock, cursors }: StoreParts): IngestionJobs {
  const now = (): number => clock.now().getTime();
  return {
    async add(reach, corpusId, input, apiKeyId) {
      const texts = await packed(input);
      // Quotas may hold beyond the organization: it is asked in the name of the server, with ownership in each query.
      const add = () =>
        database.write('installation', (sql) =>
          addDocuments(sql, reach, { corpusId, input, texts, apiKeyId, now: now() }),
        );
      // Of two who bring the same address at once, the second finds the document of the first.
      return await add().catch((error: unknown) => {
        if (isDuplicate(error)) return add();
        throw error;
      });
    },
    list: (reach, corpusId, query) =>
      database.read(reach, (sql) => listJobs(sql, cursors, reach, corpusId, query)),
    find: (reach, { corpusId, ingestionId: id }) =>
      database.read(reach, async (sql) => {
        const corpus = await requireCorpus(sql, reach, corpusId);
        const row = await sql<JobRow>('ingestion_jobs').where({ id, corpus_id: corpus.id }).first();
        return row ? withItems(sql, row) : null;
      }),
    cancel: (reach, place) => database.write(reach, (sql) => cancelJob(sql, reach, place, now())),
    retry: (reach, place) => database.write(reach, (sql) => retryJob(sql, reach, place, now())),
    mostWaiting: () => database.read('installation', mostWaiting),
    waitingLimit: mostDocuments,
    prune: (before) =>
      sweep(database, async (sql, most) => {
        const old: string[] = await sql('ingestion_jobs')
          .where('ended_at', '<', before.getTime())
          .limit(most)
          .pluck('id');
        return sql('ingestion_jobs').whereIn('id', old).delete();
      }),
  };
}

async function listJobs(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  corpusId: string,
  query: JobQuery,
): Promise<Page<IngestionJob>> {
  const corpus = await requireCorpus(sql, reach, corpusId);
  const { sort = '-created_at' } = query;
  const listing = {
    name: 'ingestion jobs',
    reach,
    filters: { corpusId },
    columns: ['created_at', 'id'],
    direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
    parts: [sql('ingestion_jobs').where({ corpus_id: corpus.id }).select('*')],
  };
  const { data, next_cursor } = await readPage<JobRow>(sql, cursors, listing, query);
  return { data: data.map(toJob), next_cursor };
}

async function requireJob(sql: Knex, reach: Reach, { corpusId, ingestionId: id }: JobPlace): Promise<JobRow> {
  const corpus = await requireCorpus(sql, reach, corpusId);
  const row = await sql<JobRow>('ingestion_jobs').where({ id, corpus_id: corpus.id }).first();
  if (!row) throw notFound('ingestion job');
  return row;
}

/** Whoever is at work on one of its items finds out when they store something: it is theirs no more. */
async function cancelJob(
  sql: Knex.Transaction,
  reach: Reach,
  place: JobPlace,
  now: number,
): Promise<IngestionJobWithItems> {
  const job = await requireJob(sql, reach, place);
  const open = await sql<ItemRow>('ingestion_items')
    .where({ job_id: job.id })
    .whereIn('status', ['queued', 'running'])
    .orderBy('ordinal')
    .forUpdate()
    .select('id', 'document_id');
  if (open.length === 0)
    throw new Problem('ingestion_conflict', `The job has ended (${job.status}): there is nothing to cancel.`);
  await sql<ItemRow>('ingestion_items')
    .where({ job_id: job.id })
    .whereIn('status', ['queued', 'running'])
    .update({ status: 'cancelled', worker: null, ended_at: now });
  await settleDocuments(
    sql,
    open.map(({ document_id }) => document_id),
    now,
  );
  const ended = await countItems(sql, job.id, { cancelled: open.length }, now);
  recordAudit(sql, reach, auditOf(job, 'cancel'));
  return withItems(sql, ended);
}

/** Those that nobody takes in any more are what they were before, or were never taken in. */
async function settleDocuments(sql: Knex.Transaction, ids: readonly string[], now: number): Promise<void> {
  for (let at = 0; at < ids.length; at += 500) {
    const left = () =>
      sql<DocumentRow>('documents')
        .whereIn('id', ids.slice(at, at + 500))
        .where({ status: 'pending' })
        .whereNotExists(
          sql('ingestion_items')
            .whereRaw('ingestion_items.document_id = documents.id')
            .whereIn('ingestion_items.status', ['queued', 'running']),
        );
    const changes = { updated_at: now, revision: sql.raw('revision + 1') };
    await left()
      .where('generation', '>', 0)
      .update({ ...changes, status: 'ready' });
    await left().update({ ...changes, status: 'failed', ...cancelled });
  }
}

const cancelled = {
  error_code: 'cancelled',
  error_message: 'Its job was cancelled before it was taken in; retry the job, or add the document again.',
} as const;

async function retryJob(
  sql: Knex.Transaction,
  reach: Reach,
  place: JobPlace,
  now: number,
): Promise<IngestionJobWithItems> {
  const job = await requireJob(sql, reach, place);
  if (job.ended_at === null)
    throw new Problem(
      'ingestion_conflict',
      `The job is ${job.status}: wait until it has ended, or cancel it.`,
    );
  const undone = await sql<ItemRow>('ingestion_items')
    .where({ job_id: job.id })
    .whereIn('status', ['failed', 'cancelled'])
    .forUpdate()
    .select('id', 'document_id');
  if (undone.length === 0)
    throw new Problem(
      'ingestion_conflict',
      'Every document of the job was taken in: there is nothing to retry.',
    );
  await requireRoom(sql, job.organization_id, undone.length);
  const again = { status: 'queued', stage: 'fetch', attempts: 0, not_before: 0 } as const;
  await sql<ItemRow>('ingestion_items')
    .where({ job_id: job.id })
    .whereIn('status', ['failed', 'cancelled'])
    .update({ ...again, error_code: null, error_message: null, started_at: null, ended_at: null });
  await markPending(
    sql,
    undone.map(({ document_id }) => document_id),
    now,
  );
  const next = {
    ...job,
    status: 'queued' as const,
    attempts: job.attempts + 1,
    failed: 0,
    cancelled: 0,
    // Those that are gone since do not come back.
    total: job.completed + undone.length,
    ended_at: null,
    revision: job.revision + 1,
  };
  await sql<JobRow>('ingestion_jobs').where({ id: job.id }).update(next);
  recordAudit(sql, reach, auditOf(job, 'retry'));
  return withItems(sql, next);
}

function auditOf<Verb extends string>({ id, organization_id }: JobRow, verb: Verb) {
  return {
    action: `ingestion_job.${verb}` as const,
    target: { type: 'ingestion_job', id },
    organizationId: organization_id,
  };
}
