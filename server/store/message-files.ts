/** The pictures and documents of messages: their bytes are kept once for each session, apart from what is said of them. */
import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { MessagePart } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { changedContents } from './file-changes.ts';
import { contentSizes, dropContents, keepContent, mostKeptBytes, readContent } from './file-contents.ts';

/** Bytes that a model is shown at once: no provider takes more. */
const mostShownBytes = 32 * 1024 * 1024;

interface Owner {
  readonly organization_id: string;
  readonly session_id: string;
}

/**
 * The messages as they are stored, the bytes of their files put aside. A hash and a size without bytes are kept only where
 * the session has these bytes: what a client says of others is not believed. Throws Problem where it holds too much.
 */
export async function putAside<Given extends { readonly parts: readonly MessagePart[] }>(
  sql: Knex.Transaction,
  owner: Owner,
  messages: readonly Given[],
): Promise<(Given & { readonly parts: MessagePart[] })[]> {
  const sizes = await keptSizes(sql, owner.session_id, messages);
  const stored: (Given & { readonly parts: MessagePart[] })[] = [];
  // One after the other: what a session keeps is counted.
  for (const message of messages) {
    const parts: MessagePart[] = [];
    for (const part of message.parts)
      parts.push(part.type === 'file' ? await storedFile(sql, owner, part, sizes) : part);
    stored.push({ ...message, parts });
  }
  return stored;
}

type FilePart = Extract<MessagePart, { type: 'file' }>;

async function storedFile(
  sql: Knex.Transaction,
  owner: Owner,
  { data, sha256: named, size: _said, ...told }: FilePart,
  sizes: Map<string, number>,
): Promise<FilePart> {
  if (data === undefined) {
    const size = sizes.get(named ?? '');
    return named === undefined || size === undefined ? told : { ...told, sha256: named, size };
  }
  const content = Buffer.from(data, 'base64');
  const sha256 = createHash('sha256').update(content).digest('hex');
  const packed = { sha256, size: content.length, compressed: false, content };
  if (!(await keepContent(sql, owner, packed))) throw tooMuch();
  sizes.set(sha256, content.length);
  return { ...told, sha256, size: content.length };
}

/** In base64, as many of the files as a model may be shown; null for the others, and for what is gone with its session. */
export async function readFiles(
  sql: Knex,
  sessionId: string,
  sha256s: readonly string[],
): Promise<(string | null)[]> {
  const sizes = await contentSizes(sql, sessionId, new Set(sha256s));
  const read = new Map<string, string | null>();
  const shown: (string | null)[] = [];
  let left = mostShownBytes;
  for (const sha256 of sha256s) {
    const size = sizes.get(sha256);
    if (size === undefined || size > left) {
      shown.push(null);
      continue;
    }
    left -= size;
    if (!read.has(sha256)) read.set(sha256, await base64Of(sql, sessionId, sha256));
    shown.push(read.get(sha256) ?? null);
  }
  return shown;
}

async function base64Of(sql: Knex, sessionId: string, sha256: string): Promise<string | null> {
  const content = await readContent(sql, sessionId, sha256);
  return content && Buffer.from(content).toString('base64');
}

/** How large the contents are that the messages name, as far as the session has them. */
async function keptSizes(
  sql: Knex,
  sessionId: string,
  messages: readonly { readonly parts: readonly MessagePart[] }[],
): Promise<Map<string, number>> {
  return contentSizes(sql, sessionId, hashesIn(messages.flatMap(({ parts }) => parts)));
}

/** What a fork shows of its origin comes along, as it lies there. Answers with whether there is any. */
export async function copyFiles(sql: Knex.Transaction, origin: string, fork: string): Promise<boolean> {
  const hashes = await shownHashes(sql, fork);
  for (const sha256 of hashes)
    await sql.raw(
      `insert into file_contents (organization_id, session_id, sha256, size, compressed, content)
         select organization_id, ?, sha256, size, compressed, content from file_contents
         where session_id = ? and sha256 = ?`,
      [fork, origin, sha256],
    );
  const kept = sql('file_contents').where({ session_id: fork });
  const [sum]: { bytes: number | null }[] = await kept.select({ bytes: sql.raw('sum(length(content))') });
  await sql('sessions')
    .where({ id: fork })
    .update({ kept_bytes: Number(sum?.bytes ?? 0) });
  return hashes.size > 0;
}

/**
 * Forgets the files of messages that were deleted, as far as no other message of the locked session names them, reverted
 * ones included, and none of its changes: these hold the way back.
 */
export async function forgetFiles(
  sql: Knex.Transaction,
  sessionId: string,
  deleted: readonly MessagePart[],
): Promise<void> {
  const gone = new Set(hashesIn(deleted));
  if (gone.size === 0) return;
  for (const sha256 of await shownHashes(sql, sessionId)) gone.delete(sha256);
  for (const sha256 of await changedContents(sql, sessionId, [...gone])) gone.delete(sha256);
  await dropContents(sql, sessionId, [...gone]);
}

/** Of all messages of a session. */
async function shownHashes(sql: Knex, session_id: string): Promise<ReadonlySet<string>> {
  const said: string[] = await sql('messages')
    .where({ session_id })
    .whereLike('parts', '%"sha256":"%')
    .pluck('parts');
  return new Set(said.flatMap((parts) => [...hashesIn(JSON.parse(parts))]));
}

/** Each once. */
function hashesIn(parts: readonly MessagePart[]): ReadonlySet<string> {
  return new Set(
    parts.flatMap((part) => (part.type === 'file' && part.sha256 !== undefined ? [part.sha256] : [])),
  );
}

function tooMuch(): Problem {
  const most = mostKeptBytes / 1024 / 1024;
  return new Problem(
    'body_too_large',
    `The session holds as many pictures, documents and file versions as it may, ${most} MB; go on in another one.`,
  );
}
