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
 * who made the account in another's name, and a second factor of theirs would keep the owner out for good.
 */
export async function proveAddress(sql: Knex.Transaction, userId: string, now: number): Promise<Removed> {
  const first = await sql<UserRow>('users')
    .where({ id: userId, address_proved_at: null })
    .update({ address_proved_at: now });
  if (first === 0) return {};
  return {
    removed_api_keys: await sql('api_keys').where({ user_id: userId }).delete(),
    removed_oidc_identities: await sql('oidc_identities').where({ user_id: userId }).delete(),
    // Its recovery codes go with it.
    removed_second_factors: await sql('second_factors').where({ user_id: userId }).delete(),
  };
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
