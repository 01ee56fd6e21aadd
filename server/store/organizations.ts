/** Organizations: made with a default workspace and an owner, and deleted with all that they own. */
import type { Knex } from 'knex';
import type { Organization, OrganizationCreate, OrganizationUpdate } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { deleteSessions, emptyCorpora } from './delete-in-parts.ts';
import { noteDeletedWorkspaces } from './deleted-workspaces.ts';
import { despiteDeadlocks } from './despite-deadlocks.ts';
import { etagOf, requireMatch } from './etag.ts';
import { holdItemsAtWork } from './ingestion-rows.ts';
import { listAll, listOwn, type OwnRow, ownOrganizations, toOrganization } from './organization-list.ts';
import { organizationSettings, settingsText } from './organization-settings.ts';
import type { Page, PageQuery } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole, requireWholeReach } from './reach.ts';
import { withdrawLinksIn } from './shown-links.ts';

export interface TaggedOrganization {
  readonly organization: Organization;
  readonly etag: string;
}

export interface Organizations {
  /** Those that the caller belongs to, the oldest membership first; `all` of them for the operator. Throws `role_required`. */
  list(reach: Reach, query: PageQuery & { readonly all?: boolean }): Promise<Page<Organization>>;
  /** The caller becomes its owner. Throws `role_required`, `slug_taken` or `organization_limit`. */
  create(reach: Reach, input: OrganizationCreate): Promise<TaggedOrganization>;
  find(reach: Reach, id: string): Promise<TaggedOrganization | null>;
  /** A merge patch. Throws `not_found`, `precondition_failed` or `slug_taken`. */
  update(
    reach: Reach,
    id: string,
    patch: OrganizationUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedOrganization>;
  /**
   * With all that belongs to it. Throws `not_found`, `precondition_required`, `precondition_failed`,
   * `only_organization` or `runs_active`.
   */
  delete(reach: Reach, id: string, ifMatch: string | undefined): Promise<DeletedOrganization>;
}

/** What lies outside of the database, and belongs to nobody any more. */
export interface DeletedOrganization {
  /** Its workspaces whose folders are their own. */
  readonly workspaceIds: readonly string[];
  readonly sessionIds: readonly string[];
}

export interface OrganizationRow {
  id: string;
  name: string;
  slug: string;
  settings: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

interface NewOrganization {
  readonly name: string;
  readonly ownerId: string;
  /** Made from the name if absent. */
  readonly slug?: string;
  /** The column. */
  readonly settings?: string;
}

/** Each request reads all memberships of its caller: what one person makes of them has an end. */
const mostOwned = 100;

export function organizationRepository({ database, clock, cursors }: StoreParts): Organizations {
  const now = (): number => clock.now().getTime();
  return {
    list: (reach, { all = false, ...page }) =>
      all ? listAll(database, cursors, reach, page) : listOwn(database, cursors, reach, page),
    // The caller does not belong to it yet, so that no scope of theirs holds it.
    create: (reach, input) =>
      database.write('installation', (sql) => createOrganization(sql, reach, input, now())),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        if (!reach.organizationIds.includes(id)) return null;
        const row = await findOwn(sql, reach, id);
        return row ? tagged(row) : null;
      }),
    update: (reach, id, patch, ifMatch) =>
      database
        .write(reach, async (sql) => {
          const row = await lockOrganization(sql, reach, id);
          requireMatch(ifMatch, row);
          const changes = patchedColumns(row, patch, now());
          await sql<OrganizationRow>('organizations').where({ id }).update(changes);
          const { name, slug, settings } = { ...row, ...changes };
          recordAudit(sql, reach, {
            action: 'organization.update',
            target: { type: 'organization', id },
            organizationId: id,
            before: { name: row.name, slug: row.slug, settings: organizationSettings(row) },
            after: { name, slug, settings: organizationSettings({ settings }) },
          });
          return tagged(await requireOwn(sql, reach, id));
        })
        .catch((error: unknown) => {
          throw isDuplicate(error) ? slugTaken(patch.slug) : error;
        }),
    delete: (reach, id, ifMatch) =>
      despiteDeadlocks(() =>
        database.write(reach, async (sql) => {
          requireOrganization(reach, id);
          await holdContents(sql, [id]);
          const isOnly = await isOnlyOne(sql, reach);
          const row = await lockOrganization(sql, reach, id);
          if (ifMatch === undefined) throw ifMatchRequired();
          requireMatch(ifMatch, row);
          if (isOnly) throw onlyOrganization();
          return removeOrganization(sql, reach, row);
        }),
      ),
  };
}

/** Counted while the person is held: of two that they delete at once one stays. */
async function isOnlyOne(sql: Knex.Transaction, { userId }: Reach): Promise<boolean> {
  await sql('users').where({ id: userId }).forNoKeyUpdate().first('id');
  const own = await sql('memberships').where({ user_id: userId }).limit(2).select('organization_id');
  return own.length < 2;
}

/** Refuses whoever does not belong to the organization, or lacks there the role that the operation asks for. */
export function requireOrganization(reach: Reach, id: string): void {
  if (!reach.organizationIds.includes(id)) throw notFound('organization');
  requireRole(reach, { organization_id: id, workspace_id: null });
}

/**
 * The organization until the transaction ends: who may do what in it changes one after the other. Rows that refer to it
 * can be written meanwhile.
 */
export async function lockOrganization(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
): Promise<OrganizationRow> {
  requireOrganization(reach, id);
  const row = await holdOrganization(sql, id);
  if (!row) throw notFound('organization');
  return row;
}

/** The same for who acts without belonging to it. */
export async function holdOrganization(
  sql: Knex.Transaction,
  id: string,
): Promise<OrganizationRow | undefined> {
  return sql<OrganizationRow>('organizations').where({ id }).forNoKeyUpdate().first();
}

/** Deletes it with all that belongs to it. Throws `runs_active`. */
export async function removeOrganization(
  sql: Knex.Transaction,
  reach: Reach,
  { id, name, slug }: OrganizationRow,
): Promise<DeletedOrganization> {
  await refuseWhileRunning(sql, id);
  const theirs = { organization_id: id };
  const sessionIds: string[] = await sql('sessions').where(theirs).pluck('id');
  const workspaceIds: string[] = await sql('workspaces')
    .where({ ...theirs, path: null })
    .pluck('id');
  const gone = await contentsOf(sql, id);
  await emptyCorpora(sql, theirs);
  await deleteSessions(sql, sessionIds);
  await withdrawLinksIn(sql, id);
  await noteDeletedWorkspaces(sql, theirs);
  await sql<OrganizationRow>('organizations').where({ id }).delete();
  recordAudit(sql, reach, {
    action: 'organization.delete',
    target: { type: 'organization', id },
    organizationId: id,
    before: { name, slug, ...gone, sessions: sessionIds.length },
  });
  return { workspaceIds, sessionIds };
}

/**
 * Sessions are locked before all else, as everywhere, and what is being taken into corpora after them: two transactions
 * then never wait for each other.
 */
export async function holdContents(sql: Knex.Transaction, organizationIds: readonly string[]): Promise<void> {
  await sql('sessions')
    .whereIn('organization_id', [...organizationIds])
    .orderBy('id')
    .forUpdate()
    .pluck('id');
  for (const organization_id of organizationIds) await holdItemsAtWork(sql, { organization_id });
}

/** Makes an organization with its owner and its default workspace. Throws `slug_taken` where it was given one. */
export async function insertOrganization(
  sql: Knex.Transaction,
  { name, ownerId, slug, settings = '{}' }: NewOrganization,
  now: number,
): Promise<string> {
  const id = newId('organization');
  const times = { created_at: now, updated_at: now };
  const row = { ...times, id, name, settings, revision: 1 };
  if (!(await insertWithSlug(sql, row, slug ?? slugFrom(name)))) {
    if (slug !== undefined) throw slugTaken(slug);
    // The end of its own id, which nobody else has.
    await insertWithSlug(sql, row, `${slugFrom(name)}-${id.slice(-8)}`);
  }
  await sql('memberships').insert({
    organization_id: id,
    user_id: ownerId,
    role: 'owner',
    revision: 1,
    created_at: now,
  });
  await sql('workspaces').insert({
    ...times,
    id: newId('workspace'),
    organization_id: id,
    name: 'Default',
    is_default: true,
  });
  return id;
}

/** A refusal would end the whole transaction on PostgreSQL: false where another organization has the slug. */
async function insertWithSlug(sql: Knex.Transaction, row: object, slug: string): Promise<boolean> {
  const made = await sql('organizations')
    .insert({ ...row, slug })
    .onConflict('slug')
    .ignore()
    .returning('id');
  return made.length > 0;
}

async function createOrganization(
  sql: Knex.Transaction,
  reach: Reach,
  { settings = {}, ...given }: OrganizationCreate,
  now: number,
): Promise<TaggedOrganization> {
  requireWholeReach(reach);
  // Whoever deletes the account at this moment waits, and finds the organization; who makes another counts it.
  if (!(await sql('users').where({ id: reach.userId }).forNoKeyUpdate().first('id')))
    throw new Problem('credential_invalid', 'The account of this credential was deleted.');
  await refuseTooMany(sql, reach);
  const made = { ...given, ownerId: reach.userId, settings: settingsText('{}', settings) };
  const id = await insertOrganization(sql, made, now);
  const own = await requireOwn(sql, reach, id);
  recordAudit(sql, reach, {
    action: 'organization.create',
    target: { type: 'organization', id },
    organizationId: id,
    after: { name: own.name, slug: own.slug, settings: organizationSettings(own) },
  });
  return tagged(own);
}

function slugFrom(name: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, 50);
  return slug.replaceAll(/^-+|-+$/g, '') || 'organization';
}

async function refuseTooMany(sql: Knex.Transaction, { userId }: Reach): Promise<void> {
  const owned = await sql('memberships')
    .where({ user_id: userId, role: 'owner' })
    .limit(mostOwned)
    .select('organization_id');
  if (owned.length < mostOwned) return;
  throw new Problem('organization_limit', `You own ${mostOwned} organizations already; delete one first.`);
}

async function refuseWhileRunning(sql: Knex.Transaction, organizationId: string): Promise<void> {
  const [row] = await sql('runs')
    .where({ organization_id: organizationId, ended_at: null })
    .count<{ count: number }[]>({ count: '*' });
  const count = Number(row?.count ?? 0);
  if (count === 0) return;
  const subject = count === 1 ? '1 run is' : `${count} runs are`;
  throw new Problem(
    'runs_active',
    `${subject} at work in the organization; interrupt them first, or wait until they end.`,
  );
}

/** What goes with an organization, in numbers: for the audit log, which outlives it. */
async function contentsOf(sql: Knex.Transaction, organizationId: string): Promise<Record<string, number>> {
  const counted: Record<string, number> = {};
  for (const table of ['memberships', 'workspaces', 'groups']) {
    const [row] = await sql(table)
      .where({ organization_id: organizationId })
      .count<{ count: number }[]>({ count: '*' });
    counted[table] = Number(row?.count ?? 0);
  }
  return counted;
}

async function findOwn(sql: Knex, reach: Reach, id: string): Promise<OwnRow | undefined> {
  return ownOrganizations(sql, reach, [id]).first();
}

async function requireOwn(sql: Knex, reach: Reach, id: string): Promise<OwnRow> {
  const row = await findOwn(sql, reach, id);
  if (!row) throw notFound('organization');
  return row;
}

function patchedColumns(row: OrganizationRow, { settings, ...columns }: OrganizationUpdate, now: number) {
  return {
    ...columns,
    ...(settings && { settings: settingsText(row.settings, settings) }),
    revision: row.revision + 1,
    updated_at: now,
  };
}

function slugTaken(slug: string | undefined): Problem {
  return new Problem('slug_taken', `There is an organization ${slug} already; choose another slug.`);
}

function ifMatchRequired(): Problem {
  return new Problem(
    'precondition_required',
    'This deletes all that the organization owns: read the organization, and send its ETag in If-Match.',
  );
}

function onlyOrganization(): Problem {
  return new Problem(
    'only_organization',
    'This is your only organization; create another first, so that you have a place to work in.',
  );
}

function tagged(row: OwnRow): TaggedOrganization {
  return { organization: toOrganization(row), etag: etagOf(row) };
}
