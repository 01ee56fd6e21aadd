/** Logins and their refresh tokens: each token is good for one use, and a second use ends the login. */
import type { Knex } from 'knex';
import type { Login, LoginMethod } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { type AuditActor, homeOf, recordAudit } from './audit.ts';
import { endBegun, endBegunBy } from './begun-logins.ts';
import { takeDevice } from './device-logins.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Origin, type Reach, requireWholeReach } from './reach.ts';
import { sweep } from './sweeps.ts';
import { timestamp } from './timestamps.ts';
import { holdUnchanged } from './user-row.ts';

/**
 * What became of a refresh token. `reused`: somebody has a copy, so the whole login has ended. `spent`: so has one that was
 * given more of them than anybody needs.
 */
export type Rotation =
  | 'unknown'
  | 'expired'
  | 'reused'
  | 'spent'
  | { readonly loginId: string; readonly userId: string };

/** How a login begins, and where. */
export interface NewLogin {
  readonly userId: string;
  readonly refreshHash: string;
  readonly expiresAt: Date;
  /** `password` if absent. */
  readonly method?: LoginMethod;
  /** What it calls itself. */
  readonly device?: string | null;
  /** Absent where the server itself begins it. */
  readonly origin?: Origin | undefined;
  /** Of the device that was let in, and is not again. */
  readonly deviceHash?: string;
}

export interface Logins {
  /** Begins a login with its first refresh token; answers with the id of the login. */
  create(login: NewLogin): Promise<string>;
  /**
   * The same for who was known by a password, or by what was begun while it held; null where it holds no more, or where
   * the device has come for its login already, or is let in no more.
   */
  createUnchanged(login: NewLogin, passwordHash: string): Promise<string | null>;
  /** The caller's own logins that are neither over nor ended, the newest first; `currentId` is the one that asks. */
  list(reach: Reach, currentId: string, query: PageQuery): Promise<Page<Login>>;
  /** Ends a login of the caller's own, and what it has begun. Throws `role_required` or `not_found`. */
  revoke(reach: Reach, loginId: string): Promise<void>;
  /** Remembers that a login was used, and from where; at most once a minute. */
  touch(loginId: string, address: string | null, now: Date): Promise<void>;
  /** The login that a refresh token is of, used or not; null for one that nobody was given. */
  loginOf(hash: string): Promise<string | null>;
  /** Exchanges a refresh token for the next one. Of two at once, one gets it. */
  rotate(oldHash: string, newHash: string, now: Date, origin?: Origin): Promise<Rotation>;
  /**
   * Ends the login that asks for it: nothing of it is good from the next request on. The devices that it has let in stay
   * so, for the page that lets them in logs out at once.
   */
  end(loginId: string, by: AuditActor): Promise<void>;
  /** Ends every login of a user, and what would become one. */
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
  method: LoginMethod;
  device: string | null;
  address: string | null;
  last_seen_at: number | null;
}

interface TokenRow {
  hash: string;
  login_id: string;
  created_at: number;
  used_at: number | null;
}

interface Ending {
  readonly by: AuditActor;
  readonly at: number;
  readonly reason?: string;
}

const touchIntervalMs = 60_000;

/** So many of an account are open at most: where all of them are ended, the audit log is told of each. */
export const loginLimits = { open: 1000 };

/** What goes in one statement. */
const tokensAtOnce = 1000;

/** Each is a row that stays as long as its login. Of one in two minutes this is more than a month. */
const mostTokens = 25_000;

export function loginRepository({ database, clock, cursors }: StoreParts): Logins {
  const now = (): number => clock.now().getTime();
  return {
    create: (login) => database.write('installation', (sql) => insertLogin(sql, login, now())),
    createUnchanged: (login, passwordHash) =>
      database.write('installation', async (sql) => {
        const { userId, deviceHash } = login;
        if (!(await holdUnchanged(sql, userId, passwordHash))) return null;
        if (deviceHash !== undefined && !(await takeDevice(sql, deviceHash, userId))) return null;
        return insertLogin(sql, login, now());
      }),
    list: (reach, currentId, query) =>
      database.read(reach, async (sql) => {
        const parts = [openLogins(sql, reach, now())];
        const columns = ['created_at', 'id'];
        const listing = { name: 'logins', reach, filters: {}, columns, direction: 'desc', parts } as const;
        const { data, next_cursor } = await readPage<LoginRow>(sql, cursors, listing, query);
        return { data: data.map((row) => toLogin(row, currentId)), next_cursor };
      }),
    revoke: (reach, loginId) =>
      // What it has begun is out of everybody's reach.
      database.write('installation', async (sql) => {
        requireWholeReach(reach);
        if (!(await openLogins(sql, reach, now()).where({ id: loginId }).first('id')))
          throw notFound('login');
        await endWhere(sql, { id: loginId }, { by: reach, at: now() });
      }),
    touch: (loginId, address, at) =>
      database.write('installation', async (sql) => {
        const minuteAgo = at.getTime() - touchIntervalMs;
        await sql<LoginRow>('logins')
          .where({ id: loginId })
          .where((stale) => stale.whereNull('last_seen_at').orWhere('last_seen_at', '<=', minuteAgo))
          .update({ last_seen_at: at.getTime(), address });
      }),
    loginOf: (hash) =>
      database.read('installation', async (sql) => {
        const token = await sql<TokenRow>('refresh_tokens').where({ hash }).first('login_id');
        return token?.login_id ?? null;
      }),
    rotate: (oldHash, newHash, at, origin) =>
      database.write('installation', (sql) => rotate(sql, { oldHash, newHash, origin }, at.getTime())),
    end: (loginId, by) =>
      database.write('installation', (sql) =>
        endWhere(sql, { id: loginId }, { by, at: now(), devices: 'go_on' }),
      ),
    endAll: (userId, by) =>
      database.write('installation', (sql) => endLoginsOf(sql, userId, { by, at: now() })),
    async prune(before) {
      // One may have been given any number of tokens, which would all go in the statement that deletes it.
      await sweep(database, (sql, most) => pruneTokens(sql, before.getTime(), most));
      return sweep(database, (sql, most) => pruneEmptied(sql, before.getTime(), most));
    },
  };
}

async function insertLogin(sql: Knex.Transaction, login: NewLogin, now: number): Promise<string> {
  const { userId, method = 'password', device = null, origin } = login;
  const id = newId('login');
  await makeRoom(sql, userId, { by: { userId, origin }, at: now, reason: 'too_many_logins' });
  await sql('logins').insert({
    id,
    user_id: userId,
    created_at: now,
    expires_at: login.expiresAt.getTime(),
    method,
    device,
    address: origin?.address ?? null,
    last_seen_at: now,
  });
  await sql('refresh_tokens').insert({ hash: login.refreshHash, login_id: id, created_at: now });
  recordAudit(
    sql,
    { userId, origin },
    {
      action: 'login.create',
      target: { type: 'login', id },
      organizationId: await homeOf(sql, userId),
      after: { method, device },
    },
  );
  return id;
}

/** For one more: who has logged in from a script each day has left behind many that nobody will use again. */
async function makeRoom(sql: Knex.Transaction, user_id: string, ending: Ending): Promise<void> {
  const unused: string[] = await sql<LoginRow>('logins')
    .where({ user_id, ended_at: null })
    .orderByRaw('coalesce(last_seen_at, created_at) desc')
    .offset(loginLimits.open - 1)
    .pluck('id');
  for (const id of unused) await endWhere(sql, { id }, ending);
}

function openLogins(sql: Knex, { userId }: Reach, now: number) {
  return sql<LoginRow>('logins').where({ user_id: userId, ended_at: null }).where('expires_at', '>', now);
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
  const end = (reason: string) =>
    endWhere(sql, { id: login.id }, { by: { userId: null, origin }, at: now, reason });
  if (token.used_at !== null) {
    await end('refresh_token_reused');
    return 'reused';
  }
  if (login.expires_at <= now) return 'expired';
  // Nobody else gives it another meanwhile: its row is held.
  const given = await sql<TokenRow>('refresh_tokens').where({ login_id: login.id }).count({ count: '*' });
  if (Number(given[0]?.count) >= mostTokens) {
    await end('refresh_tokens_spent');
    return 'spent';
  }
  await sql<TokenRow>('refresh_tokens').where({ hash: oldHash }).update({ used_at: now });
  await sql('refresh_tokens').insert({ hash: newHash, login_id: login.id, created_at: now });
  return { loginId: login.id, userId: login.user_id };
}

/** Ends every login of a user, and what would become one, inside a transaction of another's, for the installation. */
export async function endLoginsOf(sql: Knex.Transaction, userId: string, ending: Ending): Promise<void> {
  await endBegun(sql, userId);
  await endWhere(sql, { user_id: userId }, ending);
}

async function endWhere(
  sql: Knex.Transaction,
  which: Partial<Pick<LoginRow, 'id' | 'user_id'>>,
  { by, at, reason, devices = 'end' }: Ending & { readonly devices?: 'end' | 'go_on' },
): Promise<void> {
  const ended = await sql<LoginRow>('logins')
    .where({ ...which, ended_at: null })
    .update({ ended_at: at }, ['id', 'user_id']);
  await endBegunBy(sql, sql('logins').where(which).select('id'), devices);
  for (const { id, user_id } of ended)
    recordAudit(sql, by, {
      action: 'login.end',
      target: { type: 'login', id },
      organizationId: await homeOf(sql, user_id),
      ...(reason !== undefined && { after: { reason } }),
    });
}

async function pruneTokens(sql: Knex.Transaction, before: number, most: number): Promise<number> {
  const ids = sql('logins').where('expires_at', '<', before).select('id');
  const hashes = await sql<TokenRow>('refresh_tokens').whereIn('login_id', ids).limit(most).pluck('hash');
  return sql<TokenRow>('refresh_tokens').whereIn('hash', hashes).delete();
}

async function pruneEmptied(sql: Knex.Transaction, before: number, most: number): Promise<number> {
  const ids = await sql<LoginRow>('logins')
    .where('expires_at', '<', before)
    .whereNotExists(sql('refresh_tokens').whereRaw('refresh_tokens.login_id = logins.id'))
    .orderBy('expires_at')
    .limit(most)
    .pluck('id');
  return sql<LoginRow>('logins').whereIn('id', ids).delete();
}

/** Before an account goes: they would all go in the statement that deletes it. */
export async function deleteTokensOf(sql: Knex.Transaction, user_id: string): Promise<void> {
  const ids = sql<LoginRow>('logins').where({ user_id }).select('id');
  for (let deleted = tokensAtOnce; deleted === tokensAtOnce; ) {
    const some = sql<TokenRow>('refresh_tokens').whereIn('login_id', ids).limit(tokensAtOnce).select('hash');
    deleted = await sql<TokenRow>('refresh_tokens').whereIn('hash', some).delete();
  }
}

function toLogin(row: LoginRow, currentId: string): Login {
  return {
    id: row.id,
    method: row.method,
    device: row.device,
    address: row.address,
    current: row.id === currentId,
    created_at: timestamp(row.created_at),
    last_seen_at: timestamp(row.last_seen_at ?? row.created_at),
    expires_at: timestamp(row.expires_at),
  };
}
