/** Logins: one is a chain of refresh tokens that lasts until logout, expiry, or a token that comes twice. */
import type { Clock } from '../clock.ts';
import type { TokenPair, User } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { type AccessTokens, accessTokenSeconds } from './access-tokens.ts';
import { hashOf, newRefreshToken } from './opaque-tokens.ts';
import { allScopes, type Principal, toPrincipal } from './principal.ts';
import type { IdentityRecords, LoginOwner, Origin } from './records.ts';

export interface Logins {
  start(user: User, origin?: Origin): Promise<TokenPair>;
  refresh(refreshToken: string, origin?: Origin): Promise<TokenPair>;
  end(principal: Principal, allDevices: boolean): Promise<void>;
  /** Who an access token speaks for now. */
  authenticate(accessToken: string): Promise<Principal>;
  /** The same by the login's id; null once it is over. */
  principalOf(loginId: string): Promise<Principal | null>;
}

/** So long after its beginning a login is over, however often it was refreshed. */
const loginDays = 30;

export function createLogins(
  { logins, principals }: Pick<IdentityRecords, 'logins' | 'principals'>,
  accessTokens: AccessTokens,
  clock: Clock,
): Logins {
  async function pair(user: User, loginId: string, refreshToken: string): Promise<TokenPair> {
    return {
      access_token: await accessTokens.issue({ userId: user.id, loginId }),
      token_type: 'Bearer',
      expires_in: accessTokenSeconds,
      refresh_token: refreshToken,
      user,
    };
  }

  return {
    async start(user, origin) {
      const { secret, hash } = newRefreshToken();
      const expiresAt = new Date(clock.now().getTime() + loginDays * 86_400_000);
      const loginId = await logins.create({ userId: user.id, refreshHash: hash, expiresAt, origin });
      return pair(user, loginId, secret);
    },
    async refresh(refreshToken, origin) {
      const next = newRefreshToken();
      const rotation = await logins.rotate(hashOf(refreshToken), next.hash, clock.now(), origin);
      if (typeof rotation === 'string') throw notRefreshed(rotation);
      const owner = await principals.byLogin(rotation.loginId, clock.now());
      // Its other half of a race has ended the login in between.
      if (!owner || owner.login.ended) throw notRefreshed('reused');
      return pair(owner.user, rotation.loginId, next.secret);
    },
    async end(principal, allDevices) {
      if (allDevices) await logins.endAll(principal.userId, principal);
      else await logins.end(principal.credentialId, principal);
    },
    async authenticate(accessToken) {
      const claims = await accessTokens.verify(accessToken);
      const owner = await principals.byLogin(claims.loginId, clock.now());
      if (!owner || owner.login.ended || owner.user.id !== claims.userId) {
        throw new Problem('credential_invalid', 'This login has ended; log in again.');
      }
      if (owner.login.expired)
        throw new Problem('credential_expired', 'This login has expired; log in again.');
      return principalFrom(owner);
    },
    async principalOf(loginId) {
      const owner = await principals.byLogin(loginId, clock.now());
      return !owner || owner.login.ended || owner.login.expired ? null : principalFrom(owner);
    },
  };
}

function principalFrom(owner: LoginOwner): Principal {
  return toPrincipal(owner, { kind: 'login', id: owner.login.id, scopes: allScopes });
}

function notRefreshed(why: 'unknown' | 'expired' | 'reused'): Problem {
  const sentences = {
    unknown: 'This server knows no such refresh token; log in again to get a new one.',
    expired: 'The login has expired; log in again to get a new refresh token.',
    reused: 'The refresh token was used before, so the whole login has ended; log in again to get a new one.',
  };
  return new Problem('refresh_token_invalid', sentences[why]);
}
