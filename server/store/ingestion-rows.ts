/** Rows of ingestion jobs and their items, and how they become what callers see. */
import type { Knex } from 'knex';
import type {
  IngestionError,
  IngestionItem,
  IngestionJob,
  IngestionJobWithItems,
  WorkspaceEvent,
} from '../contract/api.ts';
import type { CorporaOf } from './delete-in-parts.ts';
import { toError } from './document-rows.ts';
import { nullableTimestamp, timestamp } from './timestamps.ts';
import { tellWorkspace } from './workspace-events.ts';

export interface JobRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  corpus_id: string;
  status: IngestionJob['status'];
  attempts: number;
  total: number;
  completed: number;
  failed: number;
  cancelled: number;
  user_id: string;
  api_key_id: string | null;
  served_at: number;
  told_at: number;
  revision: number;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
}

export interface ItemRow {
  id: string;
  organization_id: string;
  job_id: string;
  document_id: string;
  ordinal: number;
  status: IngestionItem['status'];
  stage: IngestionItem['stage'];
  attempts: number;
  generation: number | null;
  worker: string | null;
  not_before: number;
  error_code: IngestionError['code'] | null;
  error_message: string | null;
  started_at: number | null;
  ended_at: number | null;
}

export function toJob(row: JobRow): IngestionJob {
  const { total, completed, failed, cancelled } = row;
  return {
    id: row.id,
    corpus_id: row.corpus_id,
    status: row.status,
    attempts: row.attempts,
    progress: { total, completed, failed, cancelled },
    created_by: row.user_id,
    created_at: timestamp(row.created_at),
    started_at: nullableTimestamp(row.started_at),
    ended_at: nullableTimestamp(row.ended_at),
  };
}

export async function withItems(sql: Knex, row: JobRow): Promise<IngestionJobWithItems> {
  const items = await sql<ItemRow>('ingestion_items').where({ job_id: row.id }).orderBy('ordinal').select();
  return { ...toJob(row), items: items.map(toItem) };
}

function toItem(row: ItemRow): IngestionItem {
  return {
    document_id: row.document_id,
    status: row.status,
    stage: row.stage,
    attempts: row.attempts,
    error: toError(row),
    started_at: nullableTimestamp(row.started_at),
    ended_at: nullableTimestamp(row.ended_at),
  };
}

/** How often a job tells of its progress: a person who watches sees it move. */
const tellEachMs = 1000;

type Counts = Partial<Record<'completed' | 'failed' | 'cancelled', number>>;

/** Counts what became of items; the job ends with its last one. Comes last in its transaction. */
export async function countItems(
  sql: Knex.Transaction,
  jobId: string,
  counts: Counts,
  now: number,
): Promise<JobRow> {
  const row = await sql<JobRow>('ingestion_jobs').where({ id: jobId }).forUpdate().first();
  if (!row) throw new Error(`There is no ingestion job ${jobId}.`);
  const next = { ...row, revision: row.revision + 1 };
  for (const name of ['completed', 'failed', 'cancelled'] as const) next[name] += counts[name] ?? 0;
  const ended = next.completed + next.failed + next.cancelled >= next.total;
  if (ended) Object.assign(next, { status: endOf(next), ended_at: now });
  const tells = ended || now - Number(row.told_at) >= tellEachMs;
  if (tells) next.told_at = now;
  await sql<JobRow>('ingestion_jobs').where({ id: jobId }).update(next);
  if (tells) tellOf(sql, next, ended ? 'ingestion_ended' : 'ingestion_progress', now);
  return next;
}

function endOf({ completed, failed, cancelled }: JobRow): IngestionJob['status'] {
  if (cancelled > 0) return 'cancelled';
  if (failed === 0) return 'completed';
  return completed === 0 ? 'failed' : 'partial';
}

type IngestionEventType = Extract<WorkspaceEvent['event']['type'], `ingestion_${string}`>;

function tellOf(sql: Knex.Transaction, row: JobRow, type: IngestionEventType, now: number): void {
  const { corpus_id, status, progress } = toJob(row);
  const event = { type, ingestion_id: row.id, corpus_id, status, progress };
  tellWorkspace(sql, { sessionId: null, workspaceId: row.workspace_id }, [{ type, event }], now);
}

/**
 * The jobs of a document that goes away do not wait for it. Asked before it is deleted, as its items go with it; what
 * is answered is to be called last.
 */
export async function leavingDocument(
  sql: Knex.Transaction,
  document: { readonly corpus_id: string; readonly id: string },
  now: number,
): Promise<() => Promise<void>> {
  const open = await sql<ItemRow>('ingestion_items')
    .whereIn(
      'document_id',
      sql('documents')
        .where({ ...document })
        .select('id'),
    )
    .whereIn('status', ['queued', 'running'])
    .forUpdate()
    .select('job_id');
  return async (): Promise<void> => {
    for (const [jobId, items] of Map.groupBy(open, ({ job_id }) => job_id))
      await countItems(sql, jobId, { cancelled: items.length }, now);
  };
}

/** Holds what is taken into corpora at this moment: whoever deletes them waits until nothing waits for them. */
export async function holdItemsAtWork(sql: Knex.Transaction, place: CorporaOf): Promise<void> {
  const jobs = sql('ingestion_jobs')
    .where({ ...place })
    .select('id');
  await sql<ItemRow>('ingestion_items')
    .whereIn('job_id', jobs)
    .where({ status: 'running' })
    .orderBy('id')
    .forUpdate()
    .select('id');
}
