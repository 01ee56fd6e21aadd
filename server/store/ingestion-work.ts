/** Jobs that take documents in, as processes work on them: who is at which item, and what becomes of it. */
import type { Knex } from 'knex';
import type { IngestionError, IngestionItem } from '../contract/api.ts';
import type { Chunks } from './chunk-index.ts';
import { keepsVectors } from './chunk-vectors.ts';
import { type ClaimedItem, claimItem, toClaimed } from './claim-item.ts';
import type { CorpusRow } from './corpus-rows.ts';
import { changeStats } from './corpus-stats.ts';
import type { DocumentRow } from './document-rows.ts';
import { countItems, type ItemRow, type JobRow } from './ingestion-rows.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import { queueCorpus } from './reindexings.ts';

/** What a document was found to be. */
export interface IngestedDocument {
  readonly textId: string;
  readonly mediaType: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly characters: number;
  readonly chunks: number;
  /** What made its vectors; null where it has none. */
  readonly embedder: string | null;
}

/** A process that takes documents in: it is alive as long as its number grows. */
export interface SeenWorker {
  readonly owner: string;
  readonly renewals: number;
}

/** Whatever is done for an item that is the process's no more throws an error named `LeaseLost`. */
export interface IngestionWork {
  /** The next document to take in, of the organization that has the fewest at work; null where there is none. */
  claim(worker: string): Promise<ClaimedItem | null>;
  /** What made the vectors that searches of the corpus read, and whether another may: none where vectors are not kept. */
  vectorsOf(item: ClaimedItem): Promise<{ readonly embedder: string | null; readonly empty: boolean }>;
  reach(item: ClaimedItem, stage: IngestionItem['stage']): Promise<void>;
  /** From now on searches see the document as it was read this time. Throws `quota_exceeded`. */
  publish(item: ClaimedItem, found: IngestedDocument): Promise<void>;
  /** Tries again from that time on; null gives it up. */
  fail(item: ClaimedItem, error: IngestionError, again: Date | null): Promise<void>;
  /** Gives an item back that nothing is wrong with, as when the process stops. */
  giveBack(item: ClaimedItem): Promise<void>;
  /** Gives back what a process that is alive has, and is not at: what became of it could not be stored. */
  free(worker: string, except: readonly ClaimedItem[]): Promise<void>;
  /** Which of these are the process's no more: cancelled or deleted, or freed by another process. */
  lost(items: readonly ClaimedItem[]): Promise<readonly ClaimedItem[]>;
  /** Says that the process is alive. False where others took it for dead: nothing that it was at is its own any more. */
  renew(worker: string): Promise<boolean>;
  workers(): Promise<SeenWorker[]>;
  /** Frees what a dead process was at, unless it has shown itself since; answers with how many items. */
  bury(seen: SeenWorker): Promise<number>;
}

interface WorkParts extends StoreParts {
  readonly chunks: Pick<Chunks, 'publish'>;
}

/** So often one document may bring down the process that reads it. */
const mostDeaths = 5;

export function ingestionWork({ database, clock, chunks }: WorkParts): IngestionWork {
  const now = (): number => clock.now().getTime();
  const change = <T>(work: (sql: Knex.Transaction) => Promise<T>): Promise<T> =>
    database.write('installation', work);
  return {
    claim: async (worker) => {
      // Most of the time there is nothing to do: that is found out without a transaction.
      const open = await database.read('installation', (sql) =>
        sql<JobRow>('ingestion_jobs').whereNull('ended_at').first('id'),
      );
      const claimed = open && (await change((sql) => claimItem(sql, worker, now())));
      return claimed ? await toClaimed(claimed) : null;
    },
    vectorsOf: ({ corpusId }) => database.read('installation', (sql) => vectorsOf(sql, corpusId)),
    reach: (item, stage) =>
      change(async (sql) => {
        await held(sql, item);
        await sql<ItemRow>('ingestion_items').where({ id: item.itemId }).update({ stage });
      }),
    publish: (item, found) =>
      change(async (sql) => {
        await held(sql, item);
        await publish(sql, chunks, item, found, now());
      }),
    fail: (item, error, again) =>
      change(async (sql) => {
        await held(sql, item);
        await fail(sql, item, error, again?.getTime() ?? null, now());
      }),
    giveBack: (item) =>
      change(async (sql) => {
        await held(sql, item);
        await sql<ItemRow>('ingestion_items')
          .where({ id: item.itemId })
          .update({ status: 'queued', worker: null, attempts: item.attempts - 1 });
      }),
    free: (worker, except) =>
      change(async (sql) => {
        await sql<ItemRow>('ingestion_items')
          .where({ worker })
          .whereNotIn(
            'id',
            except.map(({ itemId }) => itemId),
          )
          .update({ status: 'queued', worker: null, attempts: sql.raw('attempts - 1') });
      }),
    lost: (items) => database.read('installation', (sql) => lost(sql, items)),
    renew: (worker) =>
      change(
        async (sql) => (await sql('ingestion_workers').where({ owner: worker }).increment('renewals')) > 0,
      ),
    workers: () =>
      database.read('installation', async (sql) => {
        const rows: SeenWorker[] = await sql('ingestion_workers').select('owner', 'renewals');
        return rows.map(({ owner, renewals }) => ({ owner, renewals: Number(renewals) }));
      }),
    bury: (seen) => change((sql) => bury(sql, seen, now())),
  };
}

/** By its generation, too: a process that was at an item which was cancelled and retried may be at it once more. */
async function held(sql: Knex.Transaction, item: ClaimedItem): Promise<void> {
  const { itemId: id, worker, generation, documentId } = item;
  const mine = await sql<ItemRow>('ingestion_items')
    .where({ id, worker, generation })
    .forUpdate()
    .first('id');
  if (mine) return;
  throw Object.assign(new Error(`The document ${documentId} is taken in by another process, or no more.`), {
    name: 'LeaseLost',
  });
}

async function lost(sql: Knex, items: readonly ClaimedItem[]): Promise<readonly ClaimedItem[]> {
  const rows = await sql<ItemRow>('ingestion_items')
    .whereIn(
      'id',
      items.map(({ itemId }) => itemId),
    )
    .select('id', 'worker', 'generation');
  const found = new Map(rows.map((row) => [row.id, row]));
  return items.filter(({ itemId, worker, generation }) => {
    const row = found.get(itemId);
    return row?.worker !== worker || row.generation !== generation;
  });
}

async function publish(
  sql: Knex.Transaction,
  chunks: WorkParts['chunks'],
  item: ClaimedItem,
  found: IngestedDocument,
  now: number,
): Promise<void> {
  const { documentId, corpusId, generation } = item;
  const before = await sql<DocumentRow>('documents').where({ id: documentId }).forUpdate().first();
  // A later attempt may have come first: what it has shown is newer.
  if (before && before.generation < generation) {
    await chunks.publish(item, { corpusId, documentId, generation }, sql);
    const { textId: text_id, mediaType: media_type, embedder, ...numbers } = found;
    const after = { ...before, ...numbers, text_id, media_type, generation };
    await sql<DocumentRow>('documents')
      .where({ id: documentId })
      .update({
        ...{ ...numbers, text_id, media_type, generation },
        ...{ status: 'ready', error_code: null, error_message: null },
        ...{ revision: before.revision + 1, updated_at: now },
      });
    // The first vectors of a corpus say which ones it has.
    if (embedder !== null && (await passagesOf(sql, corpusId)) === found.chunks)
      await sql<CorpusRow>('corpora').where({ id: corpusId }).update({ embedder_identity: embedder });
    await changeStats(sql, corpusId, before, after);
    await queueWhereBare(sql, item, embedder, now);
    await refuseGrowth(sql, before, found.bytes, now);
  }
  await endItem(
    sql,
    item,
    { status: 'completed', stage: 'publish', error_code: null, error_message: null },
    now,
  );
  await countItems(sql, item.jobId, { completed: 1 }, now);
}

/**
 * How much an address has is known once it was read; files were counted when they came. Asked at the end: whoever has a
 * quota waits for the others who ask.
 */
async function refuseGrowth(
  sql: Knex.Transaction,
  before: DocumentRow,
  bytes: number,
  now: number,
): Promise<void> {
  const grown = bytes - Number(before.bytes);
  if (before.source === 'file' || grown <= 0) return;
  const spender = {
    organizationId: before.organization_id,
    workspaceId: before.workspace_id,
    userId: before.user_id,
    apiKeyId: before.api_key_id,
  };
  refuseExceeded(await quotaStateWithBytes(sql, spender, grown, now), now);
}

/** One statement: between two, the first document may be shown, and those beside it would be taken in without vectors. */
async function vectorsOf(sql: Knex, corpusId: string): ReturnType<IngestionWork['vectorsOf']> {
  if (!(await keepsVectors(sql))) return { embedder: null, empty: false };
  const row = await sql<CorpusRow>('corpora')
    .leftJoin('searched_corpora', 'searched_corpora.corpus_id', 'corpora.id')
    .where('corpora.id', corpusId)
    .first('corpora.embedder_identity', 'searched_corpora.chunks');
  return { embedder: row?.embedder_identity ?? null, empty: Number(row?.chunks ?? 0) === 0 };
}

/** Those of disabled documents among them: they keep their vectors. */
async function passagesOf(sql: Knex, corpus_id: string): Promise<number> {
  const row = await sql('searched_corpora').where({ corpus_id }).first('chunks');
  return Number(row?.chunks ?? 0);
}

/** A document without the vectors that its corpus has gets them in the background. */
async function queueWhereBare(
  sql: Knex.Transaction,
  { corpusId, organizationId }: ClaimedItem,
  embedder: string | null,
  now: number,
): Promise<void> {
  const row = await sql<CorpusRow>('corpora').where({ id: corpusId }).first('embedder_identity');
  const identity = row?.embedder_identity ?? null;
  if (identity === null || identity === embedder || !(await keepsVectors(sql))) return;
  await queueCorpus(sql, { corpusId, organizationId, identity, now });
}

async function endItem(
  sql: Knex.Transaction,
  { itemId: id }: Pick<ClaimedItem, 'itemId'>,
  changes: Partial<ItemRow>,
  now: number,
): Promise<void> {
  await sql<ItemRow>('ingestion_items')
    .where({ id })
    .update({ ...changes, worker: null, ended_at: now });
}

async function fail(
  sql: Knex.Transaction,
  item: Pick<ClaimedItem, 'itemId' | 'documentId' | 'jobId'>,
  { code: error_code, message: error_message }: IngestionError,
  again: number | null,
  now: number,
): Promise<void> {
  if (again !== null) {
    await sql<ItemRow>('ingestion_items')
      .where({ id: item.itemId })
      .update({ status: 'queued', worker: null, not_before: again, error_code, error_message });
    return;
  }
  const row = await sql<DocumentRow>('documents')
    .where({ id: item.documentId })
    .forUpdate()
    .first('revision');
  // What was taken in before is still seen; why it is not newer is to be read.
  await sql<DocumentRow>('documents')
    .where({ id: item.documentId })
    .update({
      status: sql.raw("case when generation > 0 then 'ready' else 'failed' end"),
      ...{ error_code, error_message, updated_at: now, revision: (row?.revision ?? 0) + 1 },
    });
  await endItem(sql, item, { status: 'failed', error_code, error_message }, now);
  await countItems(sql, item.jobId, { failed: 1 }, now);
}

async function bury(sql: Knex.Transaction, { owner, renewals }: SeenWorker, now: number): Promise<number> {
  const gone = await sql('ingestion_workers').where({ owner, renewals }).delete();
  if (gone === 0) return 0;
  const left = await sql<ItemRow>('ingestion_items')
    .where({ worker: owner })
    .orderBy('id')
    .forUpdate()
    .select();
  for (const { id: itemId, document_id: documentId, job_id: jobId, attempts } of left) {
    const item = { itemId, documentId, jobId };
    if (attempts >= mostDeaths) await fail(sql, item, broughtDown, null, now);
    else
      await sql<ItemRow>('ingestion_items').where({ id: itemId }).update({ status: 'queued', worker: null });
  }
  return left.length;
}

const broughtDown: IngestionError = {
  code: 'internal',
  message: `The server died ${mostDeaths} times while it took the document in; tell the operator.`,
};
