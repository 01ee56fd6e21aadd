/** Makes the file of an upload: its bytes are read once more, and are one object then, with the hash that was announced. */
import type { Knex } from 'knex';
import { newId } from '../ids.ts';
import { discard, type FileParts } from './discard-objects.ts';
import { findFile, type TaggedFile, tagged } from './file-rows.ts';
import {
  conflict,
  dropParts,
  lockUpload,
  requireOpen,
  spenderFrom,
  type UploadRow,
} from './file-upload-rows.ts';
import { receiveBytes } from './make-file.ts';
import { notFound, type Reach } from './reach.ts';
import type { ObjectPlace } from './storage/storage.ts';
import { insertUpload, type ObjectRow } from './stored-objects.ts';

/** Without a sign of life for so long, whoever was making the file has gone. */
const completingMs = 600_000;

export async function completeUpload(
  parts: FileParts,
  reach: Reach,
  id: string,
  confirm?: () => Promise<void>,
): Promise<TaggedFile> {
  // Asked for first: within the transaction, whoever holds one connection would wait for another.
  const current = await parts.storages.current();
  const begun = await parts.database.write('installation', (sql) => begin(sql, parts, reach, id, current));
  if ('file' in begun) return begun;
  const { upload, key } = begun;
  const { storage } = current;
  const { filename, purpose, size } = upload;
  let objects: string[] = [];
  let made = false;
  try {
    const received = await receiveBytes(parts, reach, {
      ...{ key, storage, maxBytes: size, content: bytesOf(parts, id) },
      input: { filename, purpose, metadata: JSON.parse(upload.metadata) },
      spender: spenderFrom(upload),
      within: async (sql, file) => {
        objects = await closeUpload(sql, id, file.id);
      },
    });
    try {
      requireHash(upload, received.sha256);
      await confirm?.();
      const file = await received.keep();
      made = true;
      return file;
    } finally {
      await received.leave();
    }
  } finally {
    if (made) for (const object of objects) await discard(parts, object);
    else await reopen(parts, id);
  }
}

interface Begun {
  readonly upload: UploadRow;
  readonly key: string;
}

/** The file, where it has been made before. */
async function begin(
  sql: Knex.Transaction,
  { clock }: FileParts,
  reach: Reach,
  id: string,
  { backend, place }: ObjectPlace,
): Promise<Begun | TaggedFile> {
  const now = clock.now().getTime();
  const upload = await lockUpload(sql, reach, id, now);
  const { received, size, file_id } = upload;
  if (file_id !== null) {
    const made = await findFile(sql, reach, file_id);
    if (made) return tagged(made);
    throw conflict('The file of this upload is deleted.', received);
  }
  requireOpen(upload, now);
  if (received < size) throw conflict(`The upload has ${received} of its ${size} bytes.`, received);
  const key = newId('storedObject');
  // Its room is reserved by its upload.
  await insertUpload(sql, key, spenderFrom(upload), { backend, place, size: 0 }, now);
  await sql<UploadRow>('file_uploads')
    .where({ id })
    .update({ completing_until: now + completingMs });
  return { upload, key };
}

/** One part after the other; each is a sign of life. */
async function* bytesOf({ database, storages, clock }: FileParts, id: string): AsyncGenerator<Uint8Array> {
  const objects: ObjectRow[] = await database.read('installation', (sql) =>
    sql('file_upload_parts')
      .join<ObjectRow>('stored_objects', 'stored_objects.key', 'file_upload_parts.object_key')
      .where('file_upload_parts.upload_id', id)
      .orderBy('file_upload_parts.start')
      .select<ObjectRow[]>('stored_objects.*'),
  );
  for (const object of objects) {
    const completing_until = clock.now().getTime() + completingMs;
    await database.write('installation', (sql) =>
      sql<UploadRow>('file_uploads').where({ id }).update({ completing_until }),
    );
    yield* await (await storages.of(object)).read(object.key);
  }
}

/** Answers with the objects that nothing needs from here on. */
async function closeUpload(sql: Knex.Transaction, id: string, file_id: string): Promise<string[]> {
  const open = { id, file_id: null };
  if ((await sql<UploadRow>('file_uploads').where(open).update({ file_id })) === 0) throw notFound('upload');
  return dropParts(sql, id);
}

async function reopen({ database }: FileParts, id: string): Promise<void> {
  await database.write('installation', (sql) =>
    sql<UploadRow>('file_uploads').where({ id }).update({ completing_until: null }),
  );
}

function requireHash({ sha256, received }: UploadRow, found: string): void {
  if (found === sha256) return;
  throw conflict(`The bytes have the SHA-256 ${found}, not ${sha256}: begin another upload.`, received);
}
