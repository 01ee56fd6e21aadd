/** Logins through OpenID Connect providers: attempts, the codes that end them, and who is who at which provider. */
import type { Knex } from 'knex';
import type { OidcIdentity as ContractIdentity, User } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { homeOf, recordAudit } from './audit.ts';
import { holdCredential, holdLogin } from './hold-credential.ts';
import type { StoreParts } from './parts.ts';
import { type Origin, type Reach, requireWholeReach } from './reach.ts';
import { sweepTable } from './sweeps.ts';
import { timestamp } from './timestamps.ts';
import { holdUnchanged, toUserThen, type UserRow, type UserThen } from './user-row.ts';
import { insertAccount, type NewAccount } from './users.ts';

/** Who somebody is at a provider. */
export interface OidcIdentity {
  readonly issuer: string;
  readonly subject: string;
}

/** One attempt of one browser, as the store knows it: hashes of what only the browser has. */
export interface OidcAttempt {
  readonly stateHash: string;
  readonly browserHash: string;
  readonly provider: string;
  readonly returnTo: string;
  /** Whose account the answer is to be linked to; null for a login. */
  readonly userId: string | null;
  /** With the login that links it, which has to go on until it is linked. */
  readonly origin?: Origin | undefined;
  readonly expiresAt: Date;
}

export interface OidcCode {
  readonly codeHash: string;
  readonly browserHash: string;
  readonly userId: string;
  readonly expiresAt: Date;
}

export interface Oidc {
  /** Throws `credential_invalid` where the login that is to link it has ended. */
  begin(attempt: OidcAttempt): Promise<void>;
  /** Uses an attempt up; null where there is none of this browser and provider, or it has expired. */
  take(
    which: Pick<OidcAttempt, 'stateHash' | 'browserHash' | 'provider'>,
    now: Date,
  ): Promise<TakenAttempt | null>;
  /** Notes that they came. */
  userOf(identity: OidcIdentity, now: Date): Promise<User | null>;
  /** Makes an account and links it, all or nothing. Throws `email_taken`, `registration_refused`, or `duplicate` where it is linked by now. */
  createAccount(account: NewAccount, identity: OidcIdentity, origin: Origin): Promise<User>;
  /** `other` where it is linked to another account, `changed` where the account has another password, or the login has ended, by now. */
  link(
    identity: OidcIdentity,
    account: AttemptAccount,
    origin: Origin,
  ): Promise<'linked' | 'other' | 'changed'>;
  /** The caller's own at an issuer, the newest first. */
  linked(reach: Reach, issuer: string): Promise<ContractIdentity[]>;
  /** Ends all of the caller's own at an issuer. Throws `role_required`. */
  unlink(reach: Reach, issuer: string): Promise<void>;
  issueCode(code: OidcCode): Promise<void>;
  /** Uses a code up; null where there is none of this browser, or it has expired. */
  takeCode(which: Pick<OidcCode, 'codeHash' | 'browserHash'>, now: Date): Promise<UserThen | null>;
  /** Forgets attempts and codes that expired before; answers with how many there were. */
  prune(before: Date): Promise<number>;
}

/** Whose account is linked, by which login, and which password it had when the attempt was taken. */
export interface AttemptAccount {
  readonly userId: string;
  readonly loginId: string | null;
  readonly passwordHash: string;
}

/** Without an account it is a login. */
export interface TakenAttempt {
  readonly returnTo: string;
  readonly account: AttemptAccount | null;
}

interface AttemptRow {
  state_hash: string;
  browser_hash: string;
  provider: string;
  return_to: string;
  user_id: string | null;
  login_id: string | null;
  expires_at: number;
}

interface CodeRow {
  code_hash: string;
  browser_hash: string;
  user_id: string;
  expires_at: number;
}

interface IdentityRow extends OidcIdentity {
  user_id: string;
  created_at: number;
  last_login_at: number;
}

const mostShown = 100;

// Most of it before anybody is known, or by the secret of a browser alone.
export function oidcRepository({ database, clock }: StoreParts): Oidc {
  const now = (): number => clock.now().getTime();
  return {
    begin: (attempt) =>
      database.write('installation', async (sql) => {
        const { userId, origin } = attempt;
        const loginId = userId === null ? null : await holdCredential(sql, { userId, origin });
        await sql('oidc_attempts').insert({
          state_hash: attempt.stateHash,
          browser_hash: attempt.browserHash,
          provider: attempt.provider,
          return_to: attempt.returnTo,
          user_id: userId,
          login_id: loginId,
          expires_at: attempt.expiresAt.getTime(),
        });
      }),
    take: ({ stateHash, browserHash, provider }, at) =>
      database.write('installation', async (sql) => {
        const which = { state_hash: stateHash, browser_hash: browserHash, provider };
        const taken = await takeRow<AttemptRow>(sql, 'oidc_attempts', which);
        if (!taken || taken.expires_at <= at.getTime()) return null;
        const { return_to: returnTo, user_id: userId, login_id: loginId } = taken;
        if (userId === null) return { returnTo, account: null };
        const then = await userBy(sql, userId);
        return then && { returnTo, account: { userId, loginId, passwordHash: then.passwordHash } };
      }),
    userOf: ({ issuer, subject }, at) =>
      database.write('installation', async (sql) => {
        const [known]: IdentityRow[] = await sql<IdentityRow>('oidc_identities')
          .where({ issuer, subject })
          .update({ last_login_at: at.getTime() })
          .returning('*');
        return known ? ((await userBy(sql, known.user_id))?.user ?? null) : null;
      }),
    createAccount: (account, identity, origin) =>
      database.write('installation', async (sql) => {
        const user = await insertAccount(sql, { ...account, origin }, now());
        if (!(await insertIdentity(sql, identity, user.id, now()))) throw linkedMeanwhile();
        await recordLink(sql, identity, user.id, origin);
        return user;
      }),
    link: (identity, { userId, loginId, passwordHash }, origin) =>
      database.write('installation', async (sql) => {
        if (!(await holdUnchanged(sql, userId, passwordHash))) return 'changed';
        if (loginId !== null && !(await holdLogin(sql, loginId, userId))) return 'changed';
        const owner = await ownerAfterLinking(sql, identity, userId, now());
        if (owner === 'linked') await recordLink(sql, identity, userId, origin);
        return owner === 'other' ? 'other' : 'linked';
      }),
    linked: (reach, issuer) =>
      database.read(reach, async (sql) => {
        const rows: IdentityRow[] = await sql<IdentityRow>('oidc_identities')
          .where({ user_id: reach.userId, issuer })
          .orderBy('created_at', 'desc')
          .limit(mostShown);
        return rows.map(toIdentity);
      }),
    unlink: (reach, issuer) =>
      database.write(reach, async (sql) => {
        requireWholeReach(reach);
        const own = () => sql<IdentityRow>('oidc_identities').where({ user_id: reach.userId, issuer });
        const subjects = await own().forUpdate().pluck('subject');
        if (subjects.length === 0) return;
        await own().delete();
        recordAudit(sql, reach, {
          action: 'oidc_identity.delete',
          target: { type: 'user', id: reach.userId },
          organizationId: await homeOf(sql, reach.userId),
          before: { issuer, subjects },
        });
      }),
    issueCode: ({ codeHash, browserHash, userId, expiresAt }) =>
      database.write('installation', async (sql) => {
        await sql('login_codes').insert({
          code_hash: codeHash,
          browser_hash: browserHash,
          user_id: userId,
          expires_at: expiresAt.getTime(),
        });
      }),
    takeCode: ({ codeHash, browserHash }, at) =>
      database.write('installation', async (sql) => {
        const which = { code_hash: codeHash, browser_hash: browserHash };
        const taken = await takeRow<CodeRow>(sql, 'login_codes', which);
        return taken && taken.expires_at > at.getTime() ? await userBy(sql, taken.user_id) : null;
      }),
    prune: async (before) =>
      (await sweepTable(database, 'oidc_attempts', 'expires_at', before.getTime())) +
      (await sweepTable(database, 'login_codes', 'expires_at', before.getTime())),
  };
}

function toIdentity({ subject, created_at, last_login_at }: IdentityRow): ContractIdentity {
  return { subject, created_at: timestamp(created_at), last_login_at: timestamp(last_login_at) };
}

/** Of many at once one gets the row: it is locked before it goes. */
async function takeRow<Row extends object>(
  sql: Knex.Transaction,
  table: string,
  which: Readonly<Record<string, string>>,
): Promise<Row | undefined> {
  const row: Row | undefined = await sql(table).where(which).forUpdate().first();
  if (row) await sql(table).where(which).delete();
  return row;
}

async function userBy(sql: Knex, id: string): Promise<UserThen | null> {
  const row = await sql<UserRow>('users').where({ id }).first();
  return row ? toUserThen(row) : null;
}

async function ownerAfterLinking(
  sql: Knex.Transaction,
  identity: OidcIdentity,
  userId: string,
  now: number,
): Promise<'linked' | 'same' | 'other'> {
  const inserted = await insertIdentity(sql, identity, userId, now);
  if (inserted) return 'linked';
  const { issuer, subject } = identity;
  const row = await sql<IdentityRow>('oidc_identities').where({ issuer, subject }).first();
  return row?.user_id === userId ? 'same' : 'other';
}

/** Of two at once one links it. */
async function insertIdentity(
  sql: Knex.Transaction,
  { issuer, subject }: OidcIdentity,
  userId: string,
  now: number,
): Promise<boolean> {
  const row = { issuer, subject, user_id: userId, created_at: now, last_login_at: now };
  const rows = await sql('oidc_identities')
    .insert(row)
    .onConflict(['issuer', 'subject'])
    .ignore()
    .returning('subject');
  return rows.length > 0;
}

function linkedMeanwhile(): Problem {
  return new Problem('duplicate', 'The person has an account by now; log in again.');
}

async function recordLink(
  sql: Knex.Transaction,
  identity: OidcIdentity,
  userId: string,
  origin: Origin,
): Promise<void> {
  recordAudit(
    sql,
    { userId, origin },
    {
      action: 'oidc_identity.create',
      target: { type: 'user', id: userId },
      organizationId: await homeOf(sql, userId),
      after: { issuer: identity.issuer, subject: identity.subject },
    },
  );
}
