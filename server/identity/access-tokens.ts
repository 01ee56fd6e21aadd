/** Access tokens: short-lived JWTs signed with EdDSA, and every check that tells them from a forgery. */
import { randomUUID } from 'node:crypto';
import type { errors as Errors } from 'jose';
import type { Clock } from '../clock.ts';
import { Problem } from '../problem.ts';
import type { SigningKeys } from './signing-keys.ts';

/** Whose token it is, and to which login it belongs. */
export interface AccessClaims {
  readonly userId: string;
  readonly loginId: string;
}

export interface AccessTokens {
  issue(claims: AccessClaims): Promise<string>;
  /**
   * Throws `credential_expired` for a good token that is too old, `credential_invalid` for anything else: with its own
   * sentence for a good one from a clock that is ahead.
   */
  verify(token: string): Promise<AccessClaims>;
}

/** Seconds that an access token lives. */
export const accessTokenSeconds = 15 * 60;

const issuer = 'service';
const audience = 'service-api';
/** RFC 9068: no other kind of JWT passes for an access token. */
const type = 'at+jwt';
const algorithm = 'EdDSA';
/**
 * A node whose clock is a little behind takes the token too. A tolerance of jose's would do as well, and would take tokens
 * that have expired.
 */
const backdatedSeconds = 60;

/** Loaded by the first login: it is a twentieth of a start, and who calls with a key needs none of it. */
const loadJose = () => import('jose');

export function createAccessTokens(keys: SigningKeys, clock: Clock): AccessTokens {
  return {
    async issue({ userId, loginId }) {
      const { kid, privateKey } = await keys.signer();
      const now = Math.floor(clock.now().getTime() / 1000);
      // RFC 9068 wants it. Without it all of a second are the same: one that was renewed would be the old one.
      const id = randomUUID();
      const { SignJWT } = await loadJose();
      return new SignJWT({ sid: loginId })
        .setProtectedHeader({ alg: algorithm, kid, typ: type })
        .setIssuer(issuer)
        .setAudience(audience)
        .setSubject(userId)
        .setJti(id)
        .setIssuedAt(now)
        .setNotBefore(now - backdatedSeconds)
        .setExpirationTime(now + accessTokenSeconds)
        .sign(privateKey);
    },
    async verify(token) {
      if (!isCanonical(token)) throw invalid();
      const { errors, jwtVerify } = await loadJose();
      const { payload } = await jwtVerify(token, (header) => keyOf(header.kid, keys), {
        algorithms: [algorithm],
        issuer,
        audience,
        typ: type,
        requiredClaims: ['sub', 'sid', 'iat', 'nbf', 'exp'],
        currentDate: clock.now(),
      }).catch((error: unknown) => refuse(error, errors));
      const { sub, sid } = payload;
      if (typeof sub !== 'string' || typeof sid !== 'string') throw invalid();
      return { userId: sub, loginId: sid };
    },
  };
}

/** The key id chooses among our own keys; a key, or the address of one, inside the token is never looked at. */
async function keyOf(kid: unknown, keys: SigningKeys) {
  const key = typeof kid === 'string' ? await keys.verifier(kid) : null;
  if (!key) throw invalid();
  return key;
}

/** Base64url has unused bits at its end, and decoders pass over them: one token must not have many spellings. */
function isCanonical(token: string): boolean {
  const parts = token.split('.');
  return (
    parts.length === 3 && parts.every((part) => Buffer.from(part, 'base64url').toString('base64url') === part)
  );
}

function refuse(error: unknown, errors: typeof Errors): never {
  if (error instanceof errors.JWTExpired) {
    throw new Problem(
      'credential_expired',
      'The access token has expired; get a new one with the refresh token.',
    );
  }
  if (error instanceof errors.JWTClaimValidationFailed && error.claim === 'nbf' && isEarly(error))
    throw new Problem(
      'credential_invalid',
      'This access token was made by a server whose clock is ahead of this one’s; set the clocks of the servers right, and log in again.',
      { cause: error },
    );
  if (error instanceof errors.JOSEError) throw invalid(error);
  throw error;
}

/** Asked of signed tokens alone: nobody else hears of clocks. */
function isEarly({ reason }: Errors.JWTClaimValidationFailed): boolean {
  return reason === 'check_failed';
}

function invalid(cause?: unknown): Problem {
  return new Problem('credential_invalid', 'This is not an access token of this server; log in again.', {
    cause,
  });
}
