/** Logins and their refresh tokens: each token is good for one use, and a second use ends the login. */
import type { Knex } from 'knex';
import { newId } from '../ids.ts';
import { type AuditActor, homeOf, recordAudit } from './audit.ts';
import type { StoreParts } from './parts.ts';
import type { Origin } from './reach.ts';

/** What became of a refresh token. `reused`: somebody has a copy, so the whole login has ended. */
export type Rotation =
  | 'unknown'
  | 'expired'
  | 'reused'
  | { readonly loginId: string; readonly userId: string };

export interface Logins {
  /** Begins a login with its first refresh token; answers with the id of the login. */
  create(login: {
    readonly userId: string;
    readonly refreshHash: string;
    readonly expiresAt: Date;
    readonly origin?: Origin | undefined;
  }): Promise<string>;
  /** Exchanges a refresh token for the next one. Of two at once, one gets it. */
  rotate(oldHash: string, newHash: string, now: Date, origin?: Origin): Promise<Rotation>;
  /** Ends one login: nothing of it is good from the next request on. */
  end(loginId: string, by: AuditActor): Promise<void>;
  /** Ends every login of a user. */
  endAll(userId: string, by: AuditActor): Promise<void>;
  /** Forgets logins that expired before; answers with how many there were. */
  prune(before: Date): Promise<number>;
}

interface LoginRow {
  id: string;
  user_id: string;
  created_at: number;
  expires_at: number;
  ended_at: number | null;
}

interface TokenRow {
  hash: string;
  login_id: string;
  created_at: number;
  used_at: number | null;
}

export function loginRepository({ database, clock }: StoreParts): Logins {
  const now = (): number => clock.now().getTime();
  return {
    create: ({ userId, refreshHash, expiresAt, origin }) =>
      database.write('installation', async (sql) => {
        const id = newId('login');
        await sql('logins').insert({
          id,
          user_id: userId,
          created_at: now(),
          expires_at: expiresAt.getTime(),
        });
        await sql('refresh_tokens').insert({ hash: refreshHash, login_id: id, created_at: now() });
        recordAudit(
          sql,
          { userId, origin },
          {
            action: 'login.create',
            target: { type: 'login', id },
            organizationId: await homeOf(sql, userId),
          },
        );
        return id;
      }),
    rotate: (oldHash, newHash, at, origin) =>
      database.write('installation', (sql) => rotate(sql, { oldHash, newHash, origin }, at.getTime())),
    end: (loginId, by) =>
      database.write('installation', (sql) => endWhere(sql, { id: loginId }, { by, at: now() })),
    endAll: (userId, by) =>
      database.write('installation', (sql) => endWhere(sql, { user_id: userId }, { by, at: now() })),
    prune: (before) =>
      database.write('installation', (sql) =>
        sql<LoginRow>('logins').where('expires_at', '<', before.getTime()).delete(),
      ),
  };
}

async function rotate(
  sql: Knex.Transaction,
  {
    oldHash,
    newHash,
    origin,
  }: { readonly oldHash: string; readonly newHash: string; readonly origin: Origin | undefined },
  now: number,
): Promise<Rotation> {
  const token = await sql<TokenRow>('refresh_tokens').where({ hash: oldHash }).forUpdate().first();
  const login = token && (await sql<LoginRow>('logins').where({ id: token.login_id }).forUpdate().first());
  if (!token || !login || (login.ended_at !== null && token.used_at === null)) return 'unknown';
  if (token.used_at !== null) {
    await endWhere(
      sql,
      { id: login.id },
      { by: { userId: null, origin }, at: now, reason: 'refresh_token_reused' },
    );
    return 'reused';
  }
  if (login.expires_at <= now) return 'expired';
  await sql<TokenRow>('refresh_tokens').where({ hash: oldHash }).update({ used_at: now });
  await sql('refresh_tokens').insert({ hash: newHash, login_id: login.id, created_at: now });
  return { loginId: login.id, userId: login.user_id };
}

async function endWhere(
  sql: Knex.Transaction,
  which: Partial<Pick<LoginRow, 'id' | 'user_id'>>,
  { by, at, reason }: { readonly by: AuditActor; readonly at: number; readonly reason?: string },
): Promise<void> {
  const ended = await sql<LoginRow>('logins')
    .where({ ...which, ended_at: null })
    .update({ ended_at: at }, ['id', 'user_id']);
  for (const { id, user_id } of ended)
    recordAudit(sql, by, {
      action: 'login.end',
      target: { type: 'login', id },
      organizationId: await homeOf(sql, user_id),
      ...(reason !== undefined && { after: { reason } }),
    });
}
