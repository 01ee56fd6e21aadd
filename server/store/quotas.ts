/** Quotas: set by admins and the operator, and read by whom they bind. */
import type { Knex } from 'knex';
import type { Quota, QuotaLimits, QuotaUse } from '../contract/api.ts';
import { recordAudit } from './audit.ts';
import { etagOf, requireMatch, requireTag } from './etag.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateBefore, refuseExceeded } from './quota-check.ts';
import type { QuotaRow } from './quota-rows.ts';
import { type QuotaAdmin, type QuotaScope, type QuotaSubject, scopeOf } from './quota-subjects.ts';
import { usesOf } from './quota-use.ts';
import { notFound, type Reach, wholeOrganizations } from './reach.ts';
import { timestamp } from './timestamps.ts';

export interface TaggedQuota {
  readonly quota: Quota;
  /** Of the limits alone: what is used changes all the time. */
  readonly etag: string;
}

export interface Quotas {
  /** Every limit that binds the caller, and the key that asks. */
  effective(reach: Reach, apiKeyId: string | null): Promise<QuotaUse[]>;
  /** Throws `not_found` or `role_required`. */
  find(admin: QuotaAdmin, subject: QuotaSubject): Promise<TaggedQuota>;
  /** Throws `not_found`, `role_required` or `precondition_failed`. */
  put(
    admin: QuotaAdmin,
    subject: QuotaSubject,
    limits: QuotaLimits,
    ifMatch?: string | undefined,
  ): Promise<TaggedQuota>;
  /** Throws `not_found`, `role_required` or `precondition_failed`. */
  delete(admin: QuotaAdmin, subject: QuotaSubject, ifMatch?: string | undefined): Promise<void>;
  /** Refuses with `quota_exceeded` what would be one too many in the workspace, before anything is stored for it. */
  refuseExceeded(
    reach: Reach,
    place: { readonly organizationId: string; readonly workspaceId: string },
    apiKeyId: string | null,
  ): Promise<void>;
}

// Quotas that hold everywhere belong to no organization, and what is used under them stands in several: the queries
// below therefore ask for the rows of the installation, with ownership in each.
export function quotaRepository({ database, clock }: StoreParts): Quotas {
  const now = (): number => clock.now().getTime();
  return {
    effective: (reach, apiKeyId) =>
      database.read('installation', async (sql) => {
        const uses: QuotaUse[] = [];
        for (const row of await boundBy(sql, reach, apiKeyId)) uses.push(...(await usesOf(sql, row, now())));
        return uses;
      }),
    find: (admin, subject) =>
      database.read('installation', async (sql) => toTagged(sql, await require(sql, admin, subject), now())),
    put: (admin, subject, limits, ifMatch) =>
      database.write('installation', async (sql) => {
        const row = await save(sql, admin, subject, limits, ifMatch, now());
        return toTagged(sql, row, now());
      }),
    delete: (admin, subject, ifMatch) =>
      database.write('installation', async (sql) => {
        const row = await require(sql, admin, subject, true);
        requireMatch(ifMatch, row);
        await sql<QuotaRow>('quotas').where(keyOf(row)).delete();
        recordAudit(sql, admin, {
          action: 'quota.delete',
          target: { type: row.subject_type, id: row.subject_id },
          organizationId: row.organization_id,
          before: { limits: JSON.parse(row.limits) },
        });
      }),
    refuseExceeded: ({ userId }, place, apiKeyId) =>
      database.read('installation', async (sql) => {
        refuseExceeded(await quotaStateBefore(sql, { ...place, userId, apiKeyId }, now()), now());
      }),
  };
}

/** In the order of their subjects. */
async function boundBy(sql: Knex, reach: Reach, apiKeyId: string | null): Promise<QuotaRow[]> {
  const { userId, organizationIds, workspaces } = reach;
  const groups = sql('group_members')
    .where({ user_id: userId })
    .whereIn('organization_id', [...organizationIds])
    .select('group_id');
  const ids = [userId, ...(apiKeyId === null ? [] : [apiKeyId]), ...organizationIds];
  const rows = await sql<QuotaRow>('quotas')
    .where((bound) =>
      bound
        .whereIn('subject_id', [...ids, ...workspaces.map(({ id }) => id)])
        .orWhereIn('subject_id', groups)
        // Whoever has all of an organization is bound in each workspace of it that they work in.
        .orWhere((ofWorkspace) =>
          ofWorkspace
            .where({ subject_type: 'workspace' })
            .whereIn('organization_id', wholeOrganizations(reach)),
        ),
    )
    .whereIn('scope', ['', ...organizationIds])
    .select<QuotaRow[]>();
  return rows.sort((a, b) => `${a.subject_id} ${a.scope}`.localeCompare(`${b.subject_id} ${b.scope}`));
}

/** Held against other writers where it is to change. */
async function require(sql: Knex, admin: QuotaAdmin, subject: QuotaSubject, lock = false): Promise<QuotaRow> {
  const { scope } = await scopeOf(sql, admin, subject);
  const query = sql<QuotaRow>('quotas').where({ subject_id: subject.id, scope });
  const row = await (lock ? query.forUpdate() : query).first();
  if (!row) throw notFound('quota');
  return row;
}

async function save(
  sql: Knex.Transaction,
  admin: QuotaAdmin,
  subject: QuotaSubject,
  limits: QuotaLimits,
  ifMatch: string | undefined,
  now: number,
): Promise<QuotaRow> {
  const fresh = newRow(subject, await scopeOf(sql, admin, subject), JSON.stringify(limits), now);
  const key = keyOf(fresh);
  const before = await insertOrHold(sql, fresh);
  requireTag(ifMatch, before ? etagOf(before) : null);
  const row = before
    ? { ...before, limits: fresh.limits, revision: before.revision + 1, updated_at: now }
    : fresh;
  if (before) await sql<QuotaRow>('quotas').where(key).update(row);
  recordAudit(sql, admin, {
    action: 'quota.put',
    target: { type: subject.type, id: subject.id },
    organizationId: row.organization_id,
    ...(before && { before: { limits: JSON.parse(before.limits) } }),
    after: { limits: JSON.parse(row.limits) },
  });
  return row;
}

/** The one that is there already, held; null where it was made. Of two who set it at once, one comes after the other. */
async function insertOrHold(sql: Knex.Transaction, fresh: QuotaRow): Promise<QuotaRow | null> {
  for (;;) {
    const made = await sql<QuotaRow>('quotas')
      .insert(fresh)
      .onConflict(['subject_id', 'scope'])
      .ignore()
      .returning('scope');
    if (made.length > 0) return null;
    // It may be deleted in between: then there is none to change, and one is to be made.
    const held = await sql<QuotaRow>('quotas').where(keyOf(fresh)).forUpdate().first();
    if (held) return held;
  }
}

function newRow(
  { type, id }: QuotaSubject,
  { scope, organizationId }: QuotaScope,
  limits: string,
  now: number,
): QuotaRow {
  return {
    subject_id: id,
    scope,
    subject_type: type,
    organization_id: organizationId,
    user_id: type === 'user' ? id : null,
    group_id: type === 'group' ? id : null,
    workspace_id: type === 'workspace' ? id : null,
    api_key_id: type === 'api_key' ? id : null,
    limits,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

function keyOf({ subject_id, scope }: QuotaRow): Pick<QuotaRow, 'subject_id' | 'scope'> {
  return { subject_id, scope };
}

async function toTagged(sql: Knex, row: QuotaRow, now: number): Promise<TaggedQuota> {
  const { subject_type, subject_id, organization_id } = row;
  const quota = {
    ...{ subject_type, subject_id, organization_id },
    limits: JSON.parse(row.limits),
    use: await usesOf(sql, row, now),
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
  return { quota, etag: etagOf(row) };
}
