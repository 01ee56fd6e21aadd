/** Whoever shows that the address of an account is theirs has it from then on: other ways into it go. */
import type { Knex } from 'knex';
import { endBegun } from './begun-logins.ts';
import type { UserRow } from './user-row.ts';

/** What went, by what it is called in the audit log. */
export type Removed = Readonly<Record<string, number>>;

export function countOf(removed: Removed): number {
  return Object.values(removed).reduce((sum, count) => sum + count, 0);
}

/**
 * The first proof alone takes anything: the keys, the links with providers and the second factor may be those of somebody
 * who made the account in another's name, and a second factor of theirs would keep the owner out for good. Where a login
 * that had to pass the second factor shows the address, that one is its owner's.
 */
export async function proveAddress(
  sql: Knex.Transaction,
  userId: string,
  now: number,
  loginId?: string | undefined,
): Promise<Removed> {
  const first = await sql<UserRow>('users')
    .where({ id: userId, address_proved_at: null })
    .update({ address_proved_at: now });
  if (first === 0) return {};
  return {
    removed_api_keys: await sql('api_keys').where({ user_id: userId }).delete(),
    removed_oidc_identities: await sql('oidc_identities').where({ user_id: userId }).delete(),
    removed_second_factors: await removeSecondFactor(sql, userId, loginId),
  };
}

/** Its recovery codes go with it. A provider's login, or a device's, is asked for no code. */
async function removeSecondFactor(
  sql: Knex.Transaction,
  user_id: string,
  loginId: string | undefined,
): Promise<number> {
  const passed = sql('logins')
    .where({ id: loginId ?? '', user_id, method: 'password' })
    .whereRaw('logins.created_at >= second_factors.confirmed_at');
  return sql('second_factors').where({ user_id }).whereNotExists(passed).delete();
}

export async function endLogins(
  sql: Knex.Transaction,
  userId: string,
  now: number,
  keepLoginId?: string,
): Promise<void> {
  await endBegun(sql, userId);
  const open = sql('logins').where({ user_id: userId, ended_at: null });
  if (keepLoginId !== undefined) open.whereNot({ id: keepLoginId });
  await open.update({ ended_at: now });
}
