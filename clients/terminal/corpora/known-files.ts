/** What a corpus has of the files of this command: by the places that they were added from. */
import type { ServiceClient } from '@service/client';
import type { Corpus, Document, StoredFile } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { paginate } from '@service/client/pagination';

/** A file that was added before, with what became of it. */
export interface KnownFile {
  readonly file: StoredFile;
  readonly document: Document;
}

/** The metadata of a file in which its place stands. */
export const placeMember = 'place';

/** Those of each place, the latest first: of one that could not be read again, the one before is still there. */
export async function knownFiles(
  client: ServiceClient,
  corpus: Corpus,
): Promise<ReadonlyMap<string, readonly KnownFile[]>> {
  const byFile = new Map<string, Document>();
  for await (const document of documentsOf(client, corpus))
    if (document.file_id !== null) byFile.set(document.file_id, document);
  const known: KnownFile[] = [];
  if (byFile.size === 0) return new Map();
  for await (const file of addedFiles(client)) {
    const document = byFile.get(file.id);
    if (document) known.push({ file, document });
  }
  return Map.groupBy(known, ({ file }) => file.metadata[placeMember] ?? '');
}

export function documentsOf(client: ServiceClient, { id }: Corpus): AsyncGenerator<Document> {
  const path = { corpus_id: id };
  return paginate((page) =>
    client.GET('/api/v1/corpora/{corpus_id}/documents', {
      params: { path, query: { ...page, limit: 100 } },
    }),
  );
}

function addedFiles(client: ServiceClient): AsyncGenerator<StoredFile> {
  const query = { purpose: 'knowledge', limit: 100 } as const;
  return paginate((page) => client.GET('/api/v1/files', { params: { query: { ...page, ...query } } }));
}

/** Deletes the copy of a file that nothing is made from any more; one that another corpus needs stays. */
export async function forgetFile(client: ServiceClient, file_id: string): Promise<void> {
  try {
    await client.DELETE('/api/v1/files/{file_id}', { params: { path: { file_id } } });
  } catch (error) {
    if (!(error instanceof ServiceError && (error.status === 404 || error.status === 409))) throw error;
  }
}
