/** What somebody has begun, and would become a login, or a way to one, without asking them again. */
import type { Knex } from 'knex';

/**
 * Call it wherever all logins of a user end, before they end: of a device that comes for its login at the same moment,
 * either what was allowed is gone, or the login is there to be ended.
 */
export async function endBegun(sql: Knex.Transaction, userId: string): Promise<void> {
  // Whoever makes a way in at this moment has it held: it is there by then, or is refused after this.
  await sql('users').where({ id: userId }).forNoKeyUpdate().first('id');
  const theirs = { user_id: userId };
  // Who was refused may still be told so.
  await sql('device_logins')
    .where({ ...theirs, status: 'allowed' })
    .delete();
  await sql('login_codes').where(theirs).delete();
  await sql('oidc_attempts').where(theirs).delete();
}

/**
 * The same where one login ends and others may go on, once it has ended: who begins something holds their login until it
 * is stored. A device that is let in may be left to come for its login all the same.
 */
export async function endBegunBy(
  sql: Knex.Transaction,
  loginIds: Knex.QueryBuilder,
  devices: 'end' | 'go_on',
): Promise<void> {
  const allowed = sql('device_logins').whereIn('login_id', loginIds).where({ status: 'allowed' });
  if (devices === 'end') await allowed.delete();
  else await allowed.update({ login_id: null });
  await sql('oidc_attempts').whereIn('login_id', loginIds).delete();
}
