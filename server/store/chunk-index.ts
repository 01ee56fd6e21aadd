/** Writes passages to where searches find them: staged beside those that are seen, and shown in one transaction. */
import type { Knex } from 'knex';
import { newId } from '../ids.ts';
import { changeCounts, countTerms, type StoredTerms } from './chunk-counts.ts';
import { storedTerms, storedWords, termsIn } from './chunk-terms.ts';
import { readVectors, writeVectors } from './chunk-vectors.ts';
import { clearPart } from './clear-corpora.ts';
import type { Database } from './database.ts';
import { deletePassagesOf } from './delete-in-parts.ts';
import { insertRows } from './insert-rows.ts';
import type { StoreParts } from './parts.ts';

/** Whose rows they are. */
export interface ChunkOwner {
  readonly organizationId: string;
  readonly workspaceId: string;
}

/** One reading of a document. */
export interface IndexedDocument {
  readonly corpusId: string;
  readonly documentId: string;
  readonly generation: number;
}

export interface NewChunk {
  readonly ordinal: number;
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly page: number | null;
  readonly line: number;
  readonly headings: readonly string[];
}

/** One vector for each chunk, in their order, and what made them; null for one that it refuses. */
export interface ChunkVectors {
  readonly embedder: string;
  readonly vectors: readonly (Float32Array | null)[];
}

export interface Chunks {
  /** Writes a part of a document's chunks, not yet seen by any search; writing the same ordinals again replaces them. */
  stage(
    owner: ChunkOwner,
    document: IndexedDocument,
    chunks: readonly NewChunk[],
    vectors: ChunkVectors | null,
  ): Promise<void>;
  /**
   * For each of the chunks, what the embedder has made of the same passage for a reading of the document before this one;
   * null where that is not there.
   */
  embedded(
    document: Pick<IndexedDocument, 'documentId' | 'generation'>,
    chunks: readonly NewChunk[],
    embedder: string,
  ): Promise<(Float32Array | null)[]>;
  /** In the caller's transaction: from now on searches see this generation of the document and no older one. */
  publish(owner: ChunkOwner, document: IndexedDocument, transaction: Knex.Transaction): Promise<void>;
  /** In the caller's transaction: nothing of the document is found any more. */
  remove(
    owner: ChunkOwner,
    corpusId: string,
    documentId: string,
    transaction: Knex.Transaction,
  ): Promise<void>;
  /** Deletes what was staged before, and never published. Answers with how many there were. */
  sweep(before: Date): Promise<number>;
  /** Deletes a part of what deleted corpora have left. Answers with how many rows; 0 where there is none for this process. */
  clear(): Promise<number>;
}

export interface ChunkRow {
  number: number;
  id: string;
  organization_id: string;
  workspace_id: string;
  corpus_number: number;
  document_id: string;
  generation: number;
  ordinal: number;
  published_at: number | null;
  text: string;
  start: number;
  end: number;
  page: number | null;
  line: number;
  headings: string;
  terms: string;
  length: number;
  created_at: number;
}

interface CorpusRow {
  number: number;
  corpus_id: string;
  organization_id: string;
  workspace_id: string;
  chunks: number;
  words: number;
}

export function chunkIndex({ database, clock }: Pick<StoreParts, 'database' | 'clock'>): Chunks {
  const now = () => clock.now().getTime();
  return {
    stage: (owner, document, chunks, vectors) =>
      database.write('installation', (sql) => stage(sql, owner, document, chunks, vectors, now())),
    embedded: (document, chunks, embedder) =>
      database.read('installation', (sql) => embedded(sql, document, chunks, embedder)),
    publish: (owner, document, sql) => publish(sql, owner, document, now()),
    remove: (owner, corpusId, documentId, sql) => remove(sql, owner, corpusId, documentId),
    sweep: (before) => sweepStaged(database, before.getTime()),
    clear: () => clearPart(database),
  };
}

async function stage(
  sql: Knex.Transaction,
  owner: ChunkOwner,
  document: IndexedDocument,
  chunks: readonly NewChunk[],
  vectors: ChunkVectors | null,
  now: number,
): Promise<void> {
  if (vectors && vectors.vectors.length !== chunks.length)
    throw new Error(`There are ${chunks.length} chunks and ${vectors.vectors.length} vectors.`);
  const corpus = await corpusOf(sql, owner, document.corpusId);
  const { documentId: document_id, generation } = document;
  const ordinals = chunks.map(({ ordinal }) => ordinal);
  await sql('chunks').where({ document_id, generation }).whereIn('ordinal', ordinals).delete();
  const rows = chunks.map((chunk) => rowOf(chunk, corpus, document, now));
  await insertRows(sql, 'chunks', rows);
  // No reference says so: passages outlive the documents of a corpus that is deleted.
  if (!(await sql('documents').where({ id: document_id }).forKeyShare().first('id')))
    throw new Error(`The document ${document_id} is gone.`);
  const numbers = await numbersOf(sql, document, ordinals);
  // Here, and not where they are published: that holds up everybody who writes. No search sees them before.
  await insertWords(
    sql,
    corpus.number,
    rows.map((row) => ({ ...row, number: numbers.get(row.ordinal) ?? 0 })),
  );
  if (!vectors) return;
  await writeVectors(
    sql,
    corpus,
    vectors.embedder,
    chunks.map(({ ordinal }, index) => ({
      number: numbers.get(ordinal) ?? 0,
      vector: vectors.vectors[index] ?? null,
    })),
  );
}

/** So many readings are looked at: of those before, what is not shown was given up long ago. */
const readingsBefore = 8;

async function embedded(
  sql: Knex,
  { documentId: document_id, generation }: Pick<IndexedDocument, 'documentId' | 'generation'>,
  chunks: readonly NewChunk[],
  identity: string,
): Promise<(Float32Array | null)[]> {
  if (generation === 1) return chunks.map(() => null);
  const first = Math.max(1, generation - readingsBefore);
  const before = Array.from({ length: generation - first }, (_, at) => first + at);
  const ordinals = chunks.map(({ ordinal }) => ordinal);
  const rows = await sql<ChunkRow>('chunks')
    .where({ document_id })
    .whereIn('generation', before)
    .whereIn('ordinal', ordinals)
    .select('number', 'ordinal', 'text', 'headings');
  const vectors = await readVectors(
    sql,
    identity,
    rows.map(({ number }) => number),
  );
  const byOrdinal = Map.groupBy(rows, (row) => row.ordinal);
  return chunks.map(({ ordinal, text, headings }) => {
    const same = byOrdinal
      .get(ordinal)
      ?.find(
        (row) => vectors.has(row.number) && row.text === text && row.headings === JSON.stringify(headings),
      );
    return (same && vectors.get(same.number)) ?? null;
  });
}

function rowOf(
  chunk: NewChunk,
  corpus: CorpusRow,
  { documentId, generation }: IndexedDocument,
  now: number,
): Omit<ChunkRow, 'number'> {
  const counts = termsIn([...chunk.headings, chunk.text].join('\n'));
  return {
    id: newId('chunk'),
    organization_id: corpus.organization_id,
    workspace_id: corpus.workspace_id,
    corpus_number: corpus.number,
    document_id: documentId,
    generation,
    ordinal: chunk.ordinal,
    published_at: null,
    text: chunk.text,
    start: chunk.start,
    end: chunk.end,
    page: chunk.page,
    line: chunk.line,
    headings: JSON.stringify(chunk.headings),
    terms: storedTerms(counts),
    length: [...counts.values()].reduce((sum, count) => sum + count, 0),
    created_at: now,
  };
}

async function numbersOf(
  sql: Knex.Transaction,
  { documentId: document_id, generation }: IndexedDocument,
  ordinals: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  const rows = await sql<ChunkRow>('chunks')
    .where({ document_id, generation })
    .whereIn('ordinal', ordinals)
    .select('ordinal', 'number');
  return new Map(rows.map(({ ordinal, number }) => [ordinal, number]));
}

/** Held against others who publish in the corpus: its counts change for everybody. */
async function corpusOf(sql: Knex.Transaction, owner: ChunkOwner, corpusId: string): Promise<CorpusRow> {
  const place = { corpus_id: corpusId, organization_id: owner.organizationId };
  await sql('searched_corpora')
    .insert({ ...place, workspace_id: owner.workspaceId, chunks: 0, words: 0 })
    .onConflict('corpus_id')
    .ignore();
  const row = await sql<CorpusRow>('searched_corpora').where(place).first();
  if (!row) throw new Error(`The corpus ${corpusId} belongs to another organization.`);
  return row;
}

/** So many chunks at a time: a document may have tens of thousands. */
const batch = 500;

async function publish(
  sql: Knex.Transaction,
  owner: ChunkOwner,
  document: IndexedDocument,
  now: number,
): Promise<void> {
  const { number } = await corpusOf(sql, owner, document.corpusId);
  await sql('searched_corpora').where({ number }).forUpdate().first('number');
  const { documentId: document_id, generation } = document;
  const change = countTerms();
  for await (const rows of chunksOf(sql, document_id, 'published'))
    for (const row of rows) if (row.generation < generation) change.take(row);
  await deletePassagesOf(sql, document_id, generation);
  for await (const rows of chunksOf(sql, document_id, 'staged')) {
    const staged = rows.filter((row) => row.generation === generation);
    for (const row of staged) change.add(row);
    const numbers = staged.map((row) => row.number);
    await sql('chunks').whereIn('number', numbers).update({ published_at: now });
  }
  await changeCounts(sql, { number, organizationId: owner.organizationId }, change);
}

async function remove(
  sql: Knex.Transaction,
  owner: ChunkOwner,
  corpusId: string,
  documentId: string,
): Promise<void> {
  const { number } = await corpusOf(sql, owner, corpusId);
  await sql('searched_corpora').where({ number }).forUpdate().first('number');
  const change = countTerms();
  for await (const rows of chunksOf(sql, documentId, 'published')) for (const row of rows) change.take(row);
  await deletePassagesOf(sql, documentId);
  await changeCounts(sql, { number, organizationId: owner.organizationId }, change);
}

type CountedRow = Pick<
  ChunkRow,
  'number' | 'organization_id' | 'generation' | 'ordinal' | 'terms' | 'length'
>;

async function* chunksOf(
  sql: Knex.Transaction,
  document_id: string,
  state: 'staged' | 'published',
): AsyncGenerator<CountedRow[]> {
  for (let after = { generation: -1, ordinal: -1 }; ; ) {
    const rows: CountedRow[] = await sql<ChunkRow>('chunks')
      .where({ document_id })
      .whereRaw(`published_at is ${state === 'staged' ? '' : 'not'} null`)
      .whereRaw('(generation, ordinal) > (?, ?)', [after.generation, after.ordinal])
      .orderBy(['generation', 'ordinal'])
      .limit(batch)
      .select('number', 'organization_id', 'generation', 'ordinal', 'terms', 'length');
    yield rows;
    const last = rows.at(-1);
    if (!last || rows.length < batch) return;
    after = last;
  }
}

/** A word as the index has it: no corpus has those of another. */
export function indexedWord(corpusNumber: number, term: string): string {
  return `${corpusNumber}_${term}`;
}

async function insertWords(
  sql: Knex.Transaction,
  corpusNumber: number,
  rows: readonly (StoredTerms & Pick<ChunkRow, 'number' | 'organization_id'>)[],
): Promise<void> {
  const wordsOf = (terms: string) => storedWords(terms).map((term) => indexedWord(corpusNumber, term));
  if (sql.client.config.client === 'sqlite3') {
    for (const { number, terms } of rows)
      await sql.raw('insert into chunk_words (rowid, words) values (?, ?)', [
        number,
        wordsOf(terms).join(' '),
      ]);
    return;
  }
  // Our words hold no quotes and no signs that a tsvector has a meaning for.
  const vectors = rows.map(({ terms }) =>
    wordsOf(terms)
      .map((word) => `'${word}'`)
      .join(' '),
  );
  await sql.raw(
    `insert into chunk_words (number, organization_id, words)
     select number, organization_id, words::tsvector
     from unnest(?::bigint[], ?::text[], ?::text[]) as given (number, organization_id, words)`,
    [rows.map(({ number }) => number), rows.map((row) => row.organization_id), vectors],
  );
}

async function sweepStaged(database: Database, before: number): Promise<number> {
  const most = 1000;
  for (let count = 0; ; ) {
    const found = await database.write('installation', (sql) =>
      sql('chunks')
        .whereIn(
          'number',
          sql('chunks')
            .whereNull('published_at')
            .where('created_at', '<', before)
            .limit(most)
            .select('number'),
        )
        .delete(),
    );
    count += found;
    if (found < most) return count;
  }
}
