/** Model providers that people and admins keep on the server: whose they are, what is told of them, and what is sealed. */
import type { Knex } from 'knex';
import type { ProviderSetting } from '../contract/api.ts';
import type { Provider } from '../contract/config.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { etagOf, requireMatch } from './etag.ts';
import { ofOwnersSeen, partsOfOwners } from './owners-seen.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole } from './reach.ts';
import { remembered } from './remembered.ts';
import { readProviderEntry } from './settings-entry.ts';
import { timestamp } from './timestamps.ts';

/** Whose a setting is. */
export interface ProviderSettingOwner {
  readonly scope: ProviderSetting['scope'];
  readonly organizationId: string | null;
  readonly workspaceId: string | null;
}

/** What a setting says, as it is stored. */
export interface ProviderSettingContent {
  readonly name: string;
  readonly priority: number;
  /** As an entry of service.json has it, its type by the real name, without secrets. */
  readonly entry: Provider;
  readonly apiKeySet: boolean;
  readonly extraHeaderNames: readonly string[];
  /** Sealed for the row `provider_settings/<id>`; null where there are none. */
  readonly secrets: string | null;
}

export interface StoredProviderSetting extends ProviderSettingContent, ProviderSettingOwner {
  readonly id: string;
  readonly providerId: string;
  /** The members of its entry that cannot be read, and are left out. */
  readonly strange: readonly string[];
  readonly revision: number;
  /** Of what its provider lists itself; null where there is nothing, absent where it was not looked for. */
  readonly discoveredMark?: string | null;
  readonly etag: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}

export interface ProviderSettingFilters {
  readonly scope?: ProviderSetting['scope'] | undefined;
  readonly workspace_id?: string | undefined;
  readonly provider_id?: string | undefined;
}

/**
 * A person's own settings are seen by nobody else; those of a workspace or an organization by whoever has the role there
 * that the operation asks for.
 */
export interface ProviderSettings {
  /** The newest first. */
  list(reach: Reach, query: PageQuery & ProviderSettingFilters): Promise<Page<StoredProviderSetting>>;
  /** Throws `role_required`, `name_taken` or `too_many_settings`. The owner is within reach. */
  create(
    reach: Reach,
    owner: ProviderSettingOwner,
    setting: ProviderSettingContent & { readonly id: string; readonly providerId: string },
  ): Promise<StoredProviderSetting>;
  /** Throws `role_required`. */
  find(reach: Reach, id: string): Promise<StoredProviderSetting | null>;
  /**
   * Puts other content in the place of what was read; null where somebody has changed it since. Throws `not_found`,
   * `role_required`, `precondition_failed` or `name_taken`.
   */
  replace(
    reach: Reach,
    read: Pick<StoredProviderSetting, 'id' | 'revision'>,
    content: ProviderSettingContent,
    ifMatch?: string | undefined,
  ): Promise<StoredProviderSetting | null>;
  /** Throws `not_found`, `role_required` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
  /**
   * Those of which an owner may choose a model: for a person all that they see, for a workspace also those of its
   * organization. That the owner is within reach has been checked.
   */
  choosable(reach: Reach, owner: ProviderSettingOwner): Promise<StoredProviderSetting[]>;
  /**
   * What counts for a person's queries in a workspace: their own, then the workspace's, then the organization's, each in
   * the order of priority. Their right to the workspace has been checked.
   */
  forRuns(who: AskerOfSettings): Promise<readonly StoredProviderSetting[]>;
}

interface AskerOfSettings {
  readonly userId: string;
  readonly workspaceId: string;
  /** Whether they ask with a credential that is bound to the workspace: their own settings do not count then. */
  readonly bound?: boolean | undefined;
  /** The one that comes before all others. That it is theirs to use has been checked, too. */
  readonly providerSettingId?: string | undefined;
}

interface ProviderSettingRow {
  id: string;
  scope: ProviderSetting['scope'];
  owner_id: string;
  organization_id: string | null;
  workspace_id: string | null;
  user_id: string | null;
  provider_id: string;
  name: string;
  entry: string;
  api_key_set: boolean;
  extra_header_names: string;
  secrets: string | null;
  priority: number;
  created_by: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

/** Somebody who administers many organizations sees more settings than anybody chooses from; the newest count. */
const mostChoosable = 500;

/** All of one owner's are read for every query that may use them. */
const mostOfOneOwner = 50;

export function providerSettingRepository({ database, clock, cursors }: StoreParts): ProviderSettings {
  const now = (): number => clock.now().getTime();
  return {
    list: (reach, { limit, cursor, ...filters }) =>
      database.read(reach, async (sql) => {
        const listing = {
          name: 'provider_settings',
          reach,
          filters,
          columns: ['created_at', 'id'],
          direction: 'desc',
          parts: partsOfOwners(() => sql('provider_settings'), reach).map((part) => filtered(part, filters)),
        } as const;
        const page = await readPage<ProviderSettingRow>(sql, cursors, listing, { limit, cursor });
        return { data: page.data.map(toStored), next_cursor: page.next_cursor };
      }),
    create: (reach, owner, setting) =>
      database
        .write(reach, async (sql) => {
          const row = rowOf(reach, owner, setting, now());
          allow(reach, row);
          await refuseTooMany(sql, row.owner_id);
          await sql('provider_settings').insert(row);
          record(sql, reach, 'create', null, row);
          return toStored(row);
        })
        .catch(nameTaken(setting.providerId, setting.name)),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await seen(sql, reach, id).first();
        if (row) allow(reach, row);
        return row ? toStored(row) : null;
      }),
    replace: (reach, { id, revision }, content, ifMatch) =>
      database
        .write(reach, async (sql) => {
          const row = await lock(sql, reach, id, ifMatch);
          if (row.revision !== revision) return null;
          const changed = { ...row, ...columnsOf(content), revision: revision + 1, updated_at: now() };
          await sql<ProviderSettingRow>('provider_settings').where({ id }).update(changed);
          record(sql, reach, 'update', row, changed);
          return toStored(changed);
        })
        .catch(nameTaken('this provider', content.name)),
    delete: (reach, id, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lock(sql, reach, id, ifMatch);
        await sql<ProviderSettingRow>('provider_settings').where({ id }).delete();
        record(sql, reach, 'delete', row, null);
      }),
    choosable: (reach, { scope, organizationId, workspaceId }) =>
      database.read('installation', async (sql) => {
        const all = sql<ProviderSettingRow>('provider_settings').orderBy('id', 'desc').limit(mostChoosable);
        const owners = [workspaceId, organizationId].flatMap((id) => id ?? []);
        const rows = await (scope === 'user' ? ofOwnersSeen(all, reach) : all.whereIn('owner_id', owners));
        return rows.map(toStored);
      }),
    forRuns: remembered(
      database,
      ({ userId, workspaceId, bound = false, providerSettingId = '' }: AskerOfSettings) =>
        `${userId} ${workspaceId} ${bound} ${providerSettingId}`,
      ({ userId, workspaceId, bound, providerSettingId }: AskerOfSettings) =>
        database.read('installation', async (sql) => {
          const organization = sql('workspaces').where({ id: workspaceId }).select('organization_id');
          const rows: (ProviderSettingRow & { discovered_mark: string | null })[] = await sql(
            'provider_settings',
          )
            .leftJoin('provider_models', 'provider_models.setting_id', 'provider_settings.id')
            .select('provider_settings.*', 'provider_models.mark as discovered_mark')
            .whereIn('owner_id', bound ? [workspaceId] : [userId, workspaceId])
            .orWhere('owner_id', organization)
            .orWhere({ id: providerSettingId ?? '' });
          const wanted = ({ id }: ProviderSettingRow) => Number(id === providerSettingId);
          return rows
            .sort((a, b) => wanted(b) - wanted(a) || byPrecedence(a, b))
            .map((row) => ({ ...toStored(row), discoveredMark: row.discovered_mark }));
        }),
    ),
  };
}

const scopes: readonly ProviderSetting['scope'][] = ['user', 'workspace', 'organization'];

function byPrecedence(a: ProviderSettingRow, b: ProviderSettingRow): number {
  const scope = scopes.indexOf(a.scope) - scopes.indexOf(b.scope);
  // Ids sort by time: of equals the older one goes on to count.
  return scope || b.priority - a.priority || (a.id < b.id ? -1 : 1);
}

function filtered(part: Knex.QueryBuilder, filters: ProviderSettingFilters): Knex.QueryBuilder {
  const named = Object.entries(filters).filter(([, value]) => value !== undefined);
  return part.where(Object.fromEntries(named));
}

function seen(sql: Knex, reach: Reach, id: string) {
  const one = sql<ProviderSettingRow>('provider_settings').where({ id });
  return ofOwnersSeen(one, { ...reach, needs: 'viewer' });
}

/** What is one's own needs no role. */
function allow(reach: Reach, { scope, organization_id, workspace_id }: ProviderSettingRow): void {
  if (scope === 'user') return;
  requireRole(reach, { organization_id: organization_id ?? '', workspace_id });
}

async function lock(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch: string | undefined,
): Promise<ProviderSettingRow> {
  const row = await seen(sql, reach, id).forUpdate().first();
  if (!row) throw notFound('provider setting');
  allow(reach, row);
  requireMatch(ifMatch, row);
  return row;
}

async function refuseTooMany(sql: Knex.Transaction, ownerId: string): Promise<void> {
  const rows = await sql('provider_settings').where({ owner_id: ownerId }).limit(mostOfOneOwner).select('id');
  if (rows.length < mostOfOneOwner) return;
  throw new Problem(
    'too_many_settings',
    `There are ${mostOfOneOwner} provider settings here already; delete one that is not needed.`,
  );
}

function nameTaken(providerId: string, name: string): (error: unknown) => never {
  return (error) => {
    if (!isDuplicate(error)) throw error;
    throw new Problem(
      'name_taken',
      `There is a setting for ${providerId} with the name ${name} already; choose another name.`,
    );
  };
}

function record(
  sql: Knex.Transaction,
  reach: Reach,
  verb: 'create' | 'update' | 'delete',
  before: ProviderSettingRow | null,
  after: ProviderSettingRow | null,
): void {
  const row = after ?? before;
  recordAudit(sql, reach, {
    action: `provider_setting.${verb}`,
    target: { type: 'provider_setting', id: row?.id ?? null },
    // One that belongs to a person is shown where that person is at home.
    organizationId: row?.organization_id ?? reach.organizationIds[0] ?? null,
    ...(before && { before: told(before) }),
    ...(after && { after: told(after) }),
  });
}

/** That a secret has changed is told, what it is never. */
function told({ scope, workspace_id, provider_id, name, priority, entry, ...row }: ProviderSettingRow) {
  return {
    ...{ scope, workspace_id, provider_id, name, priority },
    ...readProviderEntry(entry).entry,
    extra_header_names: JSON.parse(row.extra_header_names),
    secrets: row.secrets,
  };
}

function rowOf(
  { userId }: Reach,
  { scope, organizationId, workspaceId }: ProviderSettingOwner,
  setting: ProviderSettingContent & { readonly id: string; readonly providerId: string },
  now: number,
): ProviderSettingRow {
  return {
    id: setting.id,
    scope,
    owner_id: ownerIdOf({ scope, organizationId, workspaceId }, userId),
    organization_id: organizationId,
    workspace_id: workspaceId,
    user_id: scope === 'user' ? userId : null,
    provider_id: setting.providerId,
    ...columnsOf(setting),
    created_by: userId,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

export function ownerIdOf(
  { scope, organizationId, workspaceId }: ProviderSettingOwner,
  userId: string,
): string {
  const id = scope === 'user' ? userId : scope === 'workspace' ? workspaceId : organizationId;
  if (id === null) throw new Error(`A setting of the scope ${scope} needs its owner`);
  return id;
}

function columnsOf({ name, priority, entry, apiKeySet, extraHeaderNames, secrets }: ProviderSettingContent) {
  return {
    ...{ name, priority, secrets },
    entry: JSON.stringify(entry),
    api_key_set: apiKeySet,
    extra_header_names: JSON.stringify(extraHeaderNames),
  };
}

function toStored(row: ProviderSettingRow): StoredProviderSetting {
  return {
    id: row.id,
    scope: row.scope,
    organizationId: row.organization_id,
    workspaceId: row.workspace_id,
    providerId: row.provider_id,
    name: row.name,
    priority: row.priority,
    ...readProviderEntry(row.entry),
    apiKeySet: Boolean(row.api_key_set),
    extraHeaderNames: JSON.parse(row.extra_header_names),
    secrets: row.secrets,
    revision: row.revision,
    etag: etagOf(row),
    createdAt: timestamp(row.created_at),
    updatedAt: timestamp(row.updated_at),
  };
}
