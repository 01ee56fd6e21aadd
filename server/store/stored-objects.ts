/** Objects in the storage as the database knows them: from before their first byte until after their last. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import type { Spender } from './meter.ts';
import type { Backend, ObjectPlace } from './storage/storage.ts';

export interface ObjectRow {
  key: string;
  organization_id: string;
  workspace_id: string;
  user_id: string;
  api_key_id: string | null;
  backend: Backend;
  place: string | null;
  state: 'uploading' | 'kept' | 'leaving';
  sha256: string | null;
  size: number;
  expires_at: number | null;
}

/** How long after its last sign of life an upload counts as dead. */
export const uploadPatienceMs = 600_000;

export async function insertUpload(
  sql: Knex.Transaction,
  key: string,
  spender: Spender,
  { backend, place, size }: ObjectPlace & { readonly size: number },
  now: number,
): Promise<void> {
  await sql<ObjectRow>('stored_objects').insert({
    key,
    organization_id: spender.organizationId,
    workspace_id: spender.workspaceId,
    user_id: spender.userId,
    api_key_id: spender.apiKeyId,
    backend,
    place,
    state: 'uploading',
    sha256: null,
    size,
    expires_at: now + uploadPatienceMs,
  });
}

/** Says that an upload is alive. */
export async function renewUpload(sql: Knex.Transaction, key: string, now: number): Promise<void> {
  await sql<ObjectRow>('stored_objects')
    .where({ key, state: 'uploading' })
    .update({ expires_at: now + uploadPatienceMs });
}

/** Of the objects that have been looked at, by key: whether their bytes are there, and whole. */
export type Looked = ReadonlyMap<string, boolean>;

/**
 * The key under which the organization keeps these bytes: that of the upload, or of the same bytes that are there
 * already; the upload is then no longer needed. Where those are lost the upload takes their place, for the files that
 * had them too. The object itself where it has not been looked at: then nothing is changed.
 */
export async function keepObject(
  sql: Knex.Transaction,
  key: string,
  { sha256, size }: { readonly sha256: string; readonly size: number },
  now: number,
  looked: Looked,
): Promise<string | ObjectRow> {
  const upload = await sql<ObjectRow>('stored_objects')
    .where({ key, state: 'uploading' })
    .forUpdate()
    .first();
  if (!upload) throw new Problem('request_timeout', 'The upload took too long; send it again.');
  const { organization_id } = upload;
  const kept = await keptObject(sql, organization_id, sha256).forUpdate();
  const isThere = kept && looked.get(kept.key);
  if (kept && isThere === undefined) return kept;
  const leaving = { state: 'leaving', expires_at: now } as const;
  // Of two with these bytes one is kept at a time: what is lost goes first.
  if (kept)
    await sql<ObjectRow>('stored_objects')
      .where({ key: isThere ? key : kept.key })
      .update(leaving);
  if (kept && isThere) return kept.key;
  await sql<ObjectRow>('stored_objects')
    .where({ key })
    .update({ state: 'kept', sha256, size, expires_at: null });
  if (kept) await sql('files').where({ object_key: kept.key }).update({ object_key: key });
  return key;
}

/** Under which an organization keeps these bytes. */
export function keptObject(sql: Knex, organization_id: string, sha256: string) {
  return sql<ObjectRow>('stored_objects').where({ organization_id, sha256, state: 'kept' }).first();
}

/** Marks an object that no file needs any more. The file that did is gone by now; whether it went is answered. */
export async function leaveUnneeded(sql: Knex.Transaction, key: string, now: number): Promise<boolean> {
  // Held first, so that no upload of the same bytes comes between the two looks.
  await sql<ObjectRow>('stored_objects').where({ key }).forUpdate().first();
  const needed = await sql('files').where({ object_key: key }).first('id');
  if (needed) return false;
  const left = await sql<ObjectRow>('stored_objects')
    .where({ key, state: 'kept' })
    .update({ state: 'leaving', expires_at: now });
  return left > 0;
}
