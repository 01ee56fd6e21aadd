/** Rows of documents, and how they become documents. */
import type { Document, IngestionError } from '../contract/api.ts';
import { etagOf } from './etag.ts';
import { timestamp } from './timestamps.ts';

export interface DocumentRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  corpus_id: string;
  title: string;
  name_key: string;
  source: Document['source'];
  file_id: string | null;
  url: string | null;
  given: Buffer | null;
  media_type: string | null;
  bytes: number;
  sha256: string | null;
  status: Document['status'];
  enabled: boolean;
  metadata: string;
  text_id: string | null;
  generation: number;
  newest_generation: number;
  characters: number;
  chunks: number;
  error_code: IngestionError['code'] | null;
  error_message: string | null;
  user_id: string;
  api_key_id: string | null;
  revision: number;
  created_at: number;
  updated_at: number;
}

export interface TaggedDocument {
  readonly document: Document;
  readonly etag: string;
}

/** All but what may be long. */
export const documentColumns = [
  ...['id', 'organization_id', 'workspace_id', 'corpus_id', 'title', 'name_key', 'source', 'file_id', 'url'],
  ...['media_type', 'bytes', 'sha256', 'status', 'enabled', 'metadata', 'text_id', 'generation'],
  ...['newest_generation', 'characters', 'chunks', 'error_code', 'error_message', 'user_id', 'api_key_id'],
  ...['revision', 'created_at', 'updated_at'],
];

/** What the audit log says of a document. */
export function toldOfDocument(row: DocumentRow) {
  const { corpus_id, title, source, file_id, url, enabled, metadata } = toDocument(row);
  return { corpus_id, title, source, file_id, url, enabled, metadata };
}

export function taggedDocument(row: DocumentRow): TaggedDocument {
  return { document: toDocument(row), etag: etagOf(row) };
}

export function toDocument(row: DocumentRow): Document {
  return {
    id: row.id,
    corpus_id: row.corpus_id,
    title: row.title,
    source: row.source,
    file_id: row.file_id,
    url: row.url,
    status: row.status,
    enabled: Boolean(row.enabled),
    media_type: row.media_type,
    bytes: Number(row.bytes),
    characters: Number(row.characters),
    chunks: row.chunks,
    error: toError(row),
    metadata: JSON.parse(row.metadata),
    created_by: row.user_id,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

export function toError({
  error_code: code,
  error_message: message,
}: Pick<DocumentRow, 'error_code' | 'error_message'>): IngestionError | null {
  return code === null || message === null ? null : { code, message };
}
