/** What files held before and after the changes of a session: each content once, compressed, up to a limit. */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Knex } from 'knex';

/** Bytes that a session's contents may take as they are stored; further changes are recorded without content. */
export const mostKeptBytes = 256 * 1024 * 1024;

/** A content as it is to be stored. */
export interface PackedContent {
  readonly sha256: string;
  readonly size: number;
  readonly compressed: boolean;
  readonly content: Buffer;
}

interface ContentRow {
  organization_id: string;
  session_id: string;
  sha256: string;
  size: number;
  compressed: boolean;
  content: Buffer;
}

const compress = promisify(gzip);
const decompress = promisify(gunzip);

/** To be called before the transaction begins: it takes its time, beside the event loop. */
export async function packContent(sha256: string, bytes: Uint8Array): Promise<PackedContent> {
  const packed = await compress(bytes);
  const compressed = packed.length < bytes.length;
  return { sha256, size: bytes.length, compressed, content: compressed ? packed : Buffer.from(bytes) };
}

/**
 * Stores a content, unless the session has it already; false where that holds too much. Its session need not be locked: the
 * agents of a run keep what they change in the session of the person, side by side.
 */
export async function keepContent(
  sql: Knex.Transaction,
  owner: { readonly organization_id: string; readonly session_id: string },
  packed: PackedContent,
): Promise<boolean> {
  const { session_id } = owner;
  const known = await sql<ContentRow>('file_contents')
    .where({ session_id, sha256: packed.sha256 })
    .first('sha256');
  if (known) return true;
  const bytes = packed.content.length;
  // Counted before it is stored: from here on others who keep something in the session wait.
  const counted = await sql('sessions')
    .where({ id: session_id })
    .where('kept_bytes', '<=', mostKeptBytes - bytes)
    .increment('kept_bytes', bytes);
  if (counted === 0) return false;
  const stored = await sql('file_contents')
    .insert({ ...owner, ...packed })
    .onConflict(['session_id', 'sha256'])
    .ignore()
    .returning('sha256');
  if (stored.length === 0) await sql('sessions').where({ id: session_id }).decrement('kept_bytes', bytes);
  return true;
}

/** Null where the content was never kept. */
export async function readContent(sql: Knex, sessionId: string, sha256: string): Promise<Uint8Array | null> {
  const row = await sql<ContentRow>('file_contents').where({ session_id: sessionId, sha256 }).first();
  if (!row) return null;
  return row.compressed ? decompress(row.content) : row.content;
}

/** Removes contents from a locked session, which then holds as much less. */
export async function dropContents(
  sql: Knex.Transaction,
  sessionId: string,
  hashes: readonly string[],
): Promise<void> {
  for (let start = 0; start < hashes.length; start += atOnce) {
    const dropped = sql<ContentRow>('file_contents')
      .where({ session_id: sessionId })
      .whereIn('sha256', hashes.slice(start, start + atOnce));
    const sum = dropped.clone().select({ bytes: sql.raw('sum(length(content))') });
    const [found]: { bytes: number | null }[] = await sum;
    await dropped.delete();
    await sql('sessions')
      .where({ id: sessionId })
      .decrement('kept_bytes', Number(found?.bytes ?? 0));
  }
}

/** Databases bound how many values one statement may carry. */
const atOnce = 500;

/** How large the contents with these hashes are; those that the session does not have are left out. */
export async function contentSizes(
  sql: Knex,
  sessionId: string,
  hashes: Iterable<string>,
): Promise<Map<string, number>> {
  const asked = [...hashes];
  const sizes = new Map<string, number>();
  for (let start = 0; start < asked.length; start += atOnce) {
    const rows = await sql<ContentRow>('file_contents')
      .where({ session_id: sessionId })
      .whereIn('sha256', asked.slice(start, start + atOnce))
      .select('sha256', 'size');
    for (const { sha256, size } of rows) sizes.set(sha256, Number(size));
  }
  return sizes;
}
