/** Uploads that can be gone on with: their bytes come in any number of requests, to any node, and last from each on. */
import type { Knex } from 'knex';
import type { FileUploadCreate, FileUploadState } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { type Appended, appendTo } from './append-upload.ts';
import { completeUpload } from './complete-upload.ts';
import { discard, type FileParts } from './discard-objects.ts';
import type { TaggedFile } from './file-rows.ts';
import { dropParts, lockUpload, toUpload, type UploadRow } from './file-upload-rows.ts';
import { spenderOf } from './files.ts';
import { tooLarge } from './make-file.ts';
import type { Spender } from './meter.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import type { Reach } from './reach.ts';
import { sweep } from './sweeps.ts';

interface CreatedUpload {
  readonly upload: FileUploadState;
  /** What soft limits have to say, in sentences. */
  readonly notices: readonly string[];
}

export interface FileUploads {
  /** Reserves room. Throws `not_found`, `role_required`, `quota_exceeded` or `body_too_large`. */
  create(reach: Reach, input: FileUploadCreate, apiKeyId: string | null): Promise<CreatedUpload>;
  /** Answers with how many bytes there are then; what came before a failure lasts. Throws `upload_conflict`. */
  append(reach: Reach, id: string, appended: Appended): Promise<number>;
  /**
   * Makes the file, or finds the one that was made; `confirm` is asked before it is made, once its bytes are read. Throws
   * `upload_conflict`.
   */
  complete(reach: Reach, id: string, confirm?: () => Promise<void>): Promise<TaggedFile>;
  abort(reach: Reach, id: string): Promise<void>;
  /** Forgets those whose time is over; their bytes are swept. */
  prune(now: Date): Promise<number>;
}

/** From its beginning to its end; whoever takes longer begins anew. */
const lifeMs = 86_400_000;

export function fileUploadRepository(parts: FileParts): FileUploads {
  const { database, clock } = parts;
  return {
    create: (reach, input, apiKeyId) => create(parts, reach, input, apiKeyId),
    append: (reach, id, appended) => appendTo(parts, reach, id, appended),
    complete: (reach, id, confirm) => completeUpload(parts, reach, id, confirm),
    async abort(reach, id) {
      const objects = await database.write('installation', async (sql) => {
        await lockUpload(sql, reach, id, clock.now().getTime());
        const dropped = await dropParts(sql, id);
        await sql<UploadRow>('file_uploads').where({ id }).delete();
        return dropped;
      });
      for (const key of objects) await discard(parts, key);
    },
    async prune(now) {
      // One may have come in any number of parts, which would all go in the statement that deletes it.
      await sweep(database, (sql, most) => pruneParts(sql, now.getTime(), most));
      return sweep(database, (sql, most) => pruneEmptied(sql, now.getTime(), most));
    },
  };
}

async function create(
  { database, clock, storages }: FileParts,
  reach: Reach,
  input: FileUploadCreate,
  apiKeyId: string | null,
): Promise<CreatedUpload> {
  const { maxFileBytes } = await storages.current();
  if (input.size > maxFileBytes) throw tooLarge(maxFileBytes);
  return database.write('installation', async (sql) => {
    const spender = await spenderOf(sql, reach, { workspaceId: input.workspace_id, apiKeyId });
    const now = clock.now().getTime();
    const row = newRow(spender, input, now);
    await sql<UploadRow>('file_uploads').insert(row);
    const warnings = refuseExceeded(await quotaStateWithBytes(sql, spender, row.size, now), now);
    return { upload: toUpload(row), notices: warnings.map(({ message }) => message) };
  });
}

async function pruneParts(sql: Knex.Transaction, now: number, most: number): Promise<number> {
  const ids = dueUploads(sql, now).select('id');
  const keys = await sql('file_upload_parts').whereIn('upload_id', ids).limit(most).pluck('object_key');
  await sql('file_upload_parts').whereIn('object_key', keys).delete();
  return keys.length;
}

async function pruneEmptied(sql: Knex.Transaction, now: number, most: number): Promise<number> {
  const emptied = () =>
    dueUploads(sql, now).whereNotExists(
      sql('file_upload_parts').whereRaw('file_upload_parts.upload_id = file_uploads.id'),
    );
  const ids = await emptied().orderBy('expires_at').limit(most).pluck('id');
  await emptied().whereIn('id', ids).delete();
  return ids.length;
}

function dueUploads(sql: Knex.Transaction, now: number) {
  return (
    sql<UploadRow>('file_uploads')
      .where('expires_at', '<=', now)
      // One that is about to be a file may become it.
      .where((due) => due.whereNull('completing_until').orWhere('completing_until', '<=', now))
  );
}

function newRow(spender: Spender, input: FileUploadCreate, now: number): UploadRow {
  const { filename, size, sha256, purpose = 'general', metadata = {} } = input;
  return {
    id: newId('upload'),
    organization_id: spender.organizationId,
    workspace_id: spender.workspaceId,
    user_id: spender.userId,
    api_key_id: spender.apiKeyId,
    ...{ filename, purpose, size, sha256 },
    metadata: JSON.stringify(metadata),
    received: 0,
    completing_until: null,
    file_id: null,
    created_at: now,
    expires_at: now + lifeMs,
  };
}
