/** Passwords: changed by who knows the old one, or by who has a link that is good once. */
import type { Knex } from 'knex';
import type { User } from '../contract/api.ts';
import { countOf, endLogins, proveAddress } from './address-proof.ts';
import { type AuditActor, recordAudit } from './audit.ts';
import { requestAtWork } from './kept-requests.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { mayStillShow, type ResetRow } from './shown-links.ts';
import { sweepTable } from './sweeps.ts';
import { toUser, type UserRow } from './user-row.ts';

/** A link to a new password as the store knows it: only its hash. */
export interface NewReset {
  readonly email: string;
  readonly hash: string;
  readonly expiresAt: Date;
  /** It goes to the address and is shown to nobody, so that whoever uses it shows that the address is theirs. */
  readonly mailed: boolean;
  /** Whose admins may make it; absent where the operator alone may. */
  readonly organizationId?: string | null | undefined;
}

/** What a link has done. */
export interface UsedReset {
  readonly user: User;
  /** Other ways in that went, since whoever made them had not shown that the address was theirs. */
  readonly removed: number;
}

export interface Passwords {
  /** The hash of the caller's own password; null where the account is gone. */
  find(reach: Reach): Promise<string | null>;
  /**
   * Sets the caller's own password, and ends their logins but the one that calls. False where the password is not the
   * one with this hash any more.
   */
  change(
    reach: Reach,
    hashes: { readonly from: string; readonly to: string },
    keepLoginId: string,
  ): Promise<boolean>;
  /**
   * Answers with the account that the link is for; null where the address has none. One that is shown ends those before
   * it; one that is mailed ends none, since anybody can ask for it.
   */
  addReset(reset: NewReset, actor: AuditActor): Promise<User | null>;
  /** Records that somebody asked for a link that nobody here can send. Null where the address has no account. */
  noteForgotten(email: string, actor: AuditActor): Promise<User | null>;
  /** Whether the link is good. */
  isOpen(hash: string, now: Date): Promise<boolean>;
  /**
   * Uses the link up: sets the password, ends every login and every other link of the account. Of several at once one
   * gets through; null for the others. The first one that came by mail to an address that nobody had proved takes the
   * API keys, the links with providers and the second factor, too: they may be those of somebody who made the account in
   * another's name.
   */
  reset(hash: string, passwordHash: string, actor: AuditActor, now: Date): Promise<UsedReset | null>;
  /** Forgets links that expired before; answers with how many there were. */
  prune(before: Date): Promise<number>;
}

export function passwordRepository({ database, clock }: StoreParts): Passwords {
  const now = (): number => clock.now().getTime();
  return {
    find: (reach) =>
      database.read(reach, async (sql) => {
        const row = await sql<UserRow>('users').where({ id: reach.userId }).first('password_hash');
        return row?.password_hash ?? null;
      }),
    // What was begun is no organization's: only the installation sees it.
    change: (reach, { from, to }, keepLoginId) =>
      database.write('installation', async (sql) => {
        if ((await setPassword(sql, { id: reach.userId, password_hash: from }, to)) === 0) return false;
        await endLogins(sql, reach.userId, now(), keepLoginId);
        recordAudit(sql, reach, { ...aboutUser(reach.userId), action: 'password.change' });
        return true;
      }),
    addReset: (link, actor) =>
      database.write('installation', async (sql) => {
        const user = await findUser(sql, link.email);
        if (!user) return null;
        if (!link.mailed) await sql<ResetRow>('password_resets').where({ user_id: user.id }).delete();
        await sql<ResetRow>('password_resets').insert(resetRow(user.id, link, actor, now()));
        recordAudit(sql, actor, { ...aboutUser(user.id), action: 'password_reset.create' });
        return toUser(user);
      }),
    noteForgotten: (email, actor) =>
      database.write('installation', async (sql) => {
        const user = await findUser(sql, email);
        if (!user) return null;
        recordAudit(sql, actor, { ...aboutUser(user.id), action: 'password_reset.request' });
        return toUser(user);
      }),
    isOpen: (hash, at) =>
      database.read('installation', async (sql) => {
        const row = await sql<ResetRow>('password_resets')
          .where({ hash })
          .where('expires_at', '>', at.getTime())
          .first('hash');
        return row !== undefined;
      }),
    reset: (hash, passwordHash, actor, at) =>
      database.write('installation', (sql) => reset(sql, hash, passwordHash, actor, at.getTime())),
    prune: (before) => sweepTable(database, 'password_resets', 'expires_at', before.getTime()),
  };
}

function resetRow(
  user_id: string,
  { hash, expiresAt, mailed, organizationId = null }: NewReset,
  { userId }: AuditActor,
  now: number,
): ResetRow {
  const request = mailed ? null : requestAtWork();
  return {
    ...{ hash, user_id, mailed, created_at: now, expires_at: expiresAt.getTime() },
    ...{ created_by: mailed ? null : userId, organization_id: organizationId },
    ...{ kept_for: request?.principalId ?? null, kept_key: request?.key ?? null },
  };
}

async function reset(
  sql: Knex.Transaction,
  hash: string,
  passwordHash: string,
  actor: AuditActor,
  now: number,
): Promise<UsedReset | null> {
  const link = await sql<ResetRow>('password_resets')
    .where({ hash })
    .where('expires_at', '>', now)
    .forUpdate()
    .first();
  if (!link || !(await mayStillShow(sql, link))) return null;
  if ((await setPassword(sql, { id: link.user_id }, passwordHash)) === 0) return null;
  await endLogins(sql, link.user_id, now);
  const row = await sql<UserRow>('users').where({ id: link.user_id }).first();
  if (!row) return null;
  const removed = link.mailed ? await proveAddress(sql, row.id, now) : {};
  recordAudit(
    sql,
    { ...actor, userId: row.id },
    { ...aboutUser(row.id), action: 'password.reset', after: removed },
  );
  return { user: toUser(row), removed: countOf(removed) };
}

/** A link that was made for the old password is good for no other. */
async function setPassword(
  sql: Knex.Transaction,
  which: Pick<UserRow, 'id'> & Partial<Pick<UserRow, 'password_hash'>>,
  passwordHash: string,
): Promise<number> {
  const changed = await sql<UserRow>('users').where(which).update({ password_hash: passwordHash });
  if (changed > 0) await sql<ResetRow>('password_resets').where({ user_id: which.id }).delete();
  return changed;
}

async function findUser(sql: Knex, email: string): Promise<UserRow | undefined> {
  return sql<UserRow>('users').where({ email_key: email.toLowerCase() }).first();
}

function aboutUser(userId: string) {
  return { target: { type: 'user', id: userId }, organizationId: null };
}
