/** Accounts: a person with an organization and a workspace of their own, made together or not at all. */
import type { Knex } from 'knex';
import type { MeUpdate, Role, User } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { emailKey } from './email-key.ts';
import { etagOf, requireMatch } from './etag.ts';
import { consumeInvitation, joinOrganization, type ShownToken } from './invitations.ts';
import { insertOrganization } from './organizations.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Origin, type Reach, requireWholeReach } from './reach.ts';
import { insertUser, type NewUser, nameKey, toUser, type UserRow, userRow } from './user-row.ts';

export interface NewAccount extends NewUser {
  /** Used up by the account; a bootstrap token makes it the operator. */
  readonly token?: ShownToken | undefined;
  /** A provider vouches for the address. */
  readonly addressProved?: boolean | undefined;
  /** Where the request came from; absent where the service makes the account itself. */
  readonly origin?: Origin | undefined;
  /** The organization that it joins; without it the account gets one of its own. */
  readonly joins?: { readonly organizationId: string; readonly role: Role } | null | undefined;
}

export interface TaggedUser {
  readonly user: User;
  readonly etag: string;
}

export interface Users {
  /**
   * Makes the account, and its organization (role owner) with a default workspace; with an invitation that leads into an
   * organization the account joins that one instead.
   * Throws `registration_refused` if the token is not good, `email_taken` if the address is, in that order.
   */
  createAccount(account: NewAccount): Promise<User>;
  /** For logging in: upper and lower case of the address are the same. */
  findForLogin(email: string): Promise<{ readonly user: User; readonly passwordHash: string } | null>;
  /** The caller's own account. */
  find(reach: Reach): Promise<TaggedUser | null>;
  /** Changes the caller's own account. Throws `role_required` or `precondition_failed`. */
  update(reach: Reach, patch: MeUpdate, ifMatch?: string | undefined): Promise<TaggedUser>;
  count(): Promise<number>;
  /** Whether somebody runs this installation. */
  hasOperator(): Promise<boolean>;
}

export function userRepository({ database, clock }: StoreParts): Users {
  return {
    createAccount: (account) =>
      database.write('installation', (sql) => insertAccount(sql, account, clock.now().getTime())),
    findForLogin: (email) =>
      database.read('installation', async (sql) => {
        const row = await sql<UserRow>('users')
          .where({ email_key: emailKey(email) })
          .first();
        return row ? { user: toUser(row), passwordHash: row.password_hash } : null;
      }),
    find: (reach) =>
      database.read(reach, async (sql) => {
        const row = await sql<UserRow>('users').where({ id: reach.userId }).first();
        return row ? tagged(row) : null;
      }),
    update: (reach, patch, ifMatch) =>
      database.write(reach, (sql) => updateUser(sql, reach, patch, ifMatch, clock.now().getTime())),
    count: () =>
      database.read('installation', async (sql) => {
        const [row] = await sql('users').count<{ count: number }[]>({ count: '*' });
        return row?.count ?? 0;
      }),
    hasOperator: () => database.read('installation', operatorExists),
  };
}

/** See `createAccount`; for what else happens in the same transaction. */
export async function insertAccount(sql: Knex.Transaction, account: NewAccount, now: number): Promise<User> {
  const user = { ...userRow(account, now), operator: account.token?.kind === 'bootstrap' };
  // The token first: who has none learns nothing about addresses.
  const invitation = account.token && (await consumeInvitation(sql, account.token, user));
  if (user.operator) await refuseSecondOperator(sql);
  const proved = user.operator || account.addressProved || (invitation?.mailed_at ?? null) !== null;
  await insertUser(sql, { ...user, address_proved_at: proved ? now : null });
  const actor = { userId: user.id, origin: account.origin };
  const own = { name: account.name, ownerId: user.id };
  const organizationId = account.joins
    ? await joinAtOnce(sql, user.id, account.joins, now)
    : invitation?.organization_id
      ? (await joinOrganization(sql, actor, invitation, now)).organization_id
      : await insertOrganization(sql, own, now);
  if (account.joins || invitation?.organization_id)
    await sql('users').where({ id: user.id }).update({ managed_by: organizationId });
  recordAudit(
    sql,
    { userId: account.origin ? user.id : null, origin: account.origin },
    {
      action: 'user.create',
      target: { type: 'user', id: user.id },
      organizationId,
      after: { email: user.email, name: user.name, operator: user.operator, with: account.token?.kind },
    },
  );
  return toUser(user);
}

/** The organization that whoever comes through a provider belongs to. */
async function joinAtOnce(
  sql: Knex.Transaction,
  userId: string,
  { organizationId, role }: NonNullable<NewAccount['joins']>,
  now: number,
): Promise<string> {
  if (!(await sql('organizations').where({ id: organizationId }).first('id')))
    throw new Problem(
      'registration_refused',
      'The organization that new accounts join is not there any more.',
    );
  await sql('memberships').insert({
    organization_id: organizationId,
    user_id: userId,
    role,
    created_at: now,
  });
  return organizationId;
}

/** Two servers that start at once may each have a bootstrap token out: the lock lets one account through. */
async function refuseSecondOperator(sql: Knex.Transaction): Promise<void> {
  await sql('installation').where({ id: 1 }).forUpdate().first();
  if (!(await operatorExists(sql))) return;
  throw new Problem('registration_refused', 'This installation has an operator already.');
}

async function operatorExists(sql: Knex): Promise<boolean> {
  // The condition as the index on operators has it: a bound value would not match it.
  return (await sql<UserRow>('users').whereRaw('operator = true').first('id')) !== undefined;
}

async function updateUser(
  sql: Knex.Transaction,
  reach: Reach,
  { name, avatar }: MeUpdate,
  ifMatch: string | undefined,
  now: number,
): Promise<TaggedUser> {
  requireWholeReach(reach);
  const { userId } = reach;
  const row = await sql<UserRow>('users').where({ id: userId }).forUpdate().first();
  if (!row) throw notFound('account');
  requireMatch(ifMatch, row);
  const changed = {
    name: name ?? row.name,
    name_key: nameKey(name ?? row.name),
    avatar: avatar === undefined ? row.avatar : avatar,
    revision: row.revision + 1,
    updated_at: now,
  };
  await sql<UserRow>('users').where({ id: userId }).update(changed);
  recordAudit(sql, reach, {
    action: 'user.update',
    target: { type: 'user', id: userId },
    organizationId: reach.organizationIds[0] ?? null,
    before: { name: row.name, avatar: row.avatar },
    after: { name: changed.name, avatar: changed.avatar },
  });
  return tagged({ ...row, ...changed });
}

function tagged(row: UserRow): TaggedUser {
  return { user: toUser(row), etag: etagOf(row) };
}
