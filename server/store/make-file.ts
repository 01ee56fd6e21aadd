/** Makes a file: its bytes go to the storage as they arrive, and once they last its row is written. */
import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { StoredFile } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { discardOwn, type FileParts } from './discard-objects.ts';
import { type FileRow, type TaggedFile, tagged, told } from './file-rows.ts';
import { mediaTypeOf, sampleBytes } from './media-type.ts';
import type { Spender } from './meter.ts';
import type { Reach } from './reach.ts';
import type { Storage } from './storage/storage.ts';
import {
  keepObject,
  keptObject,
  type Looked,
  type ObjectRow,
  renewUpload,
  uploadPatienceMs,
} from './stored-objects.ts';
import { nameKey } from './user-row.ts';

/** Bytes that are to become a file, and the object that is reserved for them. */
interface Arriving {
  readonly key: string;
  readonly storage: Storage;
  readonly spender: Spender;
  readonly input: Pick<StoredFile, 'filename' | 'purpose' | 'metadata'>;
  readonly content: AsyncIterable<Uint8Array>;
  readonly maxBytes: number;
  /** Done in the transaction that makes the file. */
  readonly within?: (sql: Knex.Transaction, row: FileRow) => Promise<void>;
}

/** Bytes that last, and that no file is made of yet. */
export interface ReceivedBytes {
  readonly sha256: string;
  /** Makes the file of them. */
  keep(): Promise<TaggedFile>;
  /** To be called whatever has become of them: deletes them unless the file needs them. */
  leave(): Promise<void>;
}

/** Of what fails nothing stays. */
export async function receiveBytes(
  parts: FileParts,
  reach: Reach,
  arriving: Arriving,
): Promise<ReceivedBytes> {
  const { key, storage, input } = arriving;
  let objectKey: string | undefined;
  const leave = async () => {
    if (objectKey !== key) await discardOwn(parts, key, storage);
  };
  try {
    const measured = measure(arriving.content, arriving.maxBytes, () => renew(parts, key));
    await storage.write(key, measured.bytes);
    const found = await measured.result(input.filename);
    const looked = await lookAhead(parts, arriving.spender, found);
    return {
      sha256: found.sha256,
      leave,
      async keep() {
        const row = await makeFile(parts, reach, arriving, found, looked);
        objectKey = row.object_key;
        return tagged(row);
      },
    };
  } catch (error) {
    await leave();
    throw error;
  }
}

/**
 * A storage may take a minute to say nothing, and whoever keeps the file may hold a transaction by then, for which all
 * that write would wait.
 */
async function lookAhead(
  parts: FileParts,
  { organizationId }: Spender,
  { sha256, size }: Found,
): Promise<Map<string, boolean>> {
  const kept = await parts.database.read('installation', (sql) => keptObject(sql, organizationId, sha256));
  return new Map(kept && [[kept.key, await isThere(parts, kept, size)]]);
}

/**
 * For all who wait to write meanwhile. What does not answer counts as lost: the upload, which its storage has just taken,
 * takes its place.
 */
const briefMs = 2000;

/** What has been kept since it was looked for is looked at here: its storage took it a moment ago. */
async function makeFile(
  parts: FileParts,
  reach: Reach,
  arriving: Arriving,
  found: Found,
  looked: Map<string, boolean>,
): Promise<FileRow> {
  for (;;) {
    const made = await tryToMake(parts, reach, arriving, found, looked);
    if ('id' in made) return made;
    looked.set(made.key, await isThere(parts, made, found.size, AbortSignal.timeout(briefMs)));
  }
}

/** Bytes that cannot be read are as good as lost: those that have just come are the same. */
async function isThere(
  { storages, log }: FileParts,
  object: ObjectRow,
  size: number,
  signal?: AbortSignal,
): Promise<boolean> {
  const { key } = object;
  try {
    const there = await (await storages.of(object)).sizeOf(key, signal);
    if (there === size) return true;
    log.warn({ key, size, there }, 'bytes were lost, or cut off; they have been uploaded again');
  } catch (error) {
    log.warn({ err: error, key }, 'bytes that were uploaded again cannot be read where they were');
  }
  return false;
}

/** Answers with an object of the same bytes where it has to be looked at first, outside of this transaction. */
async function tryToMake(
  { database, clock }: FileParts,
  reach: Reach,
  { key, spender, input, within }: Arriving,
  found: Found,
  looked: Looked,
): Promise<FileRow | ObjectRow> {
  const make = () =>
    database.write('installation', async (sql) => {
      const now = clock.now().getTime();
      const objectKey = await keepObject(sql, key, found, now, looked);
      if (typeof objectKey !== 'string') return objectKey;
      const row = fileRow(spender, input, found, objectKey, now);
      await sql<FileRow>('files').insert(row);
      await within?.(sql, row);
      recordAudit(sql, reach, { ...changeOf(row, 'create'), after: told(row) });
      return row;
    });
  // Of two who bring the same bytes at once, the second finds those of the first.
  return await make().catch((error: unknown) => {
    if (isDuplicate(error)) return make();
    throw error;
  });
}

export function changeOf<Verb extends string>({ id, organization_id }: FileRow, verb: Verb) {
  return {
    action: `file.${verb}` as const,
    target: { type: 'file', id },
    organizationId: organization_id,
  };
}

export function tooLarge(limit: number): Problem {
  return new Problem('body_too_large', `A file may have at most ${limit} bytes.`);
}

interface Found {
  readonly sha256: string;
  readonly size: number;
  readonly mediaType: string;
}

interface Measured {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** To be asked for when all bytes have been read. */
  result(filename: string): Promise<Found>;
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
  { filename, purpose, metadata }: Arriving['input'],
  { sha256, size, mediaType }: Found,
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
