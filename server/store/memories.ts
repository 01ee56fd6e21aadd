/** Memories: what people and agents want to be known later, each once for its owner, with what it said before. */
import type { Knex } from 'knex';
import type {
  Memory,
  MemoryCreate,
  MemoryHit,
  MemorySearch,
  MemorySearchResult,
  MemoryUpdate,
  MemoryVersion,
  operations,
} from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { termsIn } from './chunk-terms.ts';
import { isDuplicate } from './database-errors.ts';
import { requireMatch } from './etag.ts';
import { findMemories, indexMemory, marksOfReach } from './memory-index.ts';
import { findOwner, findSessionOf, type MemoryOwner, type NamedOwner } from './memory-owners.ts';
import { type RankedMemory, ranked } from './memory-ranking.ts';
import {
  hashOfContent,
  type MemoryRow,
  type MemoryVersionRow,
  memoriesWithin,
  memoryParts,
  requireMemoryRole,
  type TaggedMemory,
  tagged,
  told,
  toMemory,
  toVersion,
  unexpired,
} from './memory-rows.ts';
import {
  fused,
  keepVectors,
  type MemoryText,
  type MemoryVector,
  memoriesWithoutVector,
  narrowed,
  type QueryMeaning,
  type SearchFilters,
  vectorSearch,
} from './memory-vectors.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import { notFound, type Reach } from './reach.ts';
import { type SearchTerm, searchTerms } from './search-words.ts';
import { sweepTable } from './sweeps.ts';
import { parseTimestamp } from './timestamps.ts';

export type MemoryQuery = Partial<NonNullable<operations['listMemories']['parameters']['query']>>;

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

export type FoundMemories = Pick<MemorySearchResult, 'data' | 'mode'>;

/** A person's own are seen by nobody else; the others by whoever reaches the workspace. */
export interface Memories {
  list(reach: Reach, query: MemoryQuery): Promise<Page<Memory>>;
  /** Throws `not_found`, `role_required`, `invalid_request`, `duplicate` or `quota_exceeded`. */
  create(reach: Reach, input: MemoryInput, writer: MemoryWriter): Promise<WrittenMemory>;
  find(reach: Reach, id: string): Promise<TaggedMemory | null>;
  /** Throws `not_found`, `role_required`, `precondition_failed`, `duplicate` or `quota_exceeded`. */
  update(
    reach: Reach,
    id: string,
    patch: MemoryUpdate,
    writer: MemoryWriter,
    ifMatch?: string | undefined,
  ): Promise<WrittenMemory>;
  /** Throws `not_found`, `role_required` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
  /** The newest first. Throws `not_found`. */
  versions(reach: Reach, id: string, query: PageQuery): Promise<Page<MemoryVersion>>;
  /** By words, and by meaning too where there is the vector of the query. */
  search(reach: Reach, search: MemorySearch, meaning: QueryMeaning | null): Promise<FoundMemories>;
  /** The newest that the caller reaches of which this embedder has made no vector yet. */
  withoutVector(reach: Reach, embedder: string, most: number): Promise<readonly MemoryText[]>;
  keepVectors(embedder: string, vectors: readonly MemoryVector[]): Promise<void>;
  /** Throws `not_found` or `role_required` where the caller may keep none in the workspace. */
  requirePlace(reach: Reach, workspaceId: string): Promise<void>;
  /** The oldest first, a page at a time. */
  export(reach: Reach, filters: MemoryFilters): Promise<AsyncIterable<readonly Memory[]>>;
  /** Forgets all of one owner; answers with how many. Throws `not_found`, `role_required` or `invalid_request`. */
  purge(reach: Reach, owner: NamedOwner): Promise<number>;
  /** Deletes what has expired; answers with how many. */
  prune(now: Date): Promise<number>;
}

/** Older versions of one memory go. */
const mostVersions = 100;

/** Of more that share a word with a query, the newest are ranked. */
const mostRanked = 500;

export function memoryRepository(parts: StoreParts): Memories {
  const { database, clock, cursors } = parts;
  const now = (): number => clock.now().getTime();
  return {
    list: (reach, query) =>
      database.read(reach, async (sql) => {
        const { sort = '-created_at', limit, cursor, ...filters } = query;
        const terms = filters.q === undefined ? null : searchTerms(filters.q);
        if (terms?.length === 0) return { data: [], next_cursor: null };
        const holding = terms && idsWith(sql, reach, terms, now());
        const listing = {
          name: 'memories',
          reach,
          filters,
          columns: ['created_at', 'id'],
          direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
          parts: memoryParts(sql, reach).map((part) => {
            const those = filtered(sql, part, filters, now());
            return holding ? those.whereIn('memories.id', holding.clone()) : those;
          }),
        };
        const { data, next_cursor } = await readPage<MemoryRow>(sql, cursors, listing, { limit, cursor });
        return { data: data.map(toMemory), next_cursor };
      }),
    create: (reach, input, writer) =>
      database
        .write('installation', async (sql) => {
          const owner = await findOwner(sql, reach, input);
          requireMemoryRole(reach, owner);
          return insertMemory(
            sql,
            reach,
            owner,
            { ...input, ...(await sourceOf(sql, reach, input)) },
            writer,
            now(),
          );
        })
        .catch(toldTwice),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await seen(sql, reach, id, now()).first();
        if (row) requireMemoryRole(reach, row);
        return row ? tagged(row) : null;
      }),
    update: (reach, id, patch, writer, ifMatch) =>
      database
        .write('installation', async (sql) => {
          const row = await lock(sql, reach, id, now(), ifMatch);
          return changeMemory(sql, reach, row, patch, writer, now());
        })
        .catch(toldTwice),
    delete: (reach, id, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lock(sql, reach, id, now(), ifMatch);
        await sql<MemoryRow>('memories').where({ id }).delete();
        recordAudit(sql, reach, { ...auditOf(row, 'delete'), before: told(row) });
      }),
    versions: (reach, id, query) =>
      database.read(reach, async (sql) => {
        const row = await seen(sql, reach, id, now()).first();
        if (!row) throw notFound('memory');
        requireMemoryRole(reach, row);
        const listing = {
          name: 'memory_versions',
          reach,
          filters: { id },
          columns: ['version'],
          direction: 'desc',
          parts: [sql('memory_versions').where({ memory_id: id })],
        } as const;
        const page = await readPage<MemoryVersionRow>(sql, cursors, listing, query);
        return { data: page.data.map(toVersion), next_cursor: page.next_cursor };
      }),
    search: (reach, search, meaning) =>
      // Ownership is the first of its words: the policies of PostgreSQL would keep a search from its index.
      database.read('installation', (sql) => searchMemories(sql, reach, search, meaning, now())),
    withoutVector: (reach, embedder, most) =>
      database.read('installation', (sql) => memoriesWithoutVector(sql, reach, embedder, most, now())),
    keepVectors: (embedder, vectors) =>
      database.write('installation', (sql) => keepVectors(sql, embedder, vectors)),
    requirePlace: (reach, workspace_id) =>
      database.read(reach, async (sql) => {
        requireMemoryRole(reach, await findOwner(sql, reach, { scope: 'workspace', workspace_id }));
      }),
    async export(reach, filters) {
      await database.write('installation', async (sql) => {
        const organizationId = reach.organizationIds[0] ?? null;
        const target = { type: 'memory', id: null };
        recordAudit(sql, reach, { action: 'memory.export', target, organizationId, after: { ...filters } });
      });
      return pagesOf((query) => this.list(reach, { ...filters, ...query, sort: 'created_at', limit: 100 }));
    },
    purge: (reach, named) =>
      database.write('installation', async (sql) => {
        const owner = await findOwner(sql, reach, named);
        requireMemoryRole(reach, owner);
        const there = sql<MemoryRow>('memories').where({ owner_key: owner.owner_key });
        // What has expired is nowhere read: to end all of them is one statement, and the sweep does the rest.
        const purged = await unexpired(there, now()).update({ expires_at: now() });
        const { scope, workspace_id, session_id, agent_slug, organization_id: organizationId } = owner;
        recordAudit(sql, reach, {
          ...{ action: 'memory.purge', target: { type: 'memory', id: null }, organizationId },
          before: { scope, workspace_id, session_id, agent_slug, memories: purged },
        });
        return purged;
      }),
    prune: (date) => sweepTable(database, 'memories', 'expires_at', date.getTime() + 1),
  };
}

async function* pagesOf(
  read: (query: { cursor?: string }) => Promise<Page<Memory>>,
): AsyncGenerator<readonly Memory[]> {
  let page = await read({});
  yield page.data;
  while (page.next_cursor !== null) {
    page = await read({ cursor: page.next_cursor });
    yield page.data;
  }
}

function seen(sql: Knex, reach: Reach, id: string, now: number) {
  return unexpired(memoriesWithin(sql<MemoryRow>('memories').where({ id }), reach), now);
}

/** Held against other writers. */
async function lock(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  now: number,
  ifMatch: string | undefined,
): Promise<MemoryRow> {
  const row = await seen(sql, reach, id, now).forUpdate().first();
  if (!row) throw notFound('memory');
  requireMemoryRole(reach, row);
  requireMatch(ifMatch, row);
  return row;
}

export type MemoryFilters = Omit<MemoryQuery, 'sort' | 'limit' | 'cursor'>;

function filtered(sql: Knex, part: Knex.QueryBuilder, filters: MemoryFilters, now: number) {
  const { tag, q: _words, ...columns } = filters;
  const named = Object.entries(columns).filter(([, value]) => value !== undefined);
  unexpired(part, now).where(Object.fromEntries(named)).select('memories.*');
  if (tag !== undefined) part.whereIn('memories.id', sql('memory_tags').where({ tag }).select('memory_id'));
  return part;
}

function idsWith(sql: Knex, reach: Reach, terms: readonly SearchTerm[], now: number): Knex.QueryBuilder {
  const found = findMemories(sql, marksOfReach(reach), terms, { all: true, now });
  return found.clearSelect().clearOrder().select('memories.id');
}

async function searchMemories(
  sql: Knex,
  reach: Reach,
  search: MemorySearch,
  meaning: QueryMeaning | null,
  now: number,
): Promise<FoundMemories> {
  const { query, top_k = 10, ...filters } = search;
  const mostHits = meaning === null ? top_k : mostRanked;
  const byWords = await keywordSearch(sql, marksOfReach(reach), { query, mostHits, filters }, now);
  if (meaning === null) return { data: byWords.map(toHit), mode: 'keyword' };
  const byMeaning = await vectorSearch(sql, reach, filters, meaning, now);
  return { data: fused([byWords, byMeaning]).slice(0, top_k).map(toHit), mode: 'hybrid' };
}

function toHit({ row, score }: RankedMemory): MemoryHit {
  return { memory: toMemory(row), score };
}

/** What is searched for among the memories that some marks name. */
export interface KeywordQuery {
  readonly query: string;
  readonly mostHits: number;
  readonly filters?: SearchFilters;
}

export async function keywordSearch(
  sql: Knex,
  marks: readonly string[],
  { query, mostHits, filters = {} }: KeywordQuery,
  now: number,
): Promise<RankedMemory[]> {
  const terms = [...termsIn(query).keys()].slice(0, mostTerms);
  // A query without a word asks for nothing.
  if (terms.length === 0 || marks.length === 0) return [];
  const whole = terms.map((word) => ({ word, prefix: false }));
  const rows = findMemories(sql, marks, whole, { all: false, now }).limit(mostRanked);
  narrowed(rows, filters);
  return ranked(await rows, terms).slice(0, mostHits);
}

/** Of a long prompt the first ones count; each costs a look into the index. */
const mostTerms = 32;

type MemorySourceRow = Pick<MemoryRow, 'source_session_id' | 'source_message_id'>;

/** Only what the caller may see is named as a source. */
async function sourceOf(sql: Knex, reach: Reach, { source }: MemoryInput): Promise<MemorySourceRow> {
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

async function changeMemory(
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

function auditOf<Verb extends string>({ id, organization_id }: MemoryRow, verb: Verb) {
  return {
    action: `memory.${verb}` as const,
    target: { type: 'memory', id },
    organizationId: organization_id,
  };
}
