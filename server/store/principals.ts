/** Who a credential belongs to: one query for each request that carries one. */
import type { Knex } from 'knex';
import type { PermissionRule, Role, Scope, User } from '../contract/api.ts';
import type { StoreParts } from './parts.ts';
import { covers, type ReachedWorkspace } from './reach.ts';
import { remembered } from './remembered.ts';
import { toUser, type UserRow } from './user-row.ts';

export interface PrincipalMembership {
  readonly organizationId: string;
  readonly organizationName: string;
  readonly role: Role;
  readonly defaultWorkspaceId: string;
}

/** The person behind a credential, with their memberships, the oldest first. */
export interface CredentialOwner {
  readonly user: User;
  readonly memberships: readonly PrincipalMembership[];
  /** See `Reach`. */
  readonly workspaces: readonly ReachedWorkspace[];
}

export interface LoginOwner extends CredentialOwner {
  readonly login: {
    readonly id: string;
    readonly ended: boolean;
    readonly expired: boolean;
    /** Call `touch` of the logins only where this is more than a minute ago. */
    readonly lastSeenAt: Date | null;
  };
}

export interface ApiKeyOwner extends CredentialOwner {
  readonly apiKey: {
    readonly id: string;
    readonly scopes: readonly Scope[];
    readonly disabled: boolean;
    readonly expired: boolean;
    /** The one workspace that the key is bound to. */
    readonly workspace: { readonly id: string; readonly organizationId: string | null } | null;
    readonly ipAllow: readonly string[];
    readonly permissionRules: readonly PermissionRule[];
    readonly rateLimit: number | null;
    /** Whether there is a moment from which on it is not good any more. */
    readonly hasEnd: boolean;
    /** Whether somebody has set a quota of the key. */
    readonly hasQuota: boolean;
    /** Secrets with a lower number are not good any more. */
    readonly oldestSecret: number;
    /** The number of the secret that was given, and of the newest where none was. */
    readonly secretNumber: number;
    /** Call `touchApiKey` only where this is more than a minute ago. */
    readonly lastUsedAt: Date | null;
  };
}

export interface Principals {
  /** Null if there is no such login. */
  byLogin(loginId: string, now: Date): Promise<LoginOwner | null>;
  /** By its secret, or the one before that as long as it is good. Null if there is no such key, or it was revoked. */
  byApiKeyHash(hash: string, now: Date): Promise<ApiKeyOwner | null>;
  /** The same by the id of the key, for what was authenticated before. */
  byApiKey(id: string, now: Date): Promise<ApiKeyOwner | null>;
  /** The person, for what the server does on their behalf; null where they are gone. */
  byUser(userId: string): Promise<CredentialOwner | null>;
  /** The oldest operator; null where there is none yet. */
  operator(): Promise<CredentialOwner | null>;
  /** Those of the workspaces that have not been deleted. */
  existingWorkspaces(ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** Counts requests of a key, and remembers its use, at most once a minute. */
  touchApiKey(id: string, use: ApiKeyUse): Promise<void>;
}

/** What is noted of the use of a key. */
export interface ApiKeyUse {
  readonly at: Date;
  readonly address: string | null;
  readonly requests: number;
}

interface MembershipColumns {
  organization_id: string | null;
  organization_name: string;
  role: Role;
  default_workspace_id: string;
  workspaces_as_person: string | null;
  workspaces_through_groups: string | null;
}

interface LoginColumns {
  login_id: string;
  login_expires_at: number;
  login_ended_at: number | null;
  login_last_seen_at: number | null;
}

interface ApiKeyColumns {
  key_id: string;
  key_scopes: string;
  key_disabled: boolean;
  key_expires_at: number | null;
  key_last_used_at: number | null;
  key_workspace_id: string | null;
  key_organization_id: string | null;
  key_ip_allow: string;
  key_permission_rules: string;
  key_rate_limit: number | null;
  key_has_quota: boolean;
  key_hash: string;
  key_secret_number: number;
  key_old_expires_at: number | null;
}

const touchIntervalMs = 60_000;

const asItIs = (credential: string): string => credential;

/** Somebody, and the row of their credential: what of it is still good is a matter of the time. */
interface FoundOwner<Columns> {
  readonly owner: CredentialOwner;
  readonly row: Columns;
}

export function principalRepository({ database }: StoreParts): Principals {
  const foundLogin = remembered(database, asItIs, (loginId) =>
    database.read('installation', (sql) => loginOwner(sql, loginId)),
  );
  const foundKey = remembered(database, asItIs, (hash) =>
    database.read('installation', (sql) =>
      keyOwner(sql, (keys) => keys.where({ 'api_keys.hash': hash }).orWhere({ 'api_keys.old_hash': hash })),
    ),
  );
  // Asked for every few seconds by open streams, and by what is sent slowly.
  const foundKeyById = remembered(database, asItIs, (id) =>
    database.read('installation', (sql) => keyOwner(sql, (keys) => keys.where({ 'api_keys.id': id }))),
  );
  return {
    async byLogin(loginId, now) {
      const found = await foundLogin(loginId);
      return found && { ...found.owner, login: toLogin(found.row, now) };
    },
    async byApiKeyHash(hash, now) {
      const found = await foundKey(hash);
      if (!found || (hash !== found.row.key_hash && !oldIsGood(found.row, now))) return null;
      return { ...found.owner, apiKey: toApiKey(found.row, now, hash) };
    },
    async byApiKey(id, now) {
      const found = await foundKeyById(id);
      return found && { ...found.owner, apiKey: toApiKey(found.row, now) };
    },
    byUser: (userId) => database.read('installation', (sql) => findPerson(sql, userId)),
    operator: () => database.read('installation', operator),
    existingWorkspaces: (ids) =>
      database.read(
        'installation',
        async (sql) => new Set<string>(await sql('workspaces').whereIn('id', ids).pluck('id')),
      ),
    touchApiKey: (id, { at, address, requests }) =>
      database.write('installation', async (sql) => {
        const now = at.getTime();
        await sql('api_keys').where({ id }).increment('requests', requests);
        await sql('api_keys')
          .where({ id })
          .where((stale) =>
            stale.whereNull('last_used_at').orWhere('last_used_at', '<=', now - touchIntervalMs),
          )
          .update({ last_used_at: now, last_used_ip: address });
      }),
  };
}

async function loginOwner(sql: Knex, loginId: string): Promise<FoundOwner<LoginColumns> | null> {
  const rows: (UserRow & MembershipColumns & LoginColumns)[] = await withMemberships(
    sql,
    sql('logins').join('users', 'users.id', 'logins.user_id').where({ 'logins.id': loginId }),
  ).select({
    login_id: 'logins.id',
    login_expires_at: 'logins.expires_at',
    login_ended_at: 'logins.ended_at',
    login_last_seen_at: 'logins.last_seen_at',
  });
  const [row] = rows;
  return row ? { row, owner: toOwner(row, rows) } : null;
}

async function keyOwner(
  sql: Knex,
  which: (keys: Knex.QueryBuilder) => Knex.QueryBuilder,
): Promise<FoundOwner<ApiKeyColumns> | null> {
  const rows: (UserRow & MembershipColumns & ApiKeyColumns)[] = await withMemberships(
    sql,
    sql('api_keys')
      .join('users', 'users.id', 'api_keys.user_id')
      .leftJoin({ bound: 'workspaces' }, 'bound.id', 'api_keys.workspace_id')
      .where((keys) => void which(keys)),
  ).select({
    key_id: 'api_keys.id',
    key_scopes: 'api_keys.scopes',
    key_disabled: 'api_keys.disabled',
    key_expires_at: 'api_keys.expires_at',
    key_last_used_at: 'api_keys.last_used_at',
    key_workspace_id: 'api_keys.workspace_id',
    key_organization_id: 'bound.organization_id',
    key_ip_allow: 'api_keys.ip_allow',
    key_permission_rules: 'api_keys.permission_rules',
    key_rate_limit: 'api_keys.rate_limit',
    key_has_quota: sql.raw(hasLimitingQuota),
    key_hash: 'api_keys.hash',
    key_secret_number: 'api_keys.secret_number',
    key_old_expires_at: 'api_keys.old_hash_expires_at',
  });
  const [row] = rows;
  return row ? { row, owner: toOwner(row, rows) } : null;
}

/**
 * Whether the operator, the organization that manages the account, or one that its person administers has set a quota on the
 * key. Any other organization limits what the key uses there, and not what it may do at home.
 */
const hasLimitingQuota = `exists (
  select 1 from quotas where quotas.api_key_id = api_keys.id and (
    quotas.scope in ('', users.managed_by)
    or exists (
      select 1 from memberships m
      where m.user_id = users.id and m.organization_id = quotas.scope and m.role in ('owner', 'admin'))))`;

/** Somebody as they are now, by no credential: for what the server does on their behalf. */
export async function findPerson(sql: Knex, id: string): Promise<CredentialOwner | null> {
  const rows: (UserRow & MembershipColumns)[] = await withMemberships(
    sql,
    sql('users').where({ 'users.id': id }),
  );
  const [row] = rows;
  return row ? toOwner(row, rows) : null;
}

async function operator(sql: Knex): Promise<CredentialOwner | null> {
  const oldest = sql('users').where({ operator: true }).orderBy(['created_at', 'id']).limit(1).select('id');
  const rows: (UserRow & MembershipColumns)[] = await withMemberships(
    sql,
    sql('users').whereIn('users.id', oldest),
  );
  const [row] = rows;
  return row ? toOwner(row, rows) : null;
}

/** One row for each membership; one with nulls where there is none. */
function withMemberships(sql: Knex, credential: Knex.QueryBuilder): Knex.QueryBuilder {
  return credential
    .leftJoin('memberships', 'memberships.user_id', 'users.id')
    .leftJoin('organizations', 'organizations.id', 'memberships.organization_id')
    .leftJoin('workspaces', (join) =>
      join.on('workspaces.organization_id', 'organizations.id').onVal('workspaces.is_default', true),
    )
    .orderBy(['memberships.created_at', 'memberships.organization_id'])
    .select('users.*', {
      organization_id: 'memberships.organization_id',
      organization_name: 'organizations.name',
      role: 'memberships.role',
      default_workspace_id: 'workspaces.id',
      workspaces_as_person: workspacesBy(sql, asPerson),
      workspaces_through_groups: workspacesBy(sql, throughGroups),
    });
}

/** Workspaces as one text of JSON in the first row of the user: they cost no query of their own, and are put together once. */
function workspacesBy(sql: Knex, members: string): Knex.Raw {
  const sqlite = sql.client.config.client === 'sqlite3';
  const list = sqlite
    ? 'json_group_array(json_array(w.id, w.organization_id, m.role))'
    : 'json_agg(json_build_array(w.id, w.organization_id, m.role))::text';
  return sql.raw(`case when not exists (
      select 1 from memberships before where before.user_id = users.id
        and (before.created_at, before.organization_id) < (memberships.created_at, memberships.organization_id))
    then (select ${list} from ${members} join workspaces w on w.id = m.workspace_id) end`);
}

const asPerson = '(select * from workspace_members where user_id = users.id) m';
const throughGroups = `group_members g join workspace_members m on m.group_id = g.group_id and g.user_id = users.id`;

function toOwner(row: UserRow, rows: readonly MembershipColumns[]): CredentialOwner {
  const memberships = rows.flatMap(({ organization_id, organization_name, role, default_workspace_id }) =>
    organization_id === null
      ? []
      : [
          {
            organizationId: organization_id,
            organizationName: organization_name,
            role,
            defaultWorkspaceId: default_workspace_id,
          },
        ],
  );
  return { user: toUser(row), memberships, workspaces: workspacesOf(memberships, rows[0]) };
}

/** Each workspace once, with the highest of the roles. What was given counts only for members of its organization. */
function workspacesOf(
  memberships: readonly PrincipalMembership[],
  given: Pick<MembershipColumns, 'workspaces_as_person' | 'workspaces_through_groups'> | undefined,
): ReachedWorkspace[] {
  const rows = [given?.workspaces_as_person, given?.workspaces_through_groups].flatMap(
    (text): [string, string, Role][] => JSON.parse(text ?? 'null') ?? [],
  );
  const organizations = new Set(memberships.map(({ organizationId }) => organizationId));
  const all = [
    ...memberships.map(({ organizationId, defaultWorkspaceId, role }) => ({
      id: defaultWorkspaceId,
      organizationId,
      role,
    })),
    ...rows
      .map(([id, organizationId, role]) => ({ id, organizationId, role }))
      .filter(({ organizationId }) => organizations.has(organizationId)),
  ];
  const highest = new Map<string, ReachedWorkspace>();
  for (const workspace of all) {
    const before = highest.get(workspace.id);
    if (!before || covers(workspace.role, before.role)) highest.set(workspace.id, workspace);
  }
  return [...highest.values()];
}

function toLogin(row: LoginColumns, now: Date): LoginOwner['login'] {
  return {
    id: row.login_id,
    ended: row.login_ended_at !== null,
    expired: row.login_expires_at <= now.getTime(),
    lastSeenAt: row.login_last_seen_at === null ? null : new Date(row.login_last_seen_at),
  };
}

/** A row that is remembered is read once. */
const readRows = new WeakMap<
  ApiKeyColumns,
  Pick<ApiKeyOwner['apiKey'], 'scopes' | 'ipAllow' | 'permissionRules'>
>();

function listsOf(row: ApiKeyColumns) {
  const read = readRows.get(row) ?? {
    scopes: JSON.parse(row.key_scopes),
    ipAllow: JSON.parse(row.key_ip_allow),
    permissionRules: JSON.parse(row.key_permission_rules),
  };
  readRows.set(row, read);
  return read;
}

function toApiKey(row: ApiKeyColumns, now: Date, hash = row.key_hash): ApiKeyOwner['apiKey'] {
  const { key_secret_number: newest, key_workspace_id: workspaceId } = row;
  return {
    id: row.key_id,
    ...listsOf(row),
    disabled: Boolean(row.key_disabled),
    expired: row.key_expires_at !== null && row.key_expires_at <= now.getTime(),
    workspace: workspaceId === null ? null : { id: workspaceId, organizationId: row.key_organization_id },
    rateLimit: row.key_rate_limit,
    hasEnd: row.key_expires_at !== null,
    hasQuota: Boolean(row.key_has_quota),
    oldestSecret: oldIsGood(row, now) ? newest - 1 : newest,
    secretNumber: hash === row.key_hash ? newest : newest - 1,
    lastUsedAt: row.key_last_used_at === null ? null : new Date(row.key_last_used_at),
  };
}

/** Whether the secret before the newest is still taken. */
function oldIsGood({ key_old_expires_at: end }: ApiKeyColumns, now: Date): boolean {
  return end !== null && end > now.getTime();
}
