/** Whoever makes a way in that lasts may do so until it is stored: a request may have come before its credential ended. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { isStored } from './hold-runner.ts';
import type { Origin, Reach } from './reach.ts';
import type { UserRow } from './user-row.ts';

/**
 * Until the transaction ends nobody ends all of their ways in: who does waits, and finds what was made. Throws
 * `credential_invalid` where the account is suspended, or where the credential that came with the request has ended.
 */
export async function holdCredential(
  sql: Knex.Transaction,
  { userId, origin }: Pick<Reach, 'userId' | 'origin'>,
): Promise<void> {
  const user = await sql<UserRow>('users').where({ id: userId }).forShare().first('status');
  if (user?.status === 'active' && (await isGood(sql, userId, origin?.credential ?? null))) return;
  throw new Problem(
    'credential_invalid',
    'The credential was revoked, or its account suspended, before this was made; log in again, or use another key.',
  );
}

/** How long it is good was asked when the request came. */
async function isGood(sql: Knex, user_id: string, credential: Origin['credential']): Promise<boolean> {
  if (credential === null) return true;
  const { kind, id } = credential;
  if (kind === 'api_key' && !isStored(id)) return true;
  const found =
    kind === 'login'
      ? sql('logins').where({ id, user_id, ended_at: null })
      : sql('api_keys').where({ id, user_id, disabled: false });
  return (await found.first('id')) !== undefined;
}
