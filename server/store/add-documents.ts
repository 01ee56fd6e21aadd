/** Documents as they are added to a corpus: their rows, and the job that takes them in. */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Knex } from 'knex';
import type { DocumentsAdd, IngestionJobWithItems, StoredFile } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { type CorpusRow, requireCorpus } from './corpus-rows.ts';
import { type DocumentRow, documentColumns } from './document-rows.ts';
import { requireRoom } from './ingestion-queue.ts';
import { type ItemRow, type JobRow, withItems } from './ingestion-rows.ts';
import { insertRows } from './insert-rows.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import { type Reach, within } from './reach.ts';
import { nameKey } from './user-row.ts';

export interface AddedJob {
  readonly job: IngestionJobWithItems;
  /** What soft limits have to say, in sentences. */
  readonly notices: readonly string[];
}

const compress = promisify(gzip);

interface PackedText {
  readonly given: Buffer;
  readonly bytes: number;
  readonly sha256: string;
}

/** Before the transaction begins: it takes its time, beside the event loop. */
export async function packed({ texts = [] }: DocumentsAdd): Promise<PackedText[]> {
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

export async function addDocuments(
  sql: Knex.Transaction,
  reach: Reach,
  addition: Addition,
): Promise<AddedJob> {
  const { corpusId, input, texts, apiKeyId, now } = addition;
  const corpus = await requireCorpus(sql, reach, corpusId);
  const { file_ids = [], urls = [] } = input;
  await requireRoom(sql, corpus.organization_id, file_ids.length + urls.length + texts.length);
  const files = await filesOf(sql, reach, corpus, file_ids);
  const asked = [...files.map(fromFile), ...urls.map(fromUrl), ...textsOf(input, texts)];
  const known = await knownDocuments(sql, corpus.id, input);
  const documents = asked.map((one) => {
    const same = known.get(one.file_id ?? one.url ?? '');
    return { row: same ?? documentRow(corpus, reach, one, addition), isNew: !same };
  });
  const fresh = documents.flatMap(({ row, isNew }) => (isNew ? [row] : []));
  await insertRows(sql, 'documents', inOrder(fresh));
  const again = documents.flatMap(({ row, isNew }) => (isNew ? [] : [row.id]));
  await markPending(sql, again, now);
  const notices = await refuseTooMuch(sql, reach, corpus, addition, fresh);
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

export async function markPending(sql: Knex.Transaction, ids: readonly string[], now: number): Promise<void> {
  await sql<DocumentRow>('documents')
    .whereIn('id', [...ids])
    .update({ status: 'pending', updated_at: now, revision: sql.raw('revision + 1') });
}

/** Of two who bring the same addresses at once, neither has one that the other waits for while they wait themselves. */
function inOrder(rows: readonly DocumentRow[]): DocumentRow[] {
  const keyOf = ({ file_id, url }: DocumentRow) => file_id ?? url ?? '';
  return rows.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
}

/**
 * Texts lie in the database, and count as the files that they might have been. What an address has counts once it was
 * read: where there is no room left, it is not asked for.
 */
async function refuseTooMuch(
  sql: Knex.Transaction,
  reach: Reach,
  corpus: CorpusRow,
  { texts, apiKeyId, now }: Addition,
  fresh: readonly DocumentRow[],
): Promise<readonly string[]> {
  const bytes = texts.reduce((sum, text) => sum + text.bytes, 0);
  const more = fresh.some(({ source }) => source === 'url');
  if (bytes === 0 && !more) return [];
  const spender = {
    organizationId: corpus.organization_id,
    workspaceId: corpus.workspace_id,
    userId: reach.userId,
    apiKeyId,
  };
  const state = await quotaStateWithBytes(sql, spender, bytes, now, more);
  const warnings = refuseExceeded(state, now);
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
