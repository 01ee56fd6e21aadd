/** Finds passages for a question: by its words, by its vector, and what was found as it is told. */
import type { Knex } from 'knex';
import type { ChunkRow } from './chunk-index.ts';
import { type Narrow, nearest, type SearchedCorpus, whyNoVectors } from './chunk-vectors.ts';
import { rankByWords } from './chunk-words.ts';
import type { Cursors } from './cursor.ts';
import type { Database } from './database.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';

type Caller = Pick<Reach, 'userId' | 'organizationIds'>;

/** Where a search looks; the caller has been shown these corpora before. */
export interface ChunkScope {
  readonly corpusIds: readonly string[];
  /** What the metadata of a document has to say. */
  readonly filter?: Readonly<Record<string, string>> | undefined;
}

/** A passage by its number, the best first. */
export interface RankedChunk {
  readonly number: number;
  readonly score: number;
}

export interface DocumentChunk {
  readonly id: string;
  readonly ordinal: number;
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly page: number | null;
  readonly line: number;
  readonly headings: readonly string[];
}

export interface FoundChunk extends DocumentChunk {
  readonly number: number;
  readonly corpus_id: string;
  readonly document_id: string;
  readonly title: string;
}

export interface ChunkSearches {
  /** Why no vectors can be compared, and what helps; null where they can. */
  whyNoVectors(): Promise<string | null>;
  byWords(caller: Caller, scope: ChunkScope, question: string, limit: number): Promise<RankedChunk[]>;
  byVector(
    caller: Caller,
    scope: ChunkScope,
    question: { readonly embedder: string; readonly vector: Float32Array },
    limit: number,
  ): Promise<RankedChunk[]>;
  /** In the order of the document. The caller has been shown the document before. */
  ofDocument(reach: Reach, documentId: string, page: PageQuery): Promise<Page<DocumentChunk>>;
  /** In no order; those that are gone by now are left out. */
  read(caller: Caller, numbers: readonly number[]): Promise<FoundChunk[]>;
}

/** How many passages are weighed by their words: of more, the rarest words choose. */
const budget = 2000;
/** Where only some documents count, most of what has the words falls away. */
const filteredBudget = 20_000;

export function chunkSearches({
  database,
  cursors,
}: Pick<StoreParts, 'database' | 'cursors'>): ChunkSearches {
  return {
    whyNoVectors: () => database.read('installation', whyNoVectors),
    byWords: (caller, scope, text, limit) =>
      // The policies of PostgreSQL would keep a search from its index: ownership is the first sign of every word.
      database.read('installation', async (sql) => {
        const corpora = await searchedCorpora(sql, caller, scope);
        const narrow = narrowTo(sql, scope);
        const question = { text, limit, budget: scope.filter ? filteredBudget : budget };
        return rankByWords(sql, corpora, question, narrow);
      }),
    byVector: (caller, scope, { embedder, vector }, limit) =>
      database.read(caller, async (sql) => {
        const corpora = await searchedCorpora(sql, caller, scope);
        return nearest(sql, corpora, { embedder, vector, limit }, narrowTo(sql, scope));
      }),
    ofDocument: (reach, documentId, page) =>
      database.read(reach, (sql) => chunksOfDocument(sql, cursors, reach, documentId, page)),
    read: (caller, numbers) => readChunks(database, caller, numbers),
  };
}

/** Those with anything in them. */
async function searchedCorpora(
  sql: Knex,
  { organizationIds }: Caller,
  { corpusIds }: ChunkScope,
): Promise<SearchedCorpus[]> {
  const rows: SearchedCorpus[] = await sql('searched_corpora')
    .whereIn('corpus_id', corpusIds)
    .whereIn('organization_id', organizationIds)
    .where('chunks', '>', 0)
    .orderBy('number');
  return rows;
}

function narrowTo(sql: Knex, { filter = {} }: ChunkScope): Narrow {
  const member =
    sql.client.config.client === 'sqlite3'
      ? '(select value from json_each(documents.metadata) where key = ?)'
      : 'documents.metadata::jsonb ->> ?';
  return (query) => {
    query
      .join('documents', 'documents.id', 'chunks.document_id')
      .whereNotNull('chunks.published_at')
      .where('documents.enabled', true);
    for (const [name, value] of Object.entries(filter)) query.whereRaw(`${member} = ?`, [name, value]);
    return query;
  };
}

async function readChunks(
  database: Database,
  caller: Caller,
  numbers: readonly number[],
): Promise<FoundChunk[]> {
  if (numbers.length === 0) return [];
  const rows: (ChunkRow & { corpus_id: string; title: string })[] = await database.read(caller, (sql) =>
    sql('chunks')
      .join('searched_corpora', 'searched_corpora.number', 'chunks.corpus_number')
      .join('documents', 'documents.id', 'chunks.document_id')
      .whereIn('chunks.number', numbers)
      .whereIn('chunks.organization_id', caller.organizationIds)
      .select('chunks.*', 'searched_corpora.corpus_id', 'documents.title'),
  );
  return rows.map(toFoundChunk);
}

function toFoundChunk(row: ChunkRow & { corpus_id: string; title: string }): FoundChunk {
  const { number, corpus_id, document_id, title } = row;
  return { ...toChunk(row), number, corpus_id, document_id, title };
}

function toChunk({ id, ordinal, text, start, end, page, line, headings }: ChunkRow): DocumentChunk {
  return { id, ordinal, text, start, end, page, line, headings: JSON.parse(headings) };
}

async function chunksOfDocument(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  document_id: string,
  page: PageQuery,
): Promise<Page<DocumentChunk>> {
  const chunks = sql('chunks')
    .where({ document_id })
    .whereIn('organization_id', reach.organizationIds)
    .whereNotNull('published_at');
  const listing = {
    ...{ name: 'chunks', reach, filters: { document_id }, columns: ['generation', 'ordinal'] },
    ...{ direction: 'asc' as const, parts: [chunks.select('*')] },
  };
  const { data, next_cursor } = await readPage<ChunkRow>(sql, cursors, listing, page);
  return { data: data.map(toChunk), next_cursor };
}
