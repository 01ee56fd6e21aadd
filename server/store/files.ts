/** Files that people upload: their bytes go to the storage as they arrive, and what is known of them into the database. */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Knex } from 'knex';
import type { FileUpdate, StoredFile } from '../contract/api.ts';
import { newId } from '../ids.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import {
  type FileQuery,
  type FileRow,
  findFile,
  listFiles,
  lockFile,
  type TaggedFile,
  tagged,
  told,
} from './file-rows.ts';
import { mediaTypeOf, sampleBytes } from './media-type.ts';
import { mergeMetadata } from './metadata.ts';
import type { Spender } from './meter.ts';
import type { Page } from './page.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import { notFound, type Reach, requireRole } from './reach.ts';
import type { ByteRange, Storage, Storages } from './storage/storage.ts';
import {
  insertUpload,
  keepObject,
  leaveUnneeded,
  type ObjectRow,
  renewUpload,
  uploadPatienceMs,
} from './stored-objects.ts';
import { nameKey } from './user-row.ts';
import { findDefaultWorkspace, findWorkspace } from './workspaces.ts';

/** What somebody uploads. */
interface NewFile {
  /** The caller's default one if absent. */
  readonly workspaceId?: string | undefined;
  readonly filename: string;
  readonly purpose: StoredFile['purpose'];
  readonly metadata: StoredFile['metadata'];
  /** The key that asks; null where a login does. */
  readonly apiKeyId: string | null;
  /** The most bytes that may come; null where nobody knows. */
  readonly mostBytes: number | null;
  readonly content: AsyncIterable<Uint8Array>;
}

interface UploadedFile extends TaggedFile {
  /** What soft limits have to say, in sentences. */
  readonly notices: readonly string[];
}

interface ReadableFile extends Pick<StoredFile, 'filename' | 'size' | 'sha256'> {
  /** Throws `storage_unavailable`. */
  read(): Promise<Readable>;
}

export interface Files {
  /** Throws `not_found`, `role_required`, `quota_exceeded`, `body_too_large` or what reading the bytes throws. */
  upload(reach: Reach, input: NewFile): Promise<UploadedFile>;
  find(reach: Reach, id: string): Promise<TaggedFile | null>;
  list(reach: Reach, query: FileQuery): Promise<Page<StoredFile>>;
  /** Throws `not_found`, `precondition_failed`, or `invalid_request` if too much metadata results. */
  update(reach: Reach, id: string, patch: FileUpdate, ifMatch?: string | undefined): Promise<TaggedFile>;
  /** With force, also where documents are made from it. Throws `not_found`, `precondition_failed` or `file_in_use`. */
  delete(reach: Reach, id: string, force: boolean, ifMatch?: string | undefined): Promise<void>;
  /** Opens the bytes of a file that the caller has found. Throws `storage_unavailable`. */
  read(id: string, range?: ByteRange): Promise<Readable>;
  /** Deletes files that have been kept as long as the settings say, unless a corpus uses them; answers with how many. */
  expire(now: Date): Promise<number>;
  /** A file with its bytes, for the server's own work; null where either is gone. */
  forServer(id: string): Promise<ReadableFile | null>;
  /** Deletes objects that nobody needs, and what dead uploads have left; answers with how many. */
  sweep(now: Date): Promise<number>;
}

interface FileParts extends StoreParts {
  readonly storages: Storages;
  readonly log: Log;
}

export function fileRepository(parts: FileParts): Files {
  const { database, clock, cursors } = parts;
  const now = (): number => clock.now().getTime();
  return {
    upload: (reach, input) => upload(parts, reach, input),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await findFile(sql, reach, id);
        return row ? tagged(row) : null;
      }),
    list: (reach, query) => database.read(reach, (sql) => listFiles(sql, cursors, reach, query)),
    update: (reach, id, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockFile(sql, reach, id, ifMatch);
        const next = { ...row, ...columnsOf(row, patch), revision: row.revision + 1, updated_at: now() };
        await sql<FileRow>('files').where({ id }).update(next);
        recordAudit(sql, reach, { ...changeOf(row, 'update'), before: told(row), after: told(next) });
        return tagged(next);
      }),
    async delete(reach, id, force, ifMatch) {
      const key = await database.write(reach, async (sql) => {
        const row = await lockFile(sql, reach, id, ifMatch);
        if (!force) await refuseUsed(sql, id);
        await sql<FileRow>('files').where({ id }).delete();
        recordAudit(sql, reach, { ...changeOf(row, 'delete'), before: told(row) });
        return (await leaveUnneeded(sql, row.object_key, now())) ? row.object_key : null;
      });
      if (key !== null) await discard(parts, key);
    },
    read: (id, range) => readFile(parts, id, range),
    async forServer(id) {
      const row = await database.read('installation', (sql) => sql<FileRow>('files').where({ id }).first());
      if (!row) return null;
      const { filename, size, sha256 } = row;
      return { filename, size: Number(size), sha256, read: () => readFile(parts, id) };
    },
    expire: (date) => expire(parts, date.getTime()),
    sweep: (date) => sweep(parts, date.getTime()),
  };
}

async function readFile({ database, storages }: FileParts, id: string, range?: ByteRange): Promise<Readable> {
  const found = await database.read('installation', (sql) =>
    sql('files')
      .join<ObjectRow>('stored_objects', 'stored_objects.key', 'files.object_key')
      .where('files.id', id)
      .first('stored_objects.key', 'stored_objects.backend', 'stored_objects.place'),
  );
  if (!found) throw notFound('file');
  return (await storages.of(found)).read(found.key, range);
}

async function upload(parts: FileParts, reach: Reach, input: NewFile): Promise<UploadedFile> {
  const { database, clock, storages } = parts;
  const { storage, backend, place, maxFileBytes } = await storages.current();
  const mostBytes = Math.min(input.mostBytes ?? maxFileBytes, maxFileBytes);
  // The form around the file is no part of it: what is a little too long is told by its bytes.
  if ((input.mostBytes ?? 0) > maxFileBytes + mostFormBytes) throw tooLarge(maxFileBytes);
  const key = newId('storedObject');
  const reserved = await database.write('installation', async (sql) => {
    const spender = await spenderOf(sql, reach, input);
    const now = clock.now().getTime();
    await insertUpload(sql, key, spender, { backend, place, size: mostBytes }, now);
    const warnings = refuseExceeded(await quotaStateWithBytes(sql, spender, mostBytes, now), now);
    return { spender, notices: warnings.map(({ message }) => message) };
  });
  let kept: string | undefined;
  try {
    const measured = measure(input.content, maxFileBytes, () => renew(parts, key));
    await storage.write(key, measured.bytes);
    const found = await measured.result(input.filename);
    const store = () =>
      database.write('installation', async (sql) => {
        const now = clock.now().getTime();
        const objectKey = await keepObject(sql, key, found, now);
        const row = fileRow(reserved.spender, input, found, objectKey, now);
        await sql<FileRow>('files').insert(row);
        recordAudit(sql, reach, { ...changeOf(row, 'create'), after: told(row) });
        return row;
      });
    // Of two who bring the same bytes at once, the second finds those of the first.
    const row = await store().catch((error: unknown) => {
      if (isDuplicate(error)) return store();
      throw error;
    });
    kept = row.object_key;
    return { ...tagged(row), notices: reserved.notices };
  } finally {
    if (kept !== key) await discardOwn(parts, key, storage);
  }
}

/** Fields, and what stands between the parts. */
const mostFormBytes = 131_072;

function tooLarge(limit: number): Problem {
  return new Problem('body_too_large', `A file may have at most ${limit} bytes.`);
}

/** Where the file is to lie, and for whom it counts. */
async function spenderOf(sql: Knex, reach: Reach, { workspaceId, apiKeyId }: NewFile): Promise<Spender> {
  const workspace =
    workspaceId === undefined
      ? await findDefaultWorkspace(sql, reach)
      : await findWorkspace(sql, reach, workspaceId);
  if (!workspace) throw notFound('workspace');
  const { id, organizationId } = workspace;
  requireRole(reach, { organization_id: organizationId, workspace_id: id });
  return { organizationId, workspaceId: id, userId: reach.userId, apiKeyId };
}

interface Measured {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** To be asked for when all bytes have been read. */
  result(filename: string): Promise<{ sha256: string; size: number; mediaType: string }>;
}

/** Hashes, counts and looks at bytes as they pass. */
function measure(content: AsyncIterable<Uint8Array>, limit: number, renewed: () => Promise<void>): Measured {
  const hash = createHash('sha256');
  const sample: Uint8Array[] = [];
  let size = 0;
  let sampled = 0;
  let renewAt = performance.now() + uploadPatienceMs / 5;
  async function* pass(): AsyncGenerator<Uint8Array> {
    for await (const chunk of content) {
      size += chunk.length;
      if (size > limit) throw tooLarge(limit);
      hash.update(chunk);
      if (sampled < sampleBytes) {
        const piece = chunk.subarray(0, sampleBytes - sampled);
        sample.push(Uint8Array.from(piece));
        sampled += piece.length;
      }
      if (performance.now() > renewAt) {
        renewAt = performance.now() + uploadPatienceMs / 5;
        await renewed();
      }
      yield chunk;
    }
  }
  return {
    bytes: pass(),
    result: async (filename) => ({
      sha256: hash.digest('hex'),
      size,
      mediaType: await mediaTypeOf(filename, Buffer.concat(sample)),
    }),
  };
}

async function renew({ database, clock }: FileParts, key: string): Promise<void> {
  await database.write('installation', (sql) => renewUpload(sql, key, clock.now().getTime()));
}

function fileRow(
  spender: Spender,
  { filename, purpose, metadata }: NewFile,
  { sha256, size, mediaType }: { readonly sha256: string; readonly size: number; readonly mediaType: string },
  objectKey: string,
  now: number,
): FileRow {
  return {
    id: newId('file'),
    organization_id: spender.organizationId,
    workspace_id: spender.workspaceId,
    object_key: objectKey,
    filename,
    name_key: nameKey(filename),
    media_type: mediaType,
    purpose,
    metadata: JSON.stringify(metadata),
    size,
    sha256,
    user_id: spender.userId,
    api_key_id: spender.apiKeyId,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

function columnsOf(row: FileRow, { metadata, filename, ...rest }: FileUpdate): Partial<FileRow> {
  return {
    ...rest,
    ...(filename !== undefined && { filename, name_key: nameKey(filename) }),
    ...(metadata !== undefined && { metadata: mergeMetadata(row.metadata, metadata) }),
  };
}

function changeOf<Verb extends string>({ id, organization_id }: FileRow, verb: Verb) {
  return {
    action: `file.${verb}` as const,
    target: { type: 'file', id },
    organizationId: organization_id,
  };
}

async function refuseUsed(sql: Knex.Transaction, file_id: string): Promise<void> {
  const [found] = await sql('documents').where({ file_id }).count<{ count: number }[]>({ count: '*' });
  const count = Number(found?.count ?? 0);
  if (count === 0) return;
  const documents = count === 1 ? '1 document is' : `${count} documents are`;
  throw new Problem(
    'file_in_use',
    `${documents} made from the file; delete them first, or ask again with force=true to leave them with the text that was read.`,
  );
}

/** Deletes an object that no file needs, and its row after it. What fails here is done by the next sweep. */
async function discard({ database, storages, log }: FileParts, key: string): Promise<boolean> {
  try {
    const row = await database.write('installation', async (sql) => {
      // An upload that is discarded is kept by nobody any more, however late it comes.
      await sql<ObjectRow>('stored_objects').where({ key, state: 'uploading' }).update({ state: 'leaving' });
      return sql<ObjectRow>('stored_objects').where({ key, state: 'leaving' }).first();
    });
    if (!row) return false;
    await (await storages.of(row)).delete(key);
    await database.write('installation', (sql) => sql<ObjectRow>('stored_objects').where({ key }).delete());
    return true;
  } catch (error) {
    log.error(
      { err: error, key },
      'bytes that nobody needs could not be deleted; the next sweep tries again',
    );
    return false;
  }
}

/** Of a process that was held up for so long that its upload was given up, the row is gone: its bytes go all the same. */
async function discardOwn(parts: FileParts, key: string, storage: Storage): Promise<void> {
  if (await discard(parts, key)) return;
  await storage.delete(key).catch((error: unknown) => {
    parts.log.error({ err: error, key }, 'bytes of an upload that was given up could not be deleted');
  });
}

/** So many at a time: the rest follows an hour later. */
const mostSwept = 1000;

const dayMs = 86_400_000;

async function expire(parts: FileParts, now: number): Promise<number> {
  const days = await parts.storages.retentionDays();
  if (days === null) return 0;
  const due: Pick<FileRow, 'id' | 'object_key'>[] = await parts.database.read('installation', (sql) =>
    sql('files')
      .where('created_at', '<=', now - days * dayMs)
      .whereNotExists(sql('documents').whereRaw('documents.file_id = files.id'))
      .limit(mostSwept)
      .select('id', 'object_key'),
  );
  for (const { id, object_key } of due) {
    const key = await parts.database.write('installation', async (sql) => {
      await sql<FileRow>('files').where({ id }).delete();
      return (await leaveUnneeded(sql, object_key, now)) ? object_key : null;
    });
    if (key !== null) await discard(parts, key);
  }
  return due.length;
}

async function sweep(parts: FileParts, now: number): Promise<number> {
  const { database } = parts;
  // Those of workspaces and organizations that are gone: their files went with them.
  const unneeded: string[] = await database.read('installation', (sql) =>
    sql('stored_objects')
      .where({ state: 'kept' })
      .whereNotExists(sql('files').whereRaw('files.object_key = stored_objects.key'))
      .limit(mostSwept)
      .pluck('key'),
  );
  for (const key of unneeded) await database.write('installation', (sql) => leaveUnneeded(sql, key, now));
  const expired: string[] = await database.read('installation', (sql) =>
    sql('stored_objects').where('expires_at', '<=', now).limit(mostSwept).pluck('key'),
  );
  let swept = 0;
  for (const key of expired) if (await discard(parts, key)) swept += 1;
  return swept;
}
