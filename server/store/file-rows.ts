/** Rows of files, and how they become files. */
import type { Knex } from 'knex';
import type { operations, StoredFile } from '../contract/api.ts';
import type { Cursors } from './cursor.ts';
import { etagOf, requireMatch } from './etag.ts';
import { type Page, readPage } from './page.ts';
import { notFound, type Part, partsWithin, type Reach, requireRole, within } from './reach.ts';
import { timestamp } from './timestamps.ts';
import { nameKey } from './user-row.ts';

export type FileQuery = Partial<NonNullable<operations['listFiles']['parameters']['query']>>;

export interface TaggedFile {
  readonly file: StoredFile;
  readonly etag: string;
}

export interface FileRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  object_key: string;
  filename: string;
  name_key: string;
  media_type: string;
  purpose: StoredFile['purpose'];
  metadata: string;
  size: number;
  sha256: string;
  user_id: string;
  api_key_id: string | null;
  revision: number;
  created_at: number;
  updated_at: number;
}

export async function findFile(sql: Knex, reach: Reach, id: string): Promise<FileRow | null> {
  const row = await within(sql<FileRow>('files').where({ id }), reach).first();
  if (row) requireRole(reach, row);
  return row ?? null;
}

/** Held against other writers. Throws `not_found` or `precondition_failed`. */
export async function lockFile(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch: string | undefined,
): Promise<FileRow> {
  const row = await within(sql<FileRow>('files').where({ id }), reach).forUpdate().first();
  if (!row) throw notFound('file');
  requireRole(reach, row);
  requireMatch(ifMatch, row);
  return row;
}

export async function listFiles(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  query: FileQuery,
): Promise<Page<StoredFile>> {
  const { sort = '-created_at', workspace_id, purpose, q, sha256 } = query;
  const filters = { workspace_id, purpose, q, sha256 };
  const listing = {
    name: 'files',
    reach,
    filters,
    columns: ['created_at', 'id'],
    direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
    parts: partsWithin(reach, (place) => filesOf(sql, place, filters)),
  };
  const { data, next_cursor } = await readPage<FileRow>(sql, cursors, listing, query);
  return { data: data.map(toFile), next_cursor };
}

/** What sorts behind everything that begins alike. */
const last = '\u{10ffff}';

type FileFilters = {
  readonly [Name in 'workspace_id' | 'purpose' | 'q' | 'sha256']: FileQuery[Name] | undefined;
};

function filesOf(sql: Knex, place: Part, filters: FileFilters): Knex.QueryBuilder {
  const { workspace_id, purpose, q, sha256 } = filters;
  const files = sql('files').where({ ...place });
  if (workspace_id !== undefined) files.where({ workspace_id });
  if (purpose !== undefined) files.where({ purpose });
  if (sha256 !== undefined) files.where({ sha256 });
  if (q !== undefined) files.whereBetween('name_key', [nameKey(q), nameKey(q) + last]);
  return files.select('*');
}

/** What the audit log says of a file. */
export function told(row: FileRow) {
  const { workspace_id, filename, size, sha256, media_type, purpose, metadata } = toFile(row);
  return { workspace_id, filename, size, sha256, media_type, purpose, metadata };
}

export function tagged(row: FileRow): TaggedFile {
  return { file: toFile(row), etag: etagOf(row) };
}

function toFile(row: FileRow): StoredFile {
  return {
    id: row.id,
    workspace_id: row.workspace_id,
    filename: row.filename,
    size: Number(row.size),
    sha256: row.sha256,
    media_type: row.media_type,
    purpose: row.purpose,
    metadata: JSON.parse(row.metadata),
    created_by: row.user_id,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
