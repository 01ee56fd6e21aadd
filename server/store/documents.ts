/** Documents of corpora: listed, changed and deleted; jobs take them in. */
import type { Knex } from 'knex';
import type { Document, DocumentUpdate, operations } from '../contract/api.ts';
import { recordAudit } from './audit.ts';
import type { Chunks } from './chunk-index.ts';
import { requireCorpus } from './corpus-rows.ts';
import { changeStats } from './corpus-stats.ts';
import type { Cursors } from './cursor.ts';
import { despiteDeadlocks } from './despite-deadlocks.ts';
import {
  type DocumentRow,
  documentColumns,
  type TaggedDocument,
  taggedDocument,
  toDocument,
  toldOfDocument,
} from './document-rows.ts';
import { requireMatch } from './etag.ts';
import { leavingDocument } from './ingestion-rows.ts';
import { mergeMetadata } from './metadata.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { nameKey } from './user-row.ts';

export type DocumentQuery = Partial<NonNullable<operations['listDocuments']['parameters']['query']>>;

export interface DocumentPlace {
  readonly corpusId: string;
  readonly documentId: string;
}

export interface Documents {
  /** Throws `not_found`. */
  list(reach: Reach, corpusId: string, query: DocumentQuery): Promise<Page<Document>>;
  find(reach: Reach, place: DocumentPlace): Promise<TaggedDocument | null>;
  /** Throws `not_found`, `precondition_failed` or `invalid_request`. */
  update(
    reach: Reach,
    place: DocumentPlace,
    patch: DocumentUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedDocument>;
  /** Throws `not_found` or `precondition_failed`. */
  delete(reach: Reach, place: DocumentPlace, ifMatch?: string | undefined): Promise<void>;
}

interface DocumentParts extends StoreParts {
  readonly chunks: Pick<Chunks, 'remove'>;
}

export function documentRepository({ database, clock, cursors, chunks }: DocumentParts): Documents {
  const now = (): number => clock.now().getTime();
  return {
    list: (reach, corpusId, query) =>
      database.read(reach, (sql) => listDocuments(sql, cursors, reach, corpusId, query)),
    find: (reach, { corpusId, documentId: id }) =>
      database.read(reach, async (sql) => {
        const corpus = await requireCorpus(sql, reach, corpusId);
        const row = await sql<DocumentRow>('documents')
          .where({ id, corpus_id: corpus.id })
          .first<DocumentRow | undefined>(documentColumns);
        return row ? taggedDocument(row) : null;
      }),
    update: (reach, place, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockDocument(sql, reach, place, ifMatch);
        const { title, enabled, metadata } = patch;
        const changes = {
          ...(title !== undefined && { title, name_key: nameKey(title) }),
          ...(enabled !== undefined && { enabled }),
          ...(metadata && { metadata: mergeMetadata(row.metadata, metadata) }),
          revision: row.revision + 1,
          updated_at: now(),
        };
        const next = { ...row, ...changes };
        await sql<DocumentRow>('documents').where({ id: row.id }).update(changes);
        await changeStats(sql, row.corpus_id, row, next);
        recordAudit(sql, reach, {
          ...changeOf(row, 'update'),
          before: toldOfDocument(row),
          after: toldOfDocument(next),
        });
        return taggedDocument(next);
      }),
    delete: (reach, place, ifMatch) =>
      despiteDeadlocks(() =>
        database.write(reach, async (sql) => {
          const { id: corpus_id } = await requireCorpus(sql, reach, place.corpusId);
          // Held before the document, as by those who take it in: two then never wait for each other.
          const leaveJobs = await leavingDocument(sql, { corpus_id, id: place.documentId }, now());
          const row = await lockDocument(sql, reach, place, ifMatch);
          const owner = { organizationId: row.organization_id, workspaceId: row.workspace_id };
          await chunks.remove(owner, row.corpus_id, row.id, sql);
          await sql<DocumentRow>('documents').where({ id: row.id }).delete();
          await changeStats(sql, row.corpus_id, row, null);
          await leaveJobs();
          recordAudit(sql, reach, { ...changeOf(row, 'delete'), before: toldOfDocument(row) });
        }),
      ),
  };
}

function changeOf<Verb extends string>({ id, organization_id }: DocumentRow, verb: Verb) {
  return {
    action: `document.${verb}` as const,
    target: { type: 'document', id },
    organizationId: organization_id,
  };
}

/** The document is held before its corpus, here and wherever both are changed: two then never wait for each other. */
async function lockDocument(
  sql: Knex.Transaction,
  reach: Reach,
  { corpusId, documentId: id }: DocumentPlace,
  ifMatch: string | undefined,
): Promise<DocumentRow> {
  const corpus = await requireCorpus(sql, reach, corpusId);
  const row = await sql<DocumentRow>('documents')
    .where({ id, corpus_id: corpus.id })
    .forUpdate()
    .first<DocumentRow | undefined>(documentColumns);
  if (!row) throw notFound('document');
  requireMatch(ifMatch, row);
  return row;
}

/** What sorts behind everything that begins alike. */
const last = '\u{10ffff}';

async function listDocuments(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  corpusId: string,
  query: DocumentQuery,
): Promise<Page<Document>> {
  const corpus = await requireCorpus(sql, reach, corpusId);
  const { sort = '-created_at', status, q } = query;
  const found = sql('documents').where({ corpus_id: corpus.id });
  if (status !== undefined) found.where({ status });
  if (q !== undefined) found.whereBetween('name_key', [nameKey(q), nameKey(q) + last]);
  const listing = {
    name: 'documents',
    reach,
    filters: { corpusId, status, q },
    columns: ['created_at', 'id'],
    direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
    parts: [found.select(documentColumns)],
  };
  const { data, next_cursor } = await readPage<DocumentRow>(sql, cursors, listing, query);
  return { data: data.map(toDocument), next_cursor };
}
