/** Memories: what people and agents want to be known later, each once for its owner, with what it said before. */
import type { Knex } from 'knex';
import type { Memory, MemorySearch, MemoryUpdate, MemoryVersion, operations } from '../contract/api.ts';
import { recordAudit } from './audit.ts';
import { requireMatch } from './etag.ts';
import { findMemories, marksOfReach } from './memory-index.ts';
import { findOwner, type NamedOwner } from './memory-owners.ts';
import { retireMemories } from './memory-retention.ts';
import {
  auditOf,
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
import { type FoundMemories, placeOfReach, searchMemories } from './memory-searching.ts';
import {
  keepVectors,
  type MemoryText,
  type MemoryVector,
  memoriesWithoutVector,
  type QueryMeaning,
} from './memory-vectors.ts';
import {
  changeMemory,
  insertMemory,
  type MemoryInput,
  type MemoryWriter,
  sourceOf,
  toldTwice,
  type WrittenMemory,
} from './memory-writing.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { type SearchTerm, searchTerms } from './search-words.ts';
import { sweepTable } from './sweeps.ts';

export type MemoryQuery = Partial<NonNullable<operations['listMemories']['parameters']['query']>>;

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
  /** Deletes what has expired, and what its organization keeps no longer; answers with how many. */
  prune(now: Date): Promise<number>;
}

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
      database.read('installation', (sql) =>
        searchMemories(sql, placeOfReach(reach), search, meaning, now()),
      ),
    withoutVector: (reach, embedder, most) =>
      database.read('installation', (sql) =>
        memoriesWithoutVector(sql, memoryParts(sql, reach), embedder, most, now()),
      ),
    keepVectors: (embedder, vectors) =>
      database.write('installation', (sql) => keepVectors(sql, embedder, vectors)),
    requirePlace: (reach, workspace_id) =>
      database.read(reach, async (sql) => {
        requireMemoryRole(reach, await findOwner(sql, reach, { scope: 'workspace', workspace_id }));
      }),
    async export(reach, filters) {
      await database.write('installation', async (sql) => {
        const target = { type: 'memory', id: null };
        for (const organizationId of await organizationsWith(sql, reach, filters, now()))
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
    async prune(date) {
      const expired = await sweepTable(database, 'memories', 'expires_at', date.getTime() + 1);
      return expired + (await retireMemories(database, date.getTime()));
    },
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

/** The organizations of which there are such memories; where there are none, their caller's own. */
async function organizationsWith(
  sql: Knex,
  reach: Reach,
  filters: MemoryFilters,
  now: number,
): Promise<ReadonlySet<string | null>> {
  const found = new Set<string | null>();
  for (const part of memoryParts(sql, reach)) {
    const row: MemoryRow | undefined = await filtered(sql, part, filters, now).first();
    if (row) found.add(row.organization_id);
  }
  return found.size > 0 ? found : new Set([reach.organizationIds[0] ?? null]);
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
