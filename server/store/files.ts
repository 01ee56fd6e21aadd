/** Files that people upload: their bytes go to the storage as they arrive, and what is known of them into the database. */
import type { Readable } from 'node:stream';
import type { Knex } from 'knex';
import type { FileUpdate, StoredFile } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { sweepRestores } from './backup-files.ts';
import { discard, type FileParts, tryDiscard } from './discard-objects.ts';
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
import { changeOf, type ReceivedBytes, receiveBytes, tooLarge } from './make-file.ts';
import { mergeMetadata } from './metadata.ts';
import type { Spender } from './meter.ts';
import type { Page } from './page.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import { notFound, type Reach, requireRole } from './reach.ts';
import type { ByteRange } from './storage/storage.ts';
import { insertUpload, leaveUnneeded, type ObjectRow } from './stored-objects.ts';
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

/** Bytes that last, and of which a file can be made. */
export interface ReceivedFile extends ReceivedBytes {
  /** What soft limits have to say, in sentences. */
  readonly notices: readonly string[];
}

interface ReadableFile extends Pick<StoredFile, 'filename' | 'size' | 'sha256'> {
  readonly organizationId: string;
  /** Throws `storage_unavailable`. */
  read(): Promise<Readable>;
}

export interface Files {
  /**
   * Stores the bytes; the file is made by whoever gets them. Throws `not_found`, `role_required`, `quota_exceeded`,
   * `body_too_large` or what reading the bytes throws.
   */
  receive(reach: Reach, input: NewFile): Promise<ReceivedFile>;
  find(reach: Reach, id: string): Promise<TaggedFile | null>;
  list(reach: Reach, query: FileQuery): Promise<Page<StoredFile>>;
  /** Throws `not_found`, `precondition_failed`, or `invalid_request` if too much metadata results. */
  update(reach: Reach, id: string, patch: FileUpdate, ifMatch?: string | undefined): Promise<TaggedFile>;
  /** With force, also where documents are made from it. Throws `not_found`, `precondition_failed` or `file_in_use`. */
  delete(reach: Reach, id: string, force: boolean, ifMatch?: string | undefined): Promise<void>;
  /** Opens the bytes of a file that the caller has found, until the signal. Throws `storage_unavailable`. */
  read(id: string, range?: ByteRange, signal?: AbortSignal): Promise<Readable>;
  /** Throws where `read` would; nothing is opened. */
  requireBytes(id: string, signal?: AbortSignal): Promise<void>;
  /** Deletes files that have been kept as long as the settings say, unless a corpus uses them; answers with how many. */
  expire(now: Date): Promise<number>;
  /** A file with its bytes, for the server's own work; null where either is gone. */
  forServer(id: string): Promise<ReadableFile | null>;
  /** Deletes objects that nobody needs, and what dead uploads have left; answers with how many. */
  sweep(now: Date): Promise<number>;
}

export function fileRepository(parts: FileParts): Files {
  const { database, clock, cursors } = parts;
  const now = (): number => clock.now().getTime();
  return {
    receive: (reach, input) => receive(parts, reach, input),
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
    read: (id, range, signal) => readFile(parts, id, range, signal),
    requireBytes: (id, signal) => requireBytes(parts, id, signal),
    async forServer(id) {
      const row = await database.read('installation', (sql) => sql<FileRow>('files').where({ id }).first());
      if (!row) return null;
      const { organization_id: organizationId, filename, size, sha256 } = row;
      return { organizationId, filename, size: Number(size), sha256, read: () => readFile(parts, id) };
    },
    expire: (date) => expire(parts, date.getTime()),
    sweep: (date) => sweep(parts, date.getTime()),
  };
}

async function readFile(
  parts: FileParts,
  id: string,
  range?: ByteRange,
  signal?: AbortSignal,
): Promise<Readable> {
  const { storage, key, size } = await bytesOf(parts, id);
  return storage.read(key, range, size, signal);
}

async function requireBytes(parts: FileParts, id: string, signal?: AbortSignal): Promise<void> {
  const { storage, key, size } = await bytesOf(parts, id);
  const found = await storage.sizeOf(key, signal);
  if (found === size) return;
  throw new Problem('storage_unavailable', 'The bytes of this file cannot be read; tell the operator.', {
    cause: new Error(`The object ${key} should have ${size} bytes: ${found}.`),
  });
}

/** Where they lie, and how many they are. */
async function bytesOf({ database, storages }: FileParts, id: string) {
  const found = await database.read('installation', (sql) =>
    sql('files')
      .join<ObjectRow>('stored_objects', 'stored_objects.key', 'files.object_key')
      .where('files.id', id)
      .first('stored_objects.key', 'stored_objects.backend', 'stored_objects.place', 'files.size'),
  );
  if (!found) throw notFound('file');
  return { storage: await storages.of(found), key: found.key, size: Number(found.size) };
}

async function receive(parts: FileParts, reach: Reach, input: NewFile): Promise<ReceivedFile> {
  const { database, clock, storages } = parts;
  const { storage, backend, place, maxFileBytes: maxBytes } = await storages.current();
  const mostBytes = Math.min(input.mostBytes ?? maxBytes, maxBytes);
  // The form around the file is no part of it: what is a little too long is told by its bytes.
  if ((input.mostBytes ?? 0) > maxBytes + mostFormBytes) throw tooLarge(maxBytes);
  const key = newId('storedObject');
  const { spender, notices } = await database.write('installation', async (sql) => {
    const spender = await spenderOf(sql, reach, input);
    const now = clock.now().getTime();
    await insertUpload(sql, key, spender, { backend, place, size: mostBytes }, now);
    const warnings = refuseExceeded(await quotaStateWithBytes(sql, spender, mostBytes, now), now);
    return { spender, notices: warnings.map(({ message }) => message) };
  });
  const { content } = input;
  const received = await receiveBytes(parts, reach, { key, storage, spender, input, content, maxBytes });
  return { ...received, notices };
}

/** Fields, and what stands between the parts. */
const mostFormBytes = 131_072;

/** Where the file is to lie, and for whom it counts. */
export async function spenderOf(
  sql: Knex,
  reach: Reach,
  { workspaceId, apiKeyId }: Pick<NewFile, 'workspaceId' | 'apiKeyId'>,
): Promise<Spender> {
  const workspace =
    workspaceId === undefined
      ? await findDefaultWorkspace(sql, reach)
      : await findWorkspace(sql, reach, workspaceId);
  if (!workspace) throw notFound('workspace');
  const { id, organizationId } = workspace;
  requireRole(reach, { organization_id: organizationId, workspace_id: id });
  return { organizationId, workspaceId: id, userId: reach.userId, apiKeyId };
}

function columnsOf(row: FileRow, { metadata, filename, ...rest }: FileUpdate): Partial<FileRow> {
  return {
    ...rest,
    ...(filename !== undefined && { filename, name_key: nameKey(filename) }),
    ...(metadata !== undefined && { metadata: mergeMetadata(row.metadata, metadata) }),
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

/** So many are looked up at a time. */
const mostAtOnce = 1000;

const dayMs = 86_400_000;

async function expire(parts: FileParts, now: number): Promise<number> {
  const days = await parts.storages.retentionDays();
  if (days === null) return 0;
  const before = now - days * dayMs;
  let expired = 0;
  for (;;) {
    const due: string[] = await parts.database.read('installation', (sql) =>
      sql('files')
        .where('created_at', '<=', before)
        .whereNotExists(sql('documents').whereRaw('documents.file_id = files.id'))
        .limit(mostAtOnce)
        .pluck('id'),
    );
    let gone = 0;
    for (const id of due) if (await expireFile(parts, id, now)) gone += 1;
    expired += gone;
    if (due.length < mostAtOnce || gone === 0) return expired;
  }
}

/** Unless somebody has added it to a corpus since it was found to be due. */
async function expireFile(parts: FileParts, id: string, now: number): Promise<boolean> {
  const { isGone, key } = await parts.database.write('installation', async (sql) => {
    // Held first, as by whoever adds it: they come before this or after it.
    const row = await sql<FileRow>('files').where({ id }).forUpdate().first();
    const isUsed = await sql('documents').where({ file_id: id }).first('id');
    if (!row || isUsed) return { isGone: false, key: null };
    await sql<FileRow>('files').where({ id }).delete();
    const { object_key } = row;
    return { isGone: true, key: (await leaveUnneeded(sql, object_key, now)) ? object_key : null };
  });
  if (key !== null) await discard(parts, key);
  return isGone;
}

async function sweep(parts: FileParts, now: number): Promise<number> {
  await leaveAllUnneeded(parts, now);
  const failures = new Map<string, number>();
  let swept = await sweepWithoutRow(parts);
  for await (const { key, backend, place } of expiredObjects(parts, now)) {
    const storage = `${backend} ${place}`;
    const failed = failures.get(storage) ?? 0;
    if (failed >= mostFailures) continue;
    const became = await tryDiscard(parts, key);
    if (became === 'gone') swept += 1;
    if (became !== 'unknown') continue;
    failures.set(storage, failed + 1);
    await putOff(parts, key, now);
  }
  return swept;
}

/** What a restore that was killed has left. */
async function sweepWithoutRow({ database, storages: { folder } }: FileParts): Promise<number> {
  if (folder === null) return 0;
  return sweepRestores(folder, (keys) =>
    database.read('installation', (sql) => sql('stored_objects').whereIn('key', keys).pluck('key')),
  );
}

/** A storage that fails so often is left alone for this time: each failure may take long, and others wait behind it. */
const mostFailures = 10;

/** Less than the hour after which the next sweep comes. */
const putOffMs = 1_800_000;

/** What cannot be deleted gives way to the rest of its storage: the next sweep begins with others. */
async function putOff({ database }: FileParts, key: string, now: number): Promise<void> {
  await database.write('installation', (sql) =>
    sql<ObjectRow>('stored_objects')
      .where({ key, state: 'leaving' })
      .update({ expires_at: now + putOffMs }),
  );
}

/** Those of workspaces and organizations that are gone: their files went with them. */
async function leaveAllUnneeded({ database }: FileParts, now: number): Promise<void> {
  for (;;) {
    const unneeded: string[] = await database.read('installation', (sql) =>
      sql('stored_objects')
        .where({ state: 'kept' })
        .whereNotExists(sql('files').whereRaw('files.object_key = stored_objects.key'))
        .limit(mostAtOnce)
        .pluck('key'),
    );
    let left = 0;
    for (const key of unneeded)
      if (await database.write('installation', (sql) => leaveUnneeded(sql, key, now))) left += 1;
    if (unneeded.length < mostAtOnce || left === 0) return;
  }
}

type ExpiredObject = Pick<ObjectRow, 'key' | 'backend' | 'place' | 'expires_at'>;

/** Each once, those that wait longest first, whatever becomes of them meanwhile. */
async function* expiredObjects({ database }: FileParts, now: number): AsyncGenerator<ExpiredObject> {
  let last: ExpiredObject | undefined;
  for (;;) {
    const after = last && [last.expires_at, last.key];
    const rows: ExpiredObject[] = await database.read('installation', async (sql) => {
      const expired = sql('stored_objects').where('expires_at', '<=', now);
      if (after) expired.whereRaw('(expires_at, key) > (?, ?)', after);
      return await expired
        .orderBy(['expires_at', 'key'])
        .limit(mostAtOnce)
        .select('key', 'backend', 'place', 'expires_at');
    });
    yield* rows;
    last = rows.at(-1);
    if (rows.length < mostAtOnce) return;
  }
}
