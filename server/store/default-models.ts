/** The models that people, workspaces and organizations have chosen to be asked where a query names none. */
import type { Knex } from 'knex';
import type { DefaultModels as DefaultModelsShown } from '../contract/api.ts';
import { recordAudit } from './audit.ts';
import { etagOf, requireMatch } from './etag.ts';
import type { StoreParts } from './parts.ts';
import { ownerIdOf, type ProviderSettingOwner } from './provider-settings.ts';
import { type Reach, requireRole } from './reach.ts';
import { timestamp } from './timestamps.ts';

/** By their full names; null where none is chosen. */
export type ChosenModels = Pick<DefaultModelsShown, 'large' | 'small' | 'embed'>;

export interface TaggedDefaultModels {
  readonly models: DefaultModelsShown;
  readonly etag: string;
}

/** The owner is within reach; of an organization or a workspace the role that the operation asks for is needed. */
export interface DefaultModels {
  /** Throws `role_required`. */
  find(reach: Reach, owner: ProviderSettingOwner): Promise<TaggedDefaultModels>;
  /** Throws `role_required` or `precondition_failed`. */
  replace(
    reach: Reach,
    owner: ProviderSettingOwner,
    models: ChosenModels,
    ifMatch: string | undefined,
  ): Promise<TaggedDefaultModels>;
  /** Whether anybody at all has chosen. */
  any(): Promise<boolean>;
  /** What counts for a person's queries in a workspace, the nearest first. Their right to it has been checked. */
  forRuns(who: { readonly userId: string; readonly workspaceId: string }): Promise<readonly OwnedModels[]>;
}

export interface OwnedModels extends ChosenModels {
  readonly scope: DefaultModelsShown['scope'];
}

interface DefaultModelsRow extends ChosenModels {
  owner_id: string;
  scope: DefaultModelsShown['scope'];
  organization_id: string | null;
  workspace_id: string | null;
  user_id: string | null;
  revision: number;
  updated_at: number;
}

export function defaultModelsRepository({ database, clock }: StoreParts): DefaultModels {
  const now = (): number => clock.now().getTime();
  return {
    find: (reach, owner) =>
      database.read(reach, async (sql) => {
        const nothing = emptyRow(reach, owner);
        allow(reach, nothing);
        return toTagged((await rows(sql).where({ owner_id: nothing.owner_id }).first()) ?? nothing);
      }),
    replace: (reach, owner, { large, small, embed }, ifMatch) =>
      database.write(reach, async (sql) => {
        const nothing = emptyRow(reach, owner);
        const { owner_id } = nothing;
        allow(reach, nothing);
        // Two who choose for the first time wait for each other, too.
        await sql('default_models').insert(nothing).onConflict('owner_id').ignore();
        const before = (await rows(sql).where({ owner_id }).forUpdate().first()) ?? nothing;
        requireMatch(ifMatch, before);
        const revision = before.revision + 1;
        const row = { ...before, large, small, embed, revision, updated_at: now() };
        await rows(sql).where({ owner_id }).update(row);
        record(sql, reach, before, row);
        return toTagged(row);
      }),
    any: () =>
      database.read('installation', async (sql) => (await rows(sql).first('owner_id')) !== undefined),
    forRuns: ({ userId, workspaceId }) =>
      database.read('installation', async (sql) => {
        const organization = sql('workspaces').where({ id: workspaceId }).select('organization_id');
        const found = await rows(sql)
          .whereIn('owner_id', [userId, workspaceId])
          .orWhere('owner_id', organization)
          .select('scope', 'large', 'small', 'embed');
        return found.toSorted((one, other) => scopes.indexOf(one.scope) - scopes.indexOf(other.scope));
      }),
  };
}

const scopes: readonly DefaultModelsShown['scope'][] = ['user', 'workspace', 'organization'];

function rows(sql: Knex) {
  return sql<DefaultModelsRow>('default_models');
}

function emptyRow({ userId }: Reach, owner: ProviderSettingOwner): DefaultModelsRow {
  const { scope, organizationId, workspaceId } = owner;
  return {
    ...{ owner_id: ownerIdOf(owner, userId), scope },
    organization_id: organizationId,
    workspace_id: workspaceId,
    user_id: scope === 'user' ? userId : null,
    ...{ large: null, small: null, embed: null, revision: 0, updated_at: 0 },
  };
}

/** What is one's own needs no role. */
function allow(reach: Reach, { scope, organization_id, workspace_id }: DefaultModelsRow): void {
  if (scope === 'user') return;
  requireRole(reach, { organization_id: organization_id ?? '', workspace_id });
}

function record(
  sql: Knex.Transaction,
  reach: Reach,
  before: DefaultModelsRow,
  after: DefaultModelsRow,
): void {
  const { owner_id, scope, organization_id } = after;
  recordAudit(sql, reach, {
    action: 'default_models.replace',
    target: { type: scope, id: owner_id },
    // What a person chooses for themselves is shown where that person is at home.
    organizationId: organization_id ?? reach.organizationIds[0] ?? null,
    before: chosenIn(before),
    after: chosenIn(after),
  });
}

function chosenIn({ large, small, embed }: ChosenModels): ChosenModels {
  return { large, small, embed };
}

function toTagged(row: DefaultModelsRow): TaggedDefaultModels {
  const { scope, organization_id, workspace_id, revision, updated_at } = row;
  const models = { scope, organization_id, workspace_id, ...chosenIn(row) };
  return {
    models: { ...models, updated_at: revision === 0 ? null : timestamp(updated_at) },
    etag: etagOf(row),
  };
}
