/** Adds bytes to an upload: in pieces, each an object that lasts by itself, so that a broken line costs little. */
import type { Knex } from 'knex';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { discardOwn, type FileParts } from './discard-objects.ts';
import {
  conflict,
  lockUpload,
  type PartRow,
  requireOpen,
  spenderFrom,
  type UploadRow,
} from './file-upload-rows.ts';
import type { Reach } from './reach.ts';
import { insertUpload, type ObjectRow } from './stored-objects.ts';

/** What a request brings. */
export interface Appended {
  /** How many bytes there are, as the caller has it. */
  readonly offset: number;
  /** The most bytes that may come; null where nobody knows. */
  readonly mostBytes: number | null;
  readonly content: AsyncIterable<Uint8Array>;
}

/** What is lost at most when a server is killed, and what is in memory for each upload. */
const pieceBytes = 8 * 1024 * 1024;

/** Parts stay a little longer than their upload, so that one that is being completed keeps them. */
const graceMs = 3_600_000;

/** Answers with how many bytes there are then. */
export async function appendTo(
  parts: FileParts,
  reach: Reach,
  id: string,
  { offset, mostBytes, content }: Appended,
): Promise<number> {
  const now = parts.clock.now().getTime();
  const upload = await parts.database.write('installation', (sql) => lockUpload(sql, reach, id, now));
  requireOpen(upload, now);
  if (upload.received !== offset) throw goOn(upload.received);
  requireRoom(upload, offset, mostBytes ?? 0);
  let received = offset;
  for await (const { piece, failure } of inPieces(content)) {
    requireRoom(upload, received, piece.length);
    if (piece.length > 0) received = await storePiece(parts, upload, received, piece);
    // What came before it lasts: the caller goes on from there.
    if (failure) throw failure.error;
  }
  return received;
}

function goOn(received: number): Problem {
  return conflict(`The upload has ${received} bytes; go on from there.`, received);
}

function requireRoom({ size }: UploadRow, received: number, more: number): void {
  if (received + more <= size) return;
  const detail = `The upload was to have ${size} bytes; it has ${received}, and these are too many.`;
  throw conflict(detail, received);
}

interface Piece {
  readonly piece: Buffer;
  /** Why nothing follows, where that is not the end. */
  readonly failure: { readonly error: unknown } | null;
}

async function* inPieces(content: AsyncIterable<Uint8Array>): AsyncGenerator<Piece> {
  // Copied into one place: a chunk may have a single byte, and holds the whole packet that it came in.
  let held = Buffer.allocUnsafe(0);
  let size = 0;
  let failure: Piece['failure'] = null;
  try {
    for await (const chunk of content) {
      held = withRoom(held, size, chunk.length);
      held.set(chunk, size);
      size += chunk.length;
      if (size < pieceBytes) continue;
      yield { piece: held.subarray(0, size), failure };
      held = Buffer.allocUnsafe(0);
      size = 0;
    }
  } catch (error) {
    failure = { error };
  }
  yield { piece: held.subarray(0, size), failure };
}

function withRoom(held: Buffer<ArrayBuffer>, size: number, more: number): Buffer<ArrayBuffer> {
  if (size + more <= held.length) return held;
  const larger = Buffer.allocUnsafe(Math.max(size + more, Math.min(2 * held.length, pieceBytes)));
  held.copy(larger, 0, 0, size);
  return larger;
}

/** As any object, its row comes first. Answers with how many bytes the upload has then. */
async function storePiece(
  parts: FileParts,
  upload: UploadRow,
  start: number,
  piece: Buffer,
): Promise<number> {
  const { database, clock, storages } = parts;
  const { storage, backend, place } = await storages.current();
  const key = newId('storedObject');
  let kept = false;
  try {
    await database.write('installation', (sql) =>
      // Its room is reserved by its upload.
      insertUpload(sql, key, spenderFrom(upload), { backend, place, size: 0 }, clock.now().getTime()),
    );
    await storage.write(key, only(piece));
    await database.write('installation', (sql) => addPart(sql, upload, { start, size: piece.length, key }));
    kept = true;
    return start + piece.length;
  } finally {
    if (!kept) await discardOwn(parts, key, storage);
  }
}

interface NewPart {
  readonly start: number;
  readonly size: number;
  readonly key: string;
}

/** From here on the bytes are acknowledged. */
async function addPart(sql: Knex.Transaction, upload: UploadRow, { start, size, key }: NewPart) {
  const { id, organization_id, expires_at } = upload;
  const open = { id, received: start, file_id: null, completing_until: null };
  const received = start + size;
  if ((await sql<UploadRow>('file_uploads').where(open).update({ received })) === 0)
    throw await otherHasGoneOn(sql, id);
  const until = { expires_at: Number(expires_at) + graceMs };
  if ((await sql<ObjectRow>('stored_objects').where({ key, state: 'uploading' }).update(until)) === 0)
    throw new Problem('request_timeout', 'The bytes took too long to be stored; send them again.');
  await sql<PartRow>('file_upload_parts').insert({
    ...{ upload_id: id, organization_id, start, size, object_key: key },
  });
}

async function otherHasGoneOn(sql: Knex.Transaction, id: string): Promise<Problem> {
  const row = await sql<UploadRow>('file_uploads').where({ id }).first('received');
  if (!row) return new Problem('not_found', 'The upload was given up meanwhile.');
  return conflict('Somebody else has gone on with the upload.', Number(row.received));
}

async function* only(piece: Buffer): AsyncGenerator<Buffer> {
  yield piece;
}
