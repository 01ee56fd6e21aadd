/** API keys without their secrets: a hash, the visible beginning, and what the key may do. Each belongs to one user. */
import type { Knex } from 'knex';
import type { ApiKey, ApiKeyCreate, ApiKeyUpdate, Scope } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { isEveryScope } from '../scopes.ts';
import { recordAudit } from './audit.ts';
import type { AuditValues } from './audit-values.ts';
import { toDollars } from './costs.ts';
import { etagOf, requireMatch } from './etag.ts';
import { holdCredential } from './hold-credential.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { unconfined } from './postgres.ts';
import { notFound, type Reach } from './reach.ts';
import { nullableTimestamp, parseTimestamp, timestamp } from './timestamps.ts';
import type { UserRow } from './user-row.ts';
import { findWorkspace } from './workspaces.ts';

/** What a key is known by. */
export interface NewSecret {
  readonly hash: string;
  readonly prefix: string;
}

export interface NewApiKey extends Omit<ApiKeyCreate, 'scopes'>, NewSecret {
  readonly scopes: readonly Scope[];
}

export interface TaggedApiKey {
  readonly apiKey: ApiKey;
  readonly etag: string;
}

/**
 * Of the caller's own keys; those of others are not there. The use of a key does not change its ETag. With the old secret
 * of a key that has a newer one, whatever writes throws `login_required`.
 */
export interface ApiKeys {
  /** Throws `not_found` for a workspace out of reach. */
  create(reach: Reach, key: NewApiKey): Promise<TaggedApiKey>;
  /** The newest first. */
  list(reach: Reach, query: PageQuery): Promise<Page<ApiKey>>;
  find(reach: Reach, id: string): Promise<TaggedApiKey | null>;
  /** `seen` is the tag of what was decided by. Throws `not_found`, `precondition_failed` or `last_key`. */
  update(
    reach: Reach,
    id: string,
    patch: ApiKeyUpdate,
    ifMatch?: string | undefined,
    seen?: string | undefined,
  ): Promise<TaggedApiKey>;
  /** Another secret; the old one is good until then, or no more, and one before that never. Throws as `update`. */
  rotate(
    reach: Reach,
    id: string,
    secret: NewSecret,
    oldUntil: Date | null,
    ifMatch?: string | undefined,
    seen?: string | undefined,
  ): Promise<TaggedApiKey>;
  /** Ends the key for good. Throws `not_found`, `precondition_failed` or `last_key`. */
  revoke(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
}

interface ApiKeyRow {
  id: string;
  user_id: string;
  name: string;
  hash: string;
  prefix: string;
  scopes: string;
  workspace_id: string | null;
  ip_allow: string;
  permission_rules: string;
  rate_limit: number | null;
  disabled: boolean;
  expires_at: number | null;
  last_used_at: number | null;
  last_used_ip: string | null;
  secret_number: number;
  old_hash: string | null;
  old_hash_expires_at: number | null;
  requests: number;
  revision: number;
  created_at: number;
  updated_at: number;
}

export function apiKeyRepository({ database, clock, cursors }: StoreParts): ApiKeys {
  const now = (): number => clock.now().getTime();
  const spentBy = (ids: readonly string[]) => database.read('installation', (sql) => spentWith(sql, ids));
  return {
    create: (reach, key) =>
      database.write(reach, async (sql) => {
        const { workspace_id } = key;
        if (workspace_id !== undefined && !(await findWorkspace(sql, reach, workspace_id)))
          throw notFound('workspace');
        await holdCredential(sql, reach);
        await refuseOldSecret(sql, reach);
        const row = apiKeyRow(reach, key, now());
        await sql('api_keys').insert(row);
        record(sql, reach, 'api_key.create', null, row);
        return tagged(row, now());
      }),
    async list(reach, query) {
      const { data, next_cursor } = await database.read(reach, (sql) => {
        const parts = [sql('api_keys').where({ user_id: reach.userId })];
        const listing = {
          name: 'api_keys',
          reach,
          filters: {},
          columns: ['created_at', 'id'],
          direction: 'desc',
          parts,
        } as const;
        return readPage<ApiKeyRow>(sql, cursors, listing, query);
      });
      const spent = await spentBy(data.map(({ id }) => id));
      return { data: data.map((row) => toApiKey(row, now(), spent.get(row.id))), next_cursor };
    },
    async find(reach, id) {
      const row = await database.read(reach, (sql) =>
        sql<ApiKeyRow>('api_keys').where({ id, user_id: reach.userId }).first(),
      );
      return row ? tagged(row, now(), (await spentBy([id])).get(id)) : null;
    },
    update: (reach, id, patch, ifMatch, seen) =>
      database.write(reach, async (sql) => {
        const row = await lockApiKey(sql, reach, id, ifMatch);
        requireMatch(seen, row);
        const changes = patched(row, patch);
        await refuseLastKey(sql, reach, row, { ...row, ...changes });
        return save(sql, reach, 'api_key.update', row, changes, now());
      }),
    rotate: (reach, id, { hash, prefix }, oldUntil, ifMatch, seen) =>
      database.write(reach, async (sql) => {
        const row = await lockApiKey(sql, reach, id, ifMatch);
        requireMatch(seen, row);
        const old = {
          old_hash: oldUntil && row.hash,
          old_hash_expires_at: oldUntil?.getTime() ?? null,
        };
        const changed = { hash, prefix, ...old, secret_number: row.secret_number + 1 };
        return save(sql, reach, 'api_key.rotate', row, changed, now());
      }),
    revoke: (reach, id, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockApiKey(sql, reach, id, ifMatch);
        await refuseLastKey(sql, reach, row, null);
        await sql<ApiKeyRow>('api_keys').where({ id }).delete();
        record(sql, reach, 'api_key.revoke', row, null);
      }),
  };
}

interface Spent {
  readonly tokens: number;
  readonly cost: number;
}

/** What models were used for with each of the keys, by the one meter, also where their person is no more. */
async function spentWith(sql: Knex, ids: readonly string[]): Promise<Map<string, Spent>> {
  if (ids.length === 0) return new Map();
  const rows: { id: string; tokens: number | string; cost: number | string }[] = await sql('usage_counters')
    .whereIn('subject_id', ids)
    .groupBy('subject_id')
    .select({ id: 'subject_id' })
    .sum({ tokens: 'tokens', cost: 'cost_nanodollars' });
  return new Map(rows.map(({ id, tokens, cost }) => [id, { tokens: Number(tokens), cost: Number(cost) }]));
}

async function lockApiKey(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch: string | undefined,
): Promise<ApiKeyRow> {
  const row = await sql<ApiKeyRow>('api_keys').where({ id, user_id: reach.userId }).forUpdate().first();
  if (!row) throw notFound('API key');
  await refuseOldSecret(sql, reach, row);
  requireMatch(ifMatch, row);
  return row;
}

/**
 * In its grace the old secret is for the work of the key alone: whoever found it must not end or renew the key under the
 * hands of those who have the new one. Of the key itself the row is `held`, so that one of two renewals at once comes too
 * late; for another key it does not matter which of the two was first.
 */
async function refuseOldSecret(
  sql: Knex.Transaction,
  { origin, key }: Reach,
  held?: ApiKeyRow,
): Promise<void> {
  const { kind, id } = origin?.credential ?? {};
  if (kind !== 'api_key' || id === undefined || !key) return;
  const acting =
    held?.id === id ? held : await sql<ApiKeyRow>('api_keys').where({ id }).first('secret_number');
  if (!acting || acting.secret_number <= key.secretNumber) return;
  throw new Problem(
    'login_required',
    'This is the old secret of an API key that has a newer one, so it makes no keys, and changes and ends none: send the newer secret, or log in.',
  );
}

/** Whether a key does all that its person may, for as long as it is not taken away. */
function isWhole(row: ApiKeyRow): boolean {
  const { disabled, expires_at, workspace_id, ip_allow, permission_rules, rate_limit } = row;
  const lists = [ip_allow, permission_rules].map((text): unknown[] => JSON.parse(text));
  return (
    !disabled &&
    [expires_at, workspace_id, rate_limit].every((limit) => limit === null) &&
    lists.every((list) => list.length === 0) &&
    isEveryScope(JSON.parse(row.scopes))
  );
}

/**
 * Whoever acts with a key of the operator may know no password: whoever has logged in does. Of the keys that do all that
 * the operator may, such a one leaves another; so a key that does less locks nobody out.
 */
async function refuseLastKey(
  sql: Knex.Transaction,
  reach: Reach,
  row: ApiKeyRow,
  after: ApiKeyRow | null,
): Promise<void> {
  const { kind, id: acting } = reach.origin?.credential ?? {};
  if (kind !== 'api_key' || !isWhole(row) || (after && isWhole(after))) return;
  // Of two at once one takes the last. The key itself may say nothing of the operator, being bound to a workspace.
  const user = await sql<UserRow>('users').where({ id: row.user_id }).forNoKeyUpdate().first('operator');
  if (!user?.operator) return;
  const keys = await sql<ApiKeyRow>('api_keys').where({ user_id: row.user_id });
  // The credential of a command that has the server inside is none of these, and there is another at its next start.
  if (!keys.some(({ id }) => id === acting)) return;
  if (keys.some((key) => key.id !== row.id && isWhole(key))) return;
  throw new Problem(
    'last_key',
    'This is your last API key that does all you may, and you act with a key; log in, or make another such key first.',
  );
}

async function save(
  sql: Knex.Transaction,
  reach: Reach,
  action: 'api_key.update' | 'api_key.rotate',
  row: ApiKeyRow,
  changes: Partial<ApiKeyRow>,
  now: number,
): Promise<TaggedApiKey> {
  const changed = { ...row, ...changes, revision: row.revision + 1, updated_at: now };
  await sql<ApiKeyRow>('api_keys').where({ id: row.id }).update(changed);
  record(sql, reach, action, row, changed);
  const spent = await unconfined(sql, () => spentWith(sql, [row.id]));
  return tagged(changed, now, spent.get(row.id));
}

function record(
  sql: Knex.Transaction,
  reach: Reach,
  action: `api_key.${string}`,
  before: ApiKeyRow | null,
  after: ApiKeyRow | null,
): void {
  const id = (after ?? before)?.id ?? null;
  recordAudit(sql, reach, {
    action,
    target: { type: 'api_key', id },
    // A key belongs to a person: it is shown where that person is at home.
    organizationId: reach.organizationIds[0] ?? null,
    ...(before && { before: told(before) }),
    ...(after && { after: told(after) }),
  });
}

function told(row: ApiKeyRow): AuditValues {
  const { name, prefix, scopes, workspace_id, ip_allow, permission_rules, rate_limit, disabled } = row;
  return {
    ...{ name, prefix, workspace_id, rate_limit, disabled: Boolean(disabled) },
    scopes: JSON.parse(scopes),
    ip_allow: JSON.parse(ip_allow),
    permission_rules: JSON.parse(permission_rules),
    expires_at: nullableTimestamp(row.expires_at),
    old_secret_expires_at: nullableTimestamp(row.old_hash_expires_at),
  };
}

function apiKeyRow(reach: Reach, key: NewApiKey, now: number): ApiKeyRow {
  return {
    id: newId('apiKey'),
    user_id: reach.userId,
    name: key.name,
    hash: key.hash,
    prefix: key.prefix,
    scopes: JSON.stringify(key.scopes),
    workspace_id: key.workspace_id ?? null,
    ip_allow: JSON.stringify(key.ip_allow ?? []),
    permission_rules: JSON.stringify(key.permission_rules ?? []),
    rate_limit: key.rate_limit ?? null,
    disabled: false,
    expires_at: expiry(key.expires_at),
    last_used_at: null,
    last_used_ip: null,
    secret_number: 1,
    old_hash: null,
    old_hash_expires_at: null,
    requests: 0,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

function patched(row: ApiKeyRow, patch: ApiKeyUpdate): Partial<ApiKeyRow> {
  const { name, scopes, expires_at, disabled, ip_allow, permission_rules, rate_limit } = patch;
  return {
    name: name ?? row.name,
    scopes: scopes ? JSON.stringify(scopes) : row.scopes,
    expires_at: expires_at === undefined ? row.expires_at : expiry(expires_at),
    disabled: disabled ?? row.disabled,
    ip_allow: ip_allow ? JSON.stringify(ip_allow) : row.ip_allow,
    permission_rules: permission_rules ? JSON.stringify(permission_rules) : row.permission_rules,
    rate_limit: rate_limit === undefined ? row.rate_limit : rate_limit,
  };
}

function expiry(text: string | null | undefined): number | null {
  return text ? parseTimestamp(text, '/expires_at') : null;
}

function tagged(row: ApiKeyRow, now: number, spent?: Spent): TaggedApiKey {
  return { apiKey: toApiKey(row, now, spent), etag: etagOf(row) };
}

function toApiKey(row: ApiKeyRow, now: number, spent?: Spent): ApiKey {
  const oldUntil = row.old_hash_expires_at;
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    scopes: JSON.parse(row.scopes),
    workspace_id: row.workspace_id,
    ip_allow: JSON.parse(row.ip_allow),
    permission_rules: JSON.parse(row.permission_rules),
    rate_limit: row.rate_limit,
    disabled: Boolean(row.disabled),
    expires_at: nullableTimestamp(row.expires_at),
    last_used_at: nullableTimestamp(row.last_used_at),
    last_used_ip: row.last_used_ip,
    usage: { requests: row.requests, tokens: spent?.tokens ?? 0, cost: toDollars(spent?.cost ?? 0) },
    old_secret_expires_at: oldUntil !== null && oldUntil > now ? timestamp(oldUntil) : null,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
