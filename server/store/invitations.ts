/** One-time tokens: the bootstrap token of a new installation, and invitations to register or into an organization. */
import type { Knex } from 'knex';
import type {
  Invitation,
  InvitationCreate,
  Membership,
  OrganizationSettings,
  Role,
} from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { countOf, endLogins, proveAddress, type Removed } from './address-proof.ts';
import { type AuditActor, recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { emailKey } from './email-key.ts';
import { requireCovers } from './organization-roles.ts';
import { allowsAddress, domainRefused, organizationSettings } from './organization-settings.ts';
import { lockOrganization, type OrganizationRow, requireOrganization } from './organizations.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { covers, notFound, type Reach } from './reach.ts';
import { sweepTable } from './sweeps.ts';
import { timestamp } from './timestamps.ts';

/** `bootstrap` makes the operator; `invitation` lets a person in. */
export type InvitationKind = 'bootstrap' | 'invitation';

/** A token as the store knows it: only its hash. */
export interface InvitationToken {
  readonly kind: InvitationKind;
  readonly hash: string;
}

/** A token that somebody comes with, and when: by a clock that does not go back, or one that has expired is good again. */
export interface ShownToken extends InvitationToken {
  readonly at: Date;
}

/** An invitation that was made, and what its letter says. */
export interface NewInvitation {
  readonly invitation: Invitation;
  readonly organizationName: string;
}

export interface Invitations {
  /** One that leads into no organization: whoever registers with it gets one of their own. */
  add(token: InvitationToken & { readonly expiresAt: Date }): Promise<void>;
  /** Throws `registration_refused` where nobody can use the token; whom it is for is asked where it is used up. */
  requireOpen(token: ShownToken): Promise<void>;
  /** Whether a bootstrap token waits to be used. */
  hasOpenBootstrap(): Promise<boolean>;
  /** Ends unused tokens of a kind, so that a lost one can be replaced. Answers with how many there were. */
  withdraw(kind: InvitationKind): Promise<number>;
  /** Those of an organization, the newest first. Throws `not_found` or `role_required`. */
  list(reach: Reach, organizationId: string, query: PageQuery): Promise<Page<Invitation>>;
  /** Throws `not_found`, `role_required`, `email_domain_refused`, `already_member` or `already_invited`. */
  create(
    reach: Reach,
    organizationId: string,
    input: InvitationCreate & { readonly hash: string },
  ): Promise<NewInvitation>;
  /** That it went to its address and to nobody else: whoever uses it has shown that the address is theirs. */
  noteMailed(reach: Reach, organizationId: string, id: string): Promise<void>;
  /** Throws `not_found` or `role_required`. */
  revoke(reach: Reach, organizationId: string, id: string): Promise<void>;
  /**
   * Joins the organization. One that was mailed shows that the address is the person's: then `removed` counts the other
   * ways into the account that went. Throws `invitation_gone` or `already_member`.
   */
  accept(
    reach: Reach,
    hash: string,
    now: Date,
  ): Promise<{ readonly membership: Membership; readonly removed: number }>;
  /** Forgets tokens that expired before, used or not; answers with how many there were. */
  prune(before: Date): Promise<number>;
}

export interface InvitationRow {
  id: string;
  hash: string;
  kind: InvitationKind;
  organization_id: string | null;
  email: string | null;
  email_key: string | null;
  role: Role | null;
  invited_by: string | null;
  created_at: number;
  expires_at: number;
  used_at: number | null;
  used_by: string | null;
  mailed_at: number | null;
}

/** One of an organization: the database holds all of these or none. */
interface OwnedRow extends InvitationRow {
  organization_id: string;
  email: string;
  email_key: string;
  role: Role;
  invited_by: string;
}

const dayMs = 86_400_000;

export function invitationRepository({ database, clock, cursors }: StoreParts): Invitations {
  const now = (): number => clock.now().getTime();
  return {
    add: ({ kind, hash, expiresAt }) =>
      database.write('installation', async (sql) => {
        const id = newId('invitation');
        const times = { created_at: now(), expires_at: expiresAt.getTime() };
        await sql('invitations').insert({ id, hash, kind, ...times });
        recordAudit(
          sql,
          { userId: null },
          {
            action: 'invitation.create',
            target: { type: 'invitation', id },
            organizationId: null,
            after: { kind, expires_at: expiresAt },
          },
        );
      }),
    requireOpen: (token) =>
      database.read('installation', async (sql) => {
        if (!(await openInvitation(sql, token).first('id'))) throw notOpen();
      }),
    hasOpenBootstrap: () =>
      database.read('installation', async (sql) => {
        const open = await sql<InvitationRow>('invitations')
          .where({ kind: 'bootstrap', used_at: null })
          .where('expires_at', '>', now())
          .first('hash');
        return open !== undefined;
      }),
    withdraw: (kind) =>
      database.write('installation', (sql) =>
        sql<InvitationRow>('invitations').where({ kind, organization_id: null, used_at: null }).delete(),
      ),
    list: (reach, organizationId, query) =>
      database.read(reach, async (sql) => {
        requireOrganization(reach, organizationId);
        const filters = { organization_id: organizationId };
        const listing = {
          name: 'invitations',
          reach,
          filters,
          columns: ['created_at', 'id'],
          direction: 'desc',
          parts: [sql('invitations').where(filters)],
        } as const;
        const { data, next_cursor } = await readPage<OwnedRow>(sql, cursors, listing, query);
        return { data: data.map((row) => toInvitation(row, now())), next_cursor };
      }),
    create: (reach, organizationId, input) =>
      database
        .write(reach, (sql) => insertInvitation(sql, reach, organizationId, input, now()))
        .catch((error: unknown) => {
          throw isDuplicate(error) ? alreadyInvited() : error;
        }),
    noteMailed: (reach, organizationId, id) =>
      database.write(reach, async (sql) => {
        await sql<InvitationRow>('invitations')
          .where({ id, organization_id: organizationId })
          .update({ mailed_at: now() });
      }),
    revoke: (reach, organizationId, id) =>
      database.write(reach, async (sql) => {
        requireOrganization(reach, organizationId);
        const which = { id, organization_id: organizationId };
        const row = await sql<OwnedRow>('invitations').where(which).forUpdate().first();
        if (!row) throw notFound('invitation');
        await sql('invitations').where(which).delete();
        audit(sql, reach, row, 'revoke');
      }),
    // Whoever accepts does not belong to the organization yet, so that no scope of theirs holds it.
    accept: (reach, hash, at) =>
      database.write('installation', async (sql) => {
        const user = await sql<{ id: string; email_key: string }>('users')
          .where({ id: reach.userId })
          .first();
        const used = user && (await useInvitation(sql, { kind: 'invitation', hash, at }, user));
        // One that leads nowhere is for those who have no account yet.
        if (!used?.organization_id) throw gone();
        const removed = used.mailed_at === null ? {} : await proveBy(sql, reach, at.getTime());
        const membership = await joinOrganization(sql, reach, used, at.getTime(), removed);
        return { membership, removed: countOf(removed) };
      }),
    prune: (before) => sweepTable(database, 'invitations', 'expires_at', before.getTime()),
  };
}

/** The login that accepts with what went to the address is the owner's. */
async function proveBy(sql: Knex.Transaction, { userId, origin }: Reach, now: number): Promise<Removed> {
  const loginId = origin?.credential?.id;
  const removed = await proveAddress(sql, userId, now, loginId);
  if (Object.keys(removed).length > 0) await endLogins(sql, userId, now, loginId);
  return removed;
}

/** Uses a token up inside the transaction of a registration; of many at once, one gets through. */
export async function consumeInvitation(
  sql: Knex.Transaction,
  token: ShownToken,
  user: { readonly id: string; readonly email_key: string },
): Promise<InvitationRow> {
  const used = await useInvitation(sql, token, user);
  if (!used) throw notOpen();
  return used;
}

function notOpen(): Problem {
  return new Problem(
    'registration_refused',
    'The token is unknown, expired, used, or for another address; ask whoever gave it to you for a new one.',
  );
}

function openInvitation(sql: Knex, { kind, hash, at }: ShownToken) {
  return sql<InvitationRow>('invitations')
    .where({ hash, kind, used_at: null })
    .where('expires_at', '>', at.getTime());
}

/** Makes the person a member of the organization that the invitation, used up before, is from. */
export async function joinOrganization(
  sql: Knex.Transaction,
  actor: AuditActor & { readonly userId: string },
  { id, organization_id, role }: InvitationRow,
  now: number,
  removed: Removed = {},
): Promise<Membership> {
  const organization = await sql('organizations')
    .join('workspaces', (join) =>
      join.on('workspaces.organization_id', 'organizations.id').onVal('workspaces.is_default', true),
    )
    .where('organizations.id', organization_id)
    .first<{ name: string; workspace_id: string }>('organizations.name', { workspace_id: 'workspaces.id' });
  if (!organization || organization_id === null || role === null) throw gone();
  await sql('memberships')
    .insert({ organization_id, user_id: actor.userId, role, revision: 1, created_at: now })
    .catch((error: unknown) => {
      throw isDuplicate(error) ? alreadyMember() : error;
    });
  recordAudit(sql, actor, {
    action: 'invitation.accept',
    target: { type: 'invitation', id },
    organizationId: organization_id,
    after: { user_id: actor.userId, role, ...removed },
  });
  return {
    organization_id,
    organization_name: organization.name,
    role,
    default_workspace_id: organization.workspace_id,
  };
}

/** Undefined where the token is not good for this person. */
async function useInvitation(
  sql: Knex.Transaction,
  token: ShownToken,
  user: { readonly id: string; readonly email_key: string },
): Promise<InvitationRow | undefined> {
  const row = await openInvitation(sql, token).forUpdate().first();
  if (!row || !(await isGood(sql, row, user.email_key))) return undefined;
  await sql<InvitationRow>('invitations')
    .where({ id: row.id })
    .update({ used_at: token.at.getTime(), used_by: user.id });
  return row;
}

/** Whoever invited must still be allowed to, and whoever comes must be the one who was meant. */
async function isGood(sql: Knex.Transaction, row: InvitationRow, key: string): Promise<boolean> {
  const { organization_id, invited_by, role } = row;
  if (organization_id === null || role === null) return true;
  if (row.email_key !== key) return false;
  const organization = await sql<OrganizationRow>('organizations').where({ id: organization_id }).first();
  const inviter = await roleOf(sql, organization_id, invited_by ?? '');
  return (
    organization !== undefined &&
    allowsAddress(organizationSettings(organization), key) &&
    inviter !== undefined &&
    covers(inviter, 'admin') &&
    covers(inviter, role)
  );
}

/** Whoever is suspended has no role that counts. */
async function roleOf(
  sql: Knex.Transaction,
  organization_id: string,
  user_id: string,
): Promise<Role | undefined> {
  const row = await sql('memberships')
    .join('users', 'users.id', 'memberships.user_id')
    .where({ organization_id, user_id, 'users.status': 'active' })
    .first<{ role: Role }>('role');
  return row?.role;
}

async function insertInvitation(
  sql: Knex.Transaction,
  reach: Reach,
  organizationId: string,
  input: InvitationCreate & { readonly hash: string },
  now: number,
): Promise<NewInvitation> {
  const organization = await lockOrganization(sql, reach, organizationId);
  const settings = organizationSettings(organization);
  const row = invitationRow(reach, organizationId, input, settings, now);
  await requireInviter(sql, reach, row);
  if (!allowsAddress(settings, row.email_key)) throw domainRefused(settings);
  await refuseMember(sql, row);
  // One that nobody can accept any more stands in nobody's way.
  await sql('invitations')
    .where({ organization_id: organizationId, email_key: row.email_key, used_at: null })
    .where('expires_at', '<=', now)
    .delete();
  await sql('invitations').insert(row);
  audit(sql, reach, row, 'create');
  return { invitation: toInvitation(row, now), organizationName: organization.name };
}

function invitationRow(
  { userId }: Reach,
  organizationId: string,
  { email, role, expires_at, hash }: InvitationCreate & { readonly hash: string },
  settings: OrganizationSettings,
  now: number,
): OwnedRow {
  return {
    id: newId('invitation'),
    hash,
    kind: 'invitation',
    organization_id: organizationId,
    email,
    email_key: emailKey(email),
    role: role ?? settings.invitation_role,
    invited_by: userId,
    created_at: now,
    expires_at: expires_at === undefined ? now + settings.invitation_days * dayMs : Date.parse(expires_at),
    used_at: null,
    used_by: null,
    mailed_at: null,
  };
}

/** By the role that the caller has now, while nobody can change it. */
async function requireInviter(sql: Knex.Transaction, reach: Reach, { organization_id, role }: OwnedRow) {
  const own = await roleOf(sql, organization_id, reach.userId);
  if (!own) throw notFound('organization');
  requireCovers(own, 'admin');
  requireCovers(own, role);
}

async function refuseMember(sql: Knex.Transaction, { organization_id, email_key }: OwnedRow): Promise<void> {
  const member = await sql('users')
    .join('memberships', 'memberships.user_id', 'users.id')
    .where({ 'users.email_key': email_key, 'memberships.organization_id': organization_id })
    .first('users.id');
  if (member) throw alreadyMember();
}

function alreadyMember(): Problem {
  return new Problem('already_member', 'The person with this address belongs to the organization already.');
}

function alreadyInvited(): Problem {
  return new Problem(
    'already_invited',
    'There is an invitation for this address; revoke it first to send another.',
  );
}

/** The same for every reason, so that a token that was found or guessed tells nothing. */
function gone(): Problem {
  return new Problem(
    'invitation_gone',
    'The invitation is unknown, used, revoked or expired, or is for another address than that of this account.',
  );
}

function audit(sql: Knex.Transaction, reach: Reach, row: OwnedRow, what: 'create' | 'revoke'): void {
  const values = { email: row.email, role: row.role, expires_at: timestamp(row.expires_at) };
  recordAudit(sql, reach, {
    action: `invitation.${what}`,
    target: { type: 'invitation', id: row.id },
    organizationId: row.organization_id,
    ...(what === 'create' ? { after: values } : { before: values }),
  });
}

function toInvitation(row: OwnedRow, now: number): Invitation {
  return {
    id: row.id,
    organization_id: row.organization_id,
    email: row.email,
    role: row.role,
    status: row.used_at !== null ? 'accepted' : row.expires_at > now ? 'pending' : 'expired',
    invited_by: row.invited_by,
    created_at: timestamp(row.created_at),
    expires_at: timestamp(row.expires_at),
  };
}
