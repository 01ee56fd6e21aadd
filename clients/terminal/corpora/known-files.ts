/** What a corpus has of the files of this command: by the places that they were added from. */
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { ServiceClient } from '@service/client';
import type { Corpus, Document, StoredFile } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { unless } from '../lost-answers.ts';
import { counted, notice } from '../output.ts';
import type { LocalFile } from './local-files.ts';

/** A file that was added before, with what became of it. */
export interface KnownFile {
  readonly file: StoredFile;
  readonly document: Document;
}

/** The metadata of a file by which it is known again. */
export interface FileMarks {
  readonly place: string;
  /** Of where the place is, and of both. Short, and hashes: the folders of people's machines are nobody else's affair. */
  readonly root: string;
  readonly path: string;
  // Metadata may have others.
  readonly [name: string]: string;
}

/** As much as a value of metadata may hold. */
const longestPlace = 500;

/** Folders of two projects may have the same name and the same files: those of one never take the other's place. */
export function marksOf({ path, place: whole }: LocalFile): FileMarks {
  const place = whole.slice(-longestPlace);
  const root = path.slice(0, -place.length);
  return { place, root: markOf(root), path: markOf(path) };
}

function markOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** Finds what was added from the place of a file, the latest first: of one that could not be read again, the one before is still there. */
export async function knownFiles(
  client: ServiceClient,
  corpus: Corpus,
  signal: AbortSignal,
): Promise<(file: LocalFile) => readonly KnownFile[]> {
  const byFile = new Map<string, Document>();
  for await (const document of documentsOf(client, corpus, signal))
    if (document.file_id !== null) byFile.set(document.file_id, document);
  const known: KnownFile[] = [];
  if (byFile.size === 0) return () => [];
  for await (const file of addedFiles(client, signal)) {
    const document = byFile.get(file.id);
    if (document) known.push({ file, document });
  }
  // The folder that it was added from may be another one now, above or below.
  const byPath = Map.groupBy(known, ({ file }) => file.metadata.path ?? '');
  // Older versions have marked files by their place and the folder of that alone.
  const byName = Map.groupBy(byPath.get('') ?? [], ({ file }) => basename(file.metadata.place ?? ''));
  return (file) => {
    const { path, place } = marksOf(file);
    const ofThis = ({ file: { metadata } }: KnownFile) =>
      // Of a file that does not say where its place was, only the place can be known.
      metadata.root === undefined ? metadata.place === place : isAt(file.path, metadata);
    return [...(byPath.get(path) ?? []), ...(byName.get(basename(file.path)) ?? []).filter(ofThis)];
  };
}

function isAt(path: string, { place = '', root }: StoredFile['metadata']): boolean {
  return path.endsWith(place) && root === markOf(path.slice(0, -place.length));
}

export function documentsOf(
  client: ServiceClient,
  { id }: Corpus,
  signal?: AbortSignal,
): AsyncGenerator<Document> {
  const path = { corpus_id: id };
  return paginate((page) =>
    client.GET('/api/v1/corpora/{corpus_id}/documents', {
      params: { path, query: { ...page, limit: 100 } },
      ...(signal && { signal }),
    }),
  );
}

function addedFiles(client: ServiceClient, signal: AbortSignal): AsyncGenerator<StoredFile> {
  const query = { purpose: 'knowledge', limit: 100 } as const;
  return paginate((page) =>
    client.GET('/api/v1/files', { params: { query: { ...page, ...query } }, signal }),
  );
}

export async function forgetCorpus(client: ServiceClient, { id }: Corpus): Promise<void> {
  const params = { path: { corpus_id: id } };
  await client.DELETE('/api/v1/corpora/{corpus_id}', { params }).catch(unless(404));
}

export async function forgetDocument(client: ServiceClient, { corpus_id, id }: Document): Promise<void> {
  const params = { path: { corpus_id, document_id: id } };
  await client.DELETE('/api/v1/corpora/{corpus_id}/documents/{document_id}', { params }).catch(unless(404));
}

/** Deletes the copy of a file that nothing is made from any more; one that another corpus needs stays. */
export async function forgetFile(client: ServiceClient, file_id: string): Promise<void> {
  await client.DELETE('/api/v1/files/{file_id}', { params: { path: { file_id } } }).catch(unless(404, 409));
}

/** Deletes files of no document; those that cannot be are named, since nobody would find them. */
export async function forgetFiles(client: ServiceClient, fileIds: readonly string[]): Promise<void> {
  const left = [...fileIds];
  try {
    for (const fileId of fileIds) {
      await forgetFile(client, fileId);
      left.shift();
    }
  } catch (error) {
    const names = `${left.slice(0, mostNamed).join(', ')}${left.length > mostNamed ? ' …' : ''}`;
    const why = error instanceof Error ? error.message : String(error);
    notice(
      `${counted(left.length, 'file')} of no document could not be deleted on the server: ${names}\n${why}`,
    );
  }
}

const mostNamed = 10;
