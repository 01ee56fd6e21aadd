/** Opaque tokens: random, shown once, stored as a hash. They are too long to be guessed, so the hash needs no salt. */
import { hash, randomBytes, randomInt } from 'node:crypto';

/** A secret for the caller, and what the server keeps of it. */
export interface OpaqueToken {
  readonly secret: string;
  readonly hash: string;
}

const secretBytes = 32;
/** How much of an API key stays visible in lists, after its `sk-`. */
const visibleLength = 8;
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

export function newRefreshToken(): OpaqueToken {
  return withHash(`rt_${randomText()}`);
}

export function newBootstrapToken(): OpaqueToken {
  return withHash(`bt_${randomText()}`);
}

/** For the link to a new password. */
export function newResetToken(): OpaqueToken {
  return withHash(`pr_${randomText()}`);
}

export function newDeviceCode(): OpaqueToken {
  return withHash(`dc_${randomText()}`);
}

/** What a browser comes back with from a provider, and gets its tokens for. */
export function newLoginCode(): OpaqueToken {
  return withHash(`lc_${randomText()}`);
}

/** Names one attempt to log in through a provider. */
export function newState(): OpaqueToken {
  return withHash(randomText());
}

/** By which a browser is known again; only it has it. */
export function newBrowserSecret(): string {
  return randomText();
}

export function newInvitationToken(): OpaqueToken {
  return withHash(`inv_${randomText()}`);
}

/** A password for an account that nobody logs in to. */
export function newPassword(): string {
  return randomText();
}

/** An API key: a visible prefix of letters and digits, and all 256 secret bits after it. */
export function newApiKeySecret(): OpaqueToken & { readonly prefix: string } {
  const prefix = `sk-${Array.from({ length: visibleLength }, () => alphabet[randomInt(alphabet.length)]).join('')}`;
  return { ...withHash(`${prefix}${randomText()}`), prefix };
}

/** SHA-256 in hexadecimal. */
export function hashOf(secret: string): string {
  return hash('sha256', secret, 'hex');
}

function withHash(secret: string): OpaqueToken {
  return { secret, hash: hashOf(secret) };
}

function randomText(): string {
  return randomBytes(secretBytes).toString('base64url');
}
