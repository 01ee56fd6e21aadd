/** Jobs that take documents in, as people ask for them: made with their documents, looked at, cancelled and retried. */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Knex } from 'knex';
import type {
  DocumentsAdd,
  IngestionJob,
  IngestionJobWithItems,
  operations,
  StoredFile,
} from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { type CorpusRow, requireCorpus } from './corpus-rows.ts';
import type { Cursors } from './cursor.ts';
import { type DocumentRow, documentColumns } from './document-rows.ts';
import { countItems, type ItemRow, type JobRow, toJob, withItems } from './ingestion-rows.ts';
import { insertRows } from './insert-rows.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import { notFound, type Reach, within } from './reach.ts';
import { sweep } from './sweeps.ts';
import { nameKey } from './user-row.ts';

export type JobQuery = Partial<NonNullable<operations['listIngestionJobs']['parameters']['query']>>;

export interface JobPlace {
  readonly corpusId: string;
  readonly ingestionId: string;
}

export interface AddedJob {
  readonly job: IngestionJobWithItems;
  /** What soft limits have to say, in sentences. */
  readonly notices: readonly string[];
}

export interface IngestionJobs {
  /** Throws `not_found` or `quota_exceeded`. */
  add(reach: Reach, corpusId: string, input: DocumentsAdd, apiKeyId: string | null): Promise<AddedJob>;
  /** Throws `not_found`. */
  list(reach: Reach, corpusId: string, query: JobQuery): Promise<Page<IngestionJob>>;
  find(reach: Reach, place: JobPlace): Promise<IngestionJobWithItems | null>;
  /** Throws `not_found` or `ingestion_conflict`. */
  cancel(reach: Reach, place: JobPlace): Promise<IngestionJobWithItems>;
  /** Throws `not_found` or `ingestion_conflict`. */
  retry(reach: Reach, place: JobPlace): Promise<IngestionJobWithItems>;
  /** Forgets jobs that ended before. */
  prune(before: Date): Promise<number>;
}

export function ingestionJobRepository({ database, clock, cursors }: StoreParts): IngestionJobs {
  const now = (): number => clock.now().getTime();
  return {
    async add(reach, corpusId, input, apiKeyId) {
      const texts = await packed(input);
      return database.write(reach, (sql) =>
        addDocuments(sql, reach, { corpusId, input, texts, apiKeyId, now: now() }),
      );
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

interface PackedText {
  readonly given: Buffer;
  readonly bytes: number;
  readonly sha256: string;
}

const compress = promisify(gzip);

/** Before the transaction begins: it takes its time, beside the event loop. */
async function packed({ texts = [] }: DocumentsAdd): Promise<PackedText[]> {
  return Promise.all(
    texts.map(async ({ text }) => {
      const bytes = Buffer.from(text);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      return { given: await compress(bytes), bytes: bytes.length, sha256 };
    }),
  );
}

interface Addition {
  readonly corpusId: string;
  readonly input: DocumentsAdd;
  readonly texts: readonly PackedText[];
  readonly apiKeyId: string | null;
  readonly now: number;
}

async function addDocuments(sql: Knex.Transaction, reach: Reach, addition: Addition): Promise<AddedJob> {
  const { corpusId, input, texts, apiKeyId, now } = addition;
  const corpus = await requireCorpus(sql, reach, corpusId);
  const files = await filesOf(sql, reach, corpus, input.file_ids ?? []);
  const asked = [...files.map(fromFile), ...(input.urls ?? []).map(fromUrl), ...textsOf(input, texts)];
  const known = await knownDocuments(sql, corpus.id, input);
  const documents = asked.map((one) => {
    const same = known.get(one.file_id ?? one.url ?? '');
    return { row: same ?? documentRow(corpus, reach, one, addition), isNew: !same };
  });
  await insertRows(
    sql,
    'documents',
    documents.flatMap(({ row, isNew }) => (isNew ? [row] : [])),
  );
  const again = documents.flatMap(({ row, isNew }) => (isNew ? [] : [row.id]));
  await markPending(sql, again, now);
  const notices = await refuseTooMuch(sql, reach, corpus, addition);
  const job = jobRow(corpus, reach, documents.length, apiKeyId, now);
  await sql<JobRow>('ingestion_jobs').insert(job);
  await insertRows(
    sql,
    'ingestion_items',
    documents.map(({ row }, ordinal) => itemRow(job, row.id, ordinal)),
  );
  recordAudit(sql, reach, {
    action: 'document.add',
    target: { type: 'corpus', id: corpus.id },
    organizationId: corpus.organization_id,
    after: { ingestion_id: job.id, documents: documents.length, again: again.length },
  });
  return { job: await withItems(sql, job), notices };
}

interface FileOfDocument {
  readonly id: string;
  readonly filename: string;
  readonly media_type: StoredFile['media_type'];
  readonly size: number;
  readonly sha256: string;
}

/** In the order in which they were named, and held: none is deleted before its document is there. */
async function filesOf(
  sql: Knex.Transaction,
  reach: Reach,
  { organization_id }: CorpusRow,
  ids: readonly string[],
): Promise<FileOfDocument[]> {
  const rows: FileOfDocument[] = await within(sql('files').whereIn('id', [...ids]), reach)
    .where({ organization_id })
    .orderBy('id')
    .forUpdate()
    .select('id', 'filename', 'media_type', 'size', 'sha256');
  const found = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id, index) => {
    const row = found.get(id);
    if (row) return row;
    throw new Problem(
      'not_found',
      `There is no file ${id} in the organization of the corpus, or it is not yours.`,
      {
        errors: [{ in: 'body', pointer: `/file_ids/${index}`, message: 'No such file.', code: 'not_found' }],
      },
    );
  });
}

type Source = Partial<DocumentRow> & Pick<DocumentRow, 'title' | 'source' | 'bytes'>;

function fromFile({ id, filename, media_type, size, sha256 }: FileOfDocument): Source {
  return { title: filename, source: 'file', file_id: id, media_type, bytes: Number(size), sha256 };
}

const longestTitle = 300;

function fromUrl(url: string): Source {
  return { title: [...url].slice(0, longestTitle).join(''), source: 'url', url, bytes: 0 };
}

function textsOf({ texts = [], metadata = {} }: DocumentsAdd, packedTexts: readonly PackedText[]): Source[] {
  return packedTexts.map((text, index) => {
    const { title = '', metadata: own = {} } = texts[index] ?? {};
    return { title, source: 'text', ...text, metadata: JSON.stringify({ ...metadata, ...own }) };
  });
}

/** Those that the corpus has already, by file or address; held in the order of their ids. */
async function knownDocuments(
  sql: Knex.Transaction,
  corpus_id: string,
  { file_ids = [], urls = [] }: DocumentsAdd,
): Promise<ReadonlyMap<string, DocumentRow>> {
  const rows: DocumentRow[] = await sql('documents')
    .where({ corpus_id })
    .where((either) => either.whereIn('file_id', [...file_ids]).orWhereIn('url', [...urls]))
    .orderBy('id')
    .forUpdate()
    .select(documentColumns);
  return new Map(rows.map((row) => [row.file_id ?? row.url ?? '', row]));
}

function documentRow(
  corpus: CorpusRow,
  { userId }: Reach,
  source: Source,
  { input, apiKeyId, now }: Addition,
): DocumentRow {
  return {
    organization_id: corpus.organization_id,
    workspace_id: corpus.workspace_id,
    corpus_id: corpus.id,
    file_id: null,
    url: null,
    given: null,
    media_type: null,
    sha256: null,
    metadata: JSON.stringify(input.metadata ?? {}),
    ...source,
    id: newId('document'),
    name_key: nameKey(source.title),
    status: 'pending',
    enabled: true,
    text_id: null,
    generation: 0,
    newest_generation: 0,
    characters: 0,
    chunks: 0,
    error_code: null,
    error_message: null,
    user_id: userId,
    api_key_id: apiKeyId,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

async function markPending(sql: Knex.Transaction, ids: readonly string[], now: number): Promise<void> {
  await sql<DocumentRow>('documents')
    .whereIn('id', [...ids])
    .update({ status: 'pending', updated_at: now, revision: sql.raw('revision + 1') });
}

/** Texts lie in the database, and count as the files that they might have been. */
async function refuseTooMuch(
  sql: Knex.Transaction,
  reach: Reach,
  corpus: CorpusRow,
  { texts, apiKeyId, now }: Addition,
): Promise<readonly string[]> {
  const bytes = texts.reduce((sum, text) => sum + text.bytes, 0);
  if (bytes === 0) return [];
  const spender = {
    organizationId: corpus.organization_id,
    workspaceId: corpus.workspace_id,
    userId: reach.userId,
    apiKeyId,
  };
  const warnings = refuseExceeded(await quotaStateWithBytes(sql, spender, bytes, now), now);
  return warnings.map(({ message }) => message);
}

function jobRow(
  { organization_id, workspace_id, id }: CorpusRow,
  { userId }: Reach,
  total: number,
  apiKeyId: string | null,
  now: number,
): JobRow {
  return {
    id: newId('ingestionJob'),
    organization_id,
    workspace_id,
    corpus_id: id,
    status: 'queued',
    attempts: 1,
    total,
    completed: 0,
    failed: 0,
    cancelled: 0,
    user_id: userId,
    api_key_id: apiKeyId,
    served_at: now,
    told_at: 0,
    revision: 1,
    created_at: now,
    started_at: null,
    ended_at: null,
  };
}

function itemRow({ id, organization_id }: JobRow, document_id: string, ordinal: number): ItemRow {
  return {
    id: newId('ingestionItem'),
    organization_id,
    job_id: id,
    document_id,
    ordinal,
    status: 'queued',
    stage: 'fetch',
    attempts: 0,
    generation: null,
    worker: null,
    not_before: 0,
    error_code: null,
    error_message: null,
    started_at: null,
    ended_at: null,
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
