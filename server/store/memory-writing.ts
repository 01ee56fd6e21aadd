/** Writes memories, each once for its owner: the version, the tags and the words that it is found by go along. */
import type { Knex } from 'knex';
import type { Memory, MemoryCreate, MemoryUpdate } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { indexMemory } from './memory-index.ts';
import { findSessionOf, type MemoryOwner, type NamedOwner } from './memory-owners.ts';
import { auditOf, hashOfContent, type MemoryRow, type TaggedMemory, tagged, told } from './memory-rows.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import { notFound, type Reach } from './reach.ts';
import { parseTimestamp } from './timestamps.ts';

/** As the contract has it; what it gives by default may be left out. */
export type MemoryInput = NamedOwner &
  Pick<MemoryCreate, 'content'> & {
    readonly kind?: Memory['kind'] | undefined;
    readonly tags?: readonly string[] | undefined;
    readonly source?: MemoryCreate['source'] | undefined;
    readonly expires_at?: string | null | undefined;
  };

/** Who writes a memory, and for which credential it counts. */
export interface MemoryWriter {
  /** The run whose agent writes; null where the person does. */
  readonly runId: string | null;
  /** The key that asks; null where a login does. */
  readonly apiKeyId: string | null;
}

export interface WrittenMemory extends TaggedMemory {
  /** What soft limits have to say, in sentences. */
  readonly notices: readonly string[];
}

/** Older versions of one memory go. */
const mostVersions = 100;

type MemorySourceRow = Pick<MemoryRow, 'source_session_id' | 'source_message_id'>;

/** Only what the caller may see is named as a source. */
export async function sourceOf(sql: Knex, reach: Reach, { source }: MemoryInput): Promise<MemorySourceRow> {
  if (!source) return { source_session_id: null, source_message_id: null };
  const { session_id, message_id } = source;
  const session = await findSessionOf(sql, reach, session_id);
  if (message_id !== undefined) {
    const message = await sql('messages').where({ id: message_id, session_id: session.id }).first('id');
    if (!message) throw notFound('message');
  }
  return { source_session_id: session.id, source_message_id: message_id ?? null };
}

/** What is to be kept, for whoever owns it. */
type NewMemory = Pick<MemoryInput, 'content' | 'kind' | 'tags' | 'expires_at'> & MemorySourceRow;

export async function insertMemory(
  sql: Knex.Transaction,
  reach: Reach,
  owner: MemoryOwner,
  input: NewMemory,
  writer: MemoryWriter,
  now: number,
): Promise<WrittenMemory> {
  const { content, kind = 'fact', tags = [], source_session_id, source_message_id } = input;
  const row: MemoryRow = {
    ...owner,
    id: newId('memory'),
    kind,
    content,
    content_hash: hashOfContent(content),
    tags: JSON.stringify(tags),
    source_session_id,
    source_message_id,
    author_id: reach.userId,
    author_run_id: writer.runId,
    user_id: reach.userId,
    api_key_id: writer.apiKeyId,
    size: sizeOf(content, tags),
    revision: 1,
    expires_at: endOf(input.expires_at, now),
    created_at: now,
    updated_at: now,
  };
  await refuseSame(sql, row, now);
  await sql<MemoryRow>('memories').insert(row);
  await writeBeside(sql, row);
  recordAudit(sql, reach, { ...auditOf(row, 'create'), after: told(row) });
  return { ...tagged(row), notices: await spend(sql, row, row.size, now) };
}

export async function changeMemory(
  sql: Knex.Transaction,
  reach: Reach,
  row: MemoryRow,
  patch: MemoryUpdate,
  writer: MemoryWriter,
  now: number,
): Promise<WrittenMemory> {
  const { content = row.content, kind = row.kind, tags = JSON.parse(row.tags) as string[] } = patch;
  const said = {
    content,
    kind,
    tags: JSON.stringify(tags),
    expires_at: patch.expires_at === undefined ? row.expires_at : endOf(patch.expires_at, now),
  };
  const isSame = Object.entries(said).every(([name, value]) => row[name as keyof typeof said] === value);
  if (isSame) return { ...tagged(row), notices: [] };
  const next: MemoryRow = {
    ...row,
    ...said,
    content_hash: hashOfContent(content),
    size: sizeOf(content, tags),
    author_id: reach.userId,
    author_run_id: writer.runId,
    revision: row.revision + 1,
    updated_at: now,
  };
  await refuseSame(sql, next, now);
  await sql<MemoryRow>('memories').where({ id: row.id }).update(next);
  await sql('memory_tags').where({ memory_id: row.id }).delete();
  await writeBeside(sql, next);
  await sql('memory_versions')
    .where({ memory_id: row.id })
    .where('version', '<=', next.revision - mostVersions)
    .delete();
  recordAudit(sql, reach, { ...auditOf(row, 'update'), before: told(row), after: told(next) });
  const grown = next.size - Number(row.size);
  return { ...tagged(next), notices: grown > 0 ? await spend(sql, next, grown, now) : [] };
}

/** The version, the tags, and what searches look into. */
async function writeBeside(sql: Knex.Transaction, row: MemoryRow): Promise<void> {
  const { id: memory_id, organization_id, kind, content, tags, expires_at, author_id, author_run_id } = row;
  const version = { version: row.revision, kind, content, tags, expires_at, author_id, author_run_id };
  await sql('memory_versions').insert({
    ...version,
    organization_id,
    memory_id,
    created_at: row.updated_at,
  });
  const listed = (JSON.parse(tags) as string[]).map((tag) => ({ organization_id, memory_id, tag }));
  if (listed.length > 0) await sql('memory_tags').insert(listed);
  await indexMemory(sql, row);
}

/** Throws `duplicate`. What has expired is in nobody's way. */
async function refuseSame(sql: Knex.Transaction, row: MemoryRow, now: number): Promise<void> {
  const { owner_key, content_hash, id } = row;
  const same = await sql<MemoryRow>('memories').where({ owner_key, content_hash }).whereNot({ id }).first();
  if (!same) return;
  if (same.expires_at === null || same.expires_at > now) throw duplicate(same.id);
  await sql('memories').where({ id: same.id }).delete();
}

/** Of two who say the same at once, the second is told by the index. */
export function toldTwice(error: unknown): never {
  throw isDuplicate(error) ? duplicate(null) : error;
}

function duplicate(id: string | null): Problem {
  const which = id === null ? 'A memory' : `The memory ${id}`;
  return new Problem('duplicate', `${which} says the same; change that one instead.`);
}

function sizeOf(content: string, tags: readonly string[]): number {
  return Buffer.byteLength([content, ...tags].join(''));
}

/** Throws `invalid_request` for a time that has passed: nobody wants what is forgotten at once. */
function endOf(expiresAt: string | null | undefined, now: number): number | null {
  if (expiresAt === null || expiresAt === undefined) return null;
  const end = parseTimestamp(expiresAt, '/expires_at');
  if (end > now) return end;
  const message = 'lies in the past';
  throw new Problem('invalid_request', `body/expires_at: ${message}`, {
    errors: [{ in: 'body', pointer: '/expires_at', message, code: 'future' }],
  });
}

/** In the transaction that has written so many bytes. Throws `quota_exceeded`. */
async function spend(
  sql: Knex.Transaction,
  { organization_id, workspace_id, user_id, api_key_id }: MemoryRow,
  bytes: number,
  now: number,
): Promise<readonly string[]> {
  const spender = {
    organizationId: organization_id,
    workspaceId: workspace_id ?? '',
    userId: user_id,
    apiKeyId: api_key_id,
  };
  const warnings = refuseExceeded(await quotaStateWithBytes(sql, spender, bytes, now), now);
  return warnings.map(({ message }) => message);
}
