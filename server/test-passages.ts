/** Documents in the database of a test's server as searches see them, past the jobs that take them in. */
import { join } from 'node:path';
import type { Clock } from './clock.ts';
import { createLog } from './log.ts';
import type { OpenServices } from './services.ts';
import { chunkIndex } from './store/chunk-index.ts';
import type { Database } from './store/database.ts';
import { openSqlite } from './store/sqlite.ts';

export interface WrittenPassage {
  readonly text: string;
  readonly headings?: readonly string[];
  readonly vector?: ArrayLike<number>;
}

export interface WrittenDocument {
  readonly id: string;
  readonly title: string;
  readonly metadata?: Readonly<Record<string, string>>;
  /** Parted by an empty line. */
  readonly passages: readonly WrittenPassage[];
}

/** Who owns the corpus, as the database has it. */
interface CorpusOwner {
  readonly organization_id: string;
  readonly workspace_id: string;
  readonly user_id: string;
}

/** Answers with the texts of the documents, into which citations point. */
export async function writeDocuments(
  { settings, clock }: Pick<OpenServices, 'settings' | 'clock'>,
  corpusId: string,
  documents: readonly WrittenDocument[],
): Promise<Map<string, string>> {
  const database = openSqlite(join(settings.dataDirectory, 'service.db'), createLog('silent'));
  try {
    return await writeInto(database, clock, corpusId, documents);
  } finally {
    await database.close();
  }
}

/** The same past any server; `embedder` is what made the vectors. */
export async function writeInto(
  database: Database,
  clock: Clock,
  corpusId: string,
  documents: readonly WrittenDocument[],
  embedder = 'test',
): Promise<Map<string, string>> {
  const index = chunkIndex({ database, clock });
  const owner: CorpusOwner = await database.read('installation', (sql) =>
    sql('corpora').where({ id: corpusId }).first('organization_id', 'workspace_id', 'user_id'),
  );
  const scope = { organizationId: owner.organization_id, workspaceId: owner.workspace_id };
  const texts = new Map<string, string>();
  for (const document of documents) {
    const text = document.passages.map((passage) => passage.text).join('\n\n');
    texts.set(document.id, text);
    const reading = { corpusId, documentId: document.id, generation: 1 };
    const vectors = document.passages.flatMap(({ vector }) => (vector ? [Float32Array.from(vector)] : []));
    await database.write('installation', (sql) =>
      sql('documents').insert(rowOf(document, corpusId, owner, text)),
    );
    await index.stage(scope, reading, chunksOf(document), vectors.length > 0 ? { embedder, vectors } : null);
    await database.write('installation', (sql) => index.publish(scope, reading, sql));
  }
  return texts;
}

function rowOf(document: WrittenDocument, corpus_id: string, owner: CorpusOwner, text: string) {
  const { id, title, metadata = {}, passages } = document;
  return {
    ...{ id, corpus_id, title, ...owner, name_key: title.toLowerCase(), metadata: JSON.stringify(metadata) },
    ...{ source: 'text', status: 'ready', enabled: true, generation: 1, newest_generation: 1, revision: 1 },
    ...{ bytes: text.length, characters: [...text].length, chunks: passages.length },
    ...{ created_at: 1, updated_at: 1 },
  };
}

function chunksOf({ passages }: WrittenDocument) {
  let start = 0;
  let line = 1;
  return passages.map(({ text, headings = [] }, ordinal) => {
    const end = start + [...text].length;
    const chunk = { ordinal, text, start, end, page: null, line, headings };
    start = end + 2;
    line += text.split('\n').length + 1;
    return chunk;
  });
}
