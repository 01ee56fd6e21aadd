/** Second factors: one sealed secret for each person, the codes that were taken, and codes for when the app is lost. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { type AuditActor, recordAudit } from './audit.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';

export interface SecondFactor {
  readonly sealedSecret: string;
  /** Null until its first code was confirmed: it is asked for only then. */
  readonly confirmedAt: Date | null;
  readonly recoveryCodesLeft: number;
}

export interface SecondFactors {
  find(userId: string): Promise<SecondFactor | null>;
  /** Begins anew with a secret that is yet to be confirmed. Throws `mfa_conflict` where one is on. */
  enroll(reach: Reach, sealedSecret: string): Promise<void>;
  /**
   * Switches it on with the time step of the first code. Throws `mfa_conflict` where there is no such secret to
   * confirm.
   */
  confirm(reach: Reach, sealedSecret: string, step: number, recoveryHashes: readonly string[]): Promise<void>;
  /** Whether this is the first code of the step, or of a later one; it counts as taken from now on. */
  takeStep(userId: string, sealedSecret: string, step: number): Promise<boolean>;
  /** Whether there is such a code that was not used; it is used from now on. */
  takeRecoveryCode(actor: AuditActor & { readonly userId: string }, hash: string): Promise<boolean>;
  /** Whether there was one. */
  remove(reach: Reach): Promise<boolean>;
}

interface SecondFactorRow {
  user_id: string;
  sealed_secret: string;
  last_step: number;
  created_at: number;
  confirmed_at: number | null;
}

interface RecoveryCodeRow {
  user_id: string;
  hash: string;
  used_at: number | null;
}

export function secondFactorRepository({ database, clock }: StoreParts): SecondFactors {
  const now = (): number => clock.now().getTime();
  return {
    find: (userId) => database.read('installation', (sql) => find(sql, userId)),
    enroll: (reach, sealedSecret) =>
      database.write(reach, (sql) => enroll(sql, reach.userId, sealedSecret, now())),
    confirm: (reach, sealedSecret, step, recoveryHashes) =>
      database.write(reach, async (sql) => {
        const confirmed = await sql<SecondFactorRow>('second_factors')
          .where({ user_id: reach.userId, sealed_secret: sealedSecret, confirmed_at: null })
          .update({ confirmed_at: now(), last_step: step });
        if (confirmed === 0) throw nothingToConfirm();
        await sql('recovery_codes').insert(recoveryHashes.map((hash) => ({ user_id: reach.userId, hash })));
        recordAudit(sql, reach, { ...aboutUser(reach.userId), action: 'mfa.enable' });
      }),
    takeStep: (userId, sealedSecret, step) =>
      database.write('installation', async (sql) => {
        const taken = await sql<SecondFactorRow>('second_factors')
          .where({ user_id: userId, sealed_secret: sealedSecret })
          .where('last_step', '<', step)
          .update({ last_step: step });
        return taken === 1;
      }),
    takeRecoveryCode: (actor, hash) =>
      database.write('installation', async (sql) => {
        const used = await sql<RecoveryCodeRow>('recovery_codes')
          .where({ user_id: actor.userId, hash, used_at: null })
          .update({ used_at: now() });
        if (used === 1)
          recordAudit(sql, actor, { ...aboutUser(actor.userId), action: 'mfa.use_recovery_code' });
        return used === 1;
      }),
    remove: (reach) =>
      database.write(reach, async (sql) => {
        const removed = await sql<SecondFactorRow>('second_factors')
          .where({ user_id: reach.userId })
          .delete();
        if (removed === 1) recordAudit(sql, reach, { ...aboutUser(reach.userId), action: 'mfa.disable' });
        return removed === 1;
      }),
  };
}

/** What confirms where there is nothing to confirm. */
function nothingToConfirm(): Problem {
  return new Problem('mfa_conflict', 'No second factor waits to be confirmed; begin with enrollMfa.');
}

async function find(sql: Knex, userId: string): Promise<SecondFactor | null> {
  const row = await sql<SecondFactorRow>('second_factors').where({ user_id: userId }).first();
  if (!row) return null;
  const [codes] = await sql<RecoveryCodeRow>('recovery_codes')
    .where({ user_id: userId, used_at: null })
    .count<{ count: number }[]>({ count: '*' });
  return {
    sealedSecret: row.sealed_secret,
    confirmedAt: row.confirmed_at === null ? null : new Date(row.confirmed_at),
    recoveryCodesLeft: codes?.count ?? 0,
  };
}

async function enroll(
  sql: Knex.Transaction,
  userId: string,
  sealedSecret: string,
  now: number,
): Promise<void> {
  // The person's row is the lock: two at once would each find no factor.
  await sql('users').where({ id: userId }).forUpdate().first('id');
  const before = await sql<SecondFactorRow>('second_factors').where({ user_id: userId }).first();
  if (before && before.confirmed_at !== null)
    throw new Problem('mfa_conflict', 'The second factor is on already; switch it off first.');
  await sql<SecondFactorRow>('second_factors').where({ user_id: userId }).delete();
  await sql('second_factors').insert({
    user_id: userId,
    sealed_secret: sealedSecret,
    last_step: 0,
    created_at: now,
  });
}

function aboutUser(userId: string) {
  return { target: { type: 'user', id: userId }, organizationId: null };
}
