/** Uploads that can be gone on with, as the database has them. */
import type { Knex } from 'knex';
import type { FileUploadState } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { Spender } from './meter.ts';
import { notFound, type Reach, requireRole, within } from './reach.ts';
import type { ObjectRow } from './stored-objects.ts';
import { timestamp } from './timestamps.ts';

export interface UploadRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  user_id: string;
  api_key_id: string | null;
  filename: string;
  purpose: FileUploadState['purpose'];
  metadata: string;
  size: number;
  sha256: string;
  received: number;
  /** Until then somebody makes the file of it. */
  completing_until: number | null;
  file_id: string | null;
  created_at: number;
  expires_at: number;
}

export interface PartRow {
  upload_id: string;
  organization_id: string;
  start: number;
  size: number;
  object_key: string;
}

/** Held against whoever else adds to it. Throws `not_found`, after its time as well. */
export async function lockUpload(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  now: number,
): Promise<UploadRow> {
  const query = sql<UploadRow>('file_uploads').where({ id }).where('expires_at', '>', now);
  const row = await within(query, reach).forUpdate().first();
  if (!row) throw notFound('upload');
  requireRole(reach, row);
  return { ...row, size: Number(row.size), received: Number(row.received) };
}

/** Throws `upload_conflict` where a file is made of it, or will be in a moment. */
export function requireOpen({ file_id, completing_until, received }: UploadRow, now: number): void {
  if (file_id !== null) throw conflict('The upload is completed.', received);
  if (Number(completing_until ?? 0) > now) throw conflict('The upload is being completed.', received);
}

/** Answers with their objects, which nothing needs from here on: what this process does not discard, the next sweep does. */
export async function dropParts(sql: Knex.Transaction, upload_id: string): Promise<string[]> {
  const objects = await sql<PartRow>('file_upload_parts').where({ upload_id }).pluck('object_key');
  const those = sql<PartRow>('file_upload_parts').where({ upload_id }).select('object_key');
  await sql<ObjectRow>('stored_objects').whereIn('key', those).update({ state: 'leaving', expires_at: 0 });
  await sql<PartRow>('file_upload_parts').where({ upload_id }).delete();
  return objects;
}

/** Says how many bytes there are, so that whoever hears it can go on from there. */
export function conflict(detail: string, received: number): Problem {
  return new Problem('upload_conflict', detail, { headers: { 'Upload-Offset': String(received) } });
}

export function spenderFrom({ organization_id, workspace_id, user_id, api_key_id }: UploadRow): Spender {
  return {
    organizationId: organization_id,
    workspaceId: workspace_id,
    userId: user_id,
    apiKeyId: api_key_id,
  };
}

export function toUpload(row: UploadRow): FileUploadState {
  const { id, workspace_id, filename, size, sha256, purpose, received } = row;
  return {
    ...{ id, workspace_id, filename, size, sha256, purpose },
    metadata: JSON.parse(row.metadata),
    offset: received,
    created_at: timestamp(row.created_at),
    expires_at: timestamp(row.expires_at),
  };
}
