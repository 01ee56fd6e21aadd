/** Logins: one is a chain of refresh tokens that lasts until logout, expiry, or a token that comes twice. */
import type { Clock } from '../clock.ts';
import type { LoginMethod, TokenPair, User } from '../contract/api.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { allScopes } from '../scopes.ts';
import { type AccessTokens, accessTokenSeconds } from './access-tokens.ts';
import { hashOf, newRefreshToken } from './opaque-tokens.ts';
import { type Principal, toPrincipal } from './principal.ts';
import type { IdentityRecords, LoginOwner, Origin, Rotation, UserThen } from './records.ts';
import { refuseSuspended } from './suspension.ts';

/** How a login begins, and where. */
export interface LoginBeginning {
  readonly method: LoginMethod;
  /** What it calls itself. */
  readonly device: string | null;
  /** Absent where the server itself begins it. */
  readonly origin?: Origin | undefined;
  /** Of the device that was let in, and is not again. */
  readonly deviceHash?: string;
}

export interface Logins {
  /** For an account that was just made. */
  start(user: User, beginning: LoginBeginning): Promise<TokenPair>;
  /** Null where the account has another password by now, or where the device is let in no more. Throws `account_suspended`. */
  startUnchanged(then: UserThen, beginning: LoginBeginning): Promise<TokenPair | null>;
  refresh(refreshToken: string, origin?: Origin): Promise<TokenPair>;
  end(principal: Principal, allDevices: boolean): Promise<void>;
  /** Who an access token speaks for now; notes where it came from. */
  authenticate(accessToken: string, address: string | null): Promise<Principal>;
  /** The same by the login's id; null once it is over. */
  principalOf(loginId: string): Promise<Principal | null>;
  /** Waits for the notes of last use that are under way. */
  settled(): Promise<void>;
}

/** When a login was last seen is noted once in this time. */
const noteUseEveryMs = 60_000;

/** So long after its beginning a login is over, however often it was refreshed. */
const loginDays = 30;

export function createLogins(
  { logins, principals }: Pick<IdentityRecords, 'logins' | 'principals'>,
  accessTokens: AccessTokens,
  clock: Clock,
  log: Log,
): Logins {
  const notes = new Map<string, Promise<void>>();

  /** The caller does not wait for it, and a failure costs only the note. */
  function noteUse({ id, lastSeenAt }: LoginOwner['login'], address: string | null): void {
    const now = clock.now();
    if (notes.has(id) || (lastSeenAt && now.getTime() - lastSeenAt.getTime() < noteUseEveryMs)) return;
    const note = logins
      .touch(id, address, now)
      .catch((error: unknown) =>
        log.error({ err: error, login_id: id }, 'when a login was last seen is not noted'),
      )
      .finally(() => notes.delete(id));
    notes.set(id, note);
  }

  function newLogin({ id: userId }: User, beginning: LoginBeginning) {
    const { secret, hash: refreshHash } = newRefreshToken();
    const expiresAt = new Date(clock.now().getTime() + loginDays * 86_400_000);
    return { secret, login: { userId, refreshHash, expiresAt, ...beginning } };
  }

  async function pair(user: User, loginId: string, refreshToken: string): Promise<TokenPair> {
    return {
      access_token: await accessTokens.issue({ userId: user.id, loginId }),
      token_type: 'Bearer',
      expires_in: accessTokenSeconds,
      refresh_token: refreshToken,
      user,
    };
  }

  /** Null where the token belongs to no login that goes on. */
  async function nextPair(refreshHash: string, secret: string): Promise<TokenPair | null> {
    const loginId = await logins.loginOf(refreshHash);
    const owner = loginId && (await principals.byLogin(loginId, clock.now()));
    return owner && !owner.login.ended ? await pair(owner.user, owner.login.id, secret) : null;
  }

  return {
    async start(user, beginning) {
      const { secret, login } = newLogin(user, beginning);
      return pair(user, await logins.create(login), secret);
    },
    async startUnchanged({ user, passwordHash }, beginning) {
      refuseSuspended(user);
      const { secret, login } = newLogin(user, beginning);
      const loginId = await logins.createUnchanged(login, passwordHash);
      return loginId === null ? null : pair(user, loginId, secret);
    },
    async refresh(refreshToken, origin) {
      const [hash, next] = [hashOf(refreshToken), newRefreshToken()];
      // What may fail comes first: whoever is told to try again must not come with a token that counts as used.
      const answer = await nextPair(hash, next.secret);
      const rotation = await logins.rotate(hash, next.hash, clock.now(), origin);
      if (typeof rotation === 'string') throw notRefreshed(rotation);
      if (answer === null) throw notRefreshed('unknown');
      refuseSuspended(answer.user);
      return answer;
    },
    async end(principal, allDevices) {
      if (allDevices) await logins.endAll(principal.userId, principal);
      else await logins.end(principal.credentialId, principal);
    },
    async authenticate(accessToken, address) {
      const claims = await accessTokens.verify(accessToken);
      const owner = await principals.byLogin(claims.loginId, clock.now());
      if (!owner || owner.login.ended || owner.user.id !== claims.userId) {
        throw new Problem('credential_invalid', 'This login has ended; log in again.');
      }
      if (owner.login.expired)
        throw new Problem('credential_expired', 'This login has expired; log in again.');
      refuseSuspended(owner.user);
      noteUse(owner.login, address);
      return principalFrom(owner);
    },
    async principalOf(loginId) {
      const owner = await principals.byLogin(loginId, clock.now());
      if (!owner || owner.user.status === 'suspended') return null;
      return owner.login.ended || owner.login.expired ? null : principalFrom(owner);
    },
    async settled() {
      await Promise.all(notes.values());
    },
  };
}

function principalFrom(owner: LoginOwner): Principal {
  return toPrincipal(owner, { kind: 'login', id: owner.login.id, scopes: allScopes });
}

function notRefreshed(why: Extract<Rotation, string>): Problem {
  const sentences = {
    unknown: 'This server knows no such refresh token; log in again to get a new one.',
    expired: 'The login has expired; log in again to get a new refresh token.',
    reused: 'The refresh token was used before, so the whole login has ended; log in again to get a new one.',
    spent:
      'The login was renewed more often than anybody needs, so it has ended; log in again to get a new refresh token.',
  };
  return new Problem('refresh_token_invalid', sentences[why]);
}
