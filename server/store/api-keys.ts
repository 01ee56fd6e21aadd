/** API keys without their secrets: a hash, the visible beginning, and what the key may do. Each belongs to one user. */
import type { Knex } from 'knex';
import type { ApiKey, ApiKeyCreate, ApiKeyUpdate, Scope } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { recordAudit } from './audit.ts';
import { etagOf, requireMatch } from './etag.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { nullableTimestamp, parseTimestamp, timestamp } from './timestamps.ts';

export interface NewApiKey extends Pick<ApiKeyCreate, 'name' | 'expires_at'> {
  readonly scopes: readonly Scope[];
  readonly hash: string;
  readonly prefix: string;
}

export interface TaggedApiKey {
  readonly apiKey: ApiKey;
  readonly etag: string;
}

/** Of the caller's own keys; those of others are not there. The use of a key does not change its ETag. */
export interface ApiKeys {
  create(reach: Reach, key: NewApiKey): Promise<TaggedApiKey>;
  /** The newest first. */
  list(reach: Reach, query: PageQuery): Promise<Page<ApiKey>>;
  find(reach: Reach, id: string): Promise<TaggedApiKey | null>;
  /** Throws `not_found` or `precondition_failed`. */
  update(reach: Reach, id: string, patch: ApiKeyUpdate, ifMatch?: string | undefined): Promise<TaggedApiKey>;
  /** Ends the key for good. Throws `not_found` or `precondition_failed`. */
  revoke(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
}

interface ApiKeyRow {
  id: string;
  user_id: string;
  name: string;
  hash: string;
  prefix: string;
  scopes: string;
  disabled: boolean;
  expires_at: number | null;
  last_used_at: number | null;
  revision: number;
  created_at: number;
  updated_at: number;
}

export function apiKeyRepository({ database, clock, cursors }: StoreParts): ApiKeys {
  return {
    create: (reach, key) =>
      database.write(reach, async (sql) => {
        const row = apiKeyRow(reach, key, clock.now().getTime());
        await sql('api_keys').insert(row);
        recordAudit(sql, reach, { ...changeOf(reach, row, 'create'), after: told(row) });
        return tagged(row);
      }),
    list: (reach, query) =>
      database.read(reach, async (sql) => {
        const parts = [sql('api_keys').where({ user_id: reach.userId })];
        const listing = {
          name: 'api_keys',
          reach,
          filters: {},
          columns: ['created_at', 'id'],
          direction: 'desc',
          parts,
        } as const;
        const { data, next_cursor } = await readPage<ApiKeyRow>(sql, cursors, listing, query);
        return { data: data.map(toApiKey), next_cursor };
      }),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await sql<ApiKeyRow>('api_keys').where({ id, user_id: reach.userId }).first();
        return row ? tagged(row) : null;
      }),
    update: (reach, id, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockApiKey(sql, reach, id, ifMatch);
        const changed = patched(row, patch, clock.now().getTime());
        await sql<ApiKeyRow>('api_keys').where({ id }).update(changed);
        const next = { ...row, ...changed };
        recordAudit(sql, reach, { ...changeOf(reach, row, 'update'), before: told(row), after: told(next) });
        return tagged(next);
      }),
    revoke: (reach, id, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockApiKey(sql, reach, id, ifMatch);
        await sql<ApiKeyRow>('api_keys').where({ id }).delete();
        recordAudit(sql, reach, { ...changeOf(reach, row, 'revoke'), before: told(row) });
      }),
  };
}

/** A key belongs to a person, and what they do with it is seen where they belong the longest. */
function changeOf<Verb extends string>({ organizationIds }: Reach, { id }: ApiKeyRow, verb: Verb) {
  return {
    action: `api_key.${verb}` as const,
    target: { type: 'api_key', id },
    organizationId: organizationIds[0] ?? null,
  };
}

/** What the audit log says of a key. */
function told(row: ApiKeyRow) {
  const { name, prefix, scopes, disabled, expires_at } = toApiKey(row);
  return { name, prefix, scopes, disabled, expires_at };
}

async function lockApiKey(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch: string | undefined,
): Promise<ApiKeyRow> {
  const row = await sql<ApiKeyRow>('api_keys').where({ id, user_id: reach.userId }).forUpdate().first();
  if (!row) throw notFound('API key');
  requireMatch(ifMatch, row);
  return row;
}

function apiKeyRow(reach: Reach, key: NewApiKey, now: number): ApiKeyRow {
  return {
    id: newId('apiKey'),
    user_id: reach.userId,
    name: key.name,
    hash: key.hash,
    prefix: key.prefix,
    scopes: JSON.stringify(key.scopes),
    disabled: false,
    expires_at: expiry(key.expires_at),
    last_used_at: null,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

function patched(row: ApiKeyRow, { name, scopes, expires_at, disabled }: ApiKeyUpdate, now: number) {
  return {
    name: name ?? row.name,
    scopes: scopes ? JSON.stringify(scopes) : row.scopes,
    expires_at: expires_at === undefined ? row.expires_at : expiry(expires_at),
    disabled: disabled ?? row.disabled,
    revision: row.revision + 1,
    updated_at: now,
  };
}

function expiry(text: string | null | undefined): number | null {
  return text ? parseTimestamp(text, '/expires_at') : null;
}

function tagged(row: ApiKeyRow): TaggedApiKey {
  return { apiKey: toApiKey(row), etag: etagOf(row) };
}

function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    scopes: JSON.parse(row.scopes),
    disabled: Boolean(row.disabled),
    expires_at: nullableTimestamp(row.expires_at),
    last_used_at: nullableTimestamp(row.last_used_at),
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
