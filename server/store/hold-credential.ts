/** Whoever makes a way in that lasts may do so until it is stored: a request may have come before its credential ended. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { isStored } from './hold-runner.ts';
import type { Origin, Reach } from './reach.ts';
import type { UserRow } from './user-row.ts';

/**
 * Until the transaction ends nobody ends all of their ways in, nor the login that asks: who does waits, and finds what was
 * made. Answers with the id of that login, null where a key asks. Throws `credential_invalid` where the account is
 * suspended, or where the credential that came with the request has ended.
 */
export async function holdCredential(
  sql: Knex.Transaction,
  { userId, origin }: Pick<Reach, 'userId' | 'origin'>,
): Promise<string | null> {
  const user = await sql<UserRow>('users').where({ id: userId }).forShare().first('status');
  const credential = origin?.credential ?? null;
  if (user?.status === 'active' && (await isGood(sql, userId, credential)))
    return credential?.kind === 'login' ? credential.id : null;
  throw new Problem(
    'credential_invalid',
    'The credential was revoked, or its account suspended, before this was made; log in again, or use another key.',
  );
}

/** Whether a login goes on; it does so until the transaction ends. */
export async function holdLogin(sql: Knex.Transaction, id: string, user_id: string): Promise<boolean> {
  const found = await sql('logins').where({ id, user_id, ended_at: null }).forShare().first('id');
  return found !== undefined;
}

/** How long it is good was asked when the request came. */
async function isGood(
  sql: Knex.Transaction,
  user_id: string,
  credential: Origin['credential'],
): Promise<boolean> {
  if (credential === null) return true;
  const { kind, id } = credential;
  if (kind === 'login') return holdLogin(sql, id, user_id);
  if (!isStored(id)) return true;
  return (await sql('api_keys').where({ id, user_id, disabled: false }).first('id')) !== undefined;
}
