/** API keys: made within the maker's own rights, known by a hash, refused from the moment they are ended. */
import type { Clock } from '../clock.ts';
import type { ApiKeyCreate, ApiKeyCreated, ApiKeyRotate, ApiKeyUpdate, Scope } from '../contract/api.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { isAllowedFrom, requireRanges } from './address-ranges.ts';
import { countRequest } from './key-rates.ts';
import { createKeyUses } from './key-uses.ts';
import { hashOf, newApiKeySecret } from './opaque-tokens.ts';
import { isRestricted, type Principal, principalOfKey } from './principal.ts';
import type { ApiKeyOwner, IdentityRecords, TaggedApiKey } from './records.ts';
import { refuseSuspended } from './suspension.ts';

/** With the old secret of a key that has a newer one, whatever makes or changes keys throws `login_required`. */
export interface ApiKeys {
  create(principal: Principal, body: ApiKeyCreate): Promise<ApiKeyCreated>;
  /** Throws `scope_required` where the change would give the key more than its changer has. */
  update(
    principal: Principal,
    id: string,
    change: ApiKeyUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedApiKey>;
  /**
   * Another secret; the old one is good for a while if asked for, or where the key renews itself. Throws `scope_required` as
   * `update`.
   */
  rotate(
    principal: Principal,
    id: string,
    body: ApiKeyRotate,
    ifMatch?: string | undefined,
  ): Promise<{ readonly created: ApiKeyCreated; readonly etag: string }>;
  /** Ends the key for good. Throws `login_required` where another key is ended with one that is limited. */
  revoke(principal: Principal, id: string, ifMatch?: string | undefined): Promise<void>;
  /** Throws `address_refused` where the key may not be used from there, `rate_limited` where it was used too often. */
  authenticate(secret: string, address: string | null): Promise<Principal>;
  /** The same by the key's id; null once it is revoked, disabled or expired, or its owner suspended. */
  principalOf(keyId: string): Promise<Principal | null>;
  /** Waits for the notes of last use that are under way. */
  settled(): Promise<void>;
}

/**
 * Who lost the answer with the new secret can ask for it again with the old one: a credential is checked before any kept
 * answer is looked for.
 */
const leastOwnGraceSeconds = 300;

export function createApiKeys(
  { apiKeys, principals, counters }: Pick<IdentityRecords, 'apiKeys' | 'principals' | 'counters'>,
  clock: Clock,
  log: Log,
): ApiKeys {
  const uses = createKeyUses(principals, clock, log);

  return {
    async create(principal, body) {
      refuseRestricted(principal);
      requireRanges(body.ip_allow);
      const scopes = body.scopes ?? [...principal.scopes];
      requireScopes(principal, scopes);
      requireFuture(body.expires_at, clock);
      const { secret, hash, prefix } = newApiKeySecret();
      const { apiKey } = await apiKeys.create(principal, { ...body, scopes, hash, prefix });
      return { key: secret, api_key: apiKey };
    },
    async update(principal, id, change, ifMatch) {
      refuseRestricted(principal);
      requireRanges(change.ip_allow);
      requireFuture(change.expires_at, clock);
      requireScopes(principal, change.scopes ?? []);
      if (!widens(change) || change.scopes) return apiKeys.update(principal, id, change, ifMatch);
      // The scopes that come back to life are those read here: a change in between makes their tag fail, also where
      // the caller takes any version.
      const key = await apiKeys.find(principal, id);
      if (key) requireScopes(principal, key.apiKey.scopes);
      return apiKeys.update(principal, id, change, ifMatch, key?.etag);
    },
    async rotate(principal, id, { grace_seconds }, ifMatch) {
      const renewsItself = id === principal.credentialId;
      // A key may change its own secret, whatever limits it: the new one is limited as much.
      if (!renewsItself) refuseRestricted(principal);
      const key = await apiKeys.find(principal, id);
      if (key) requireScopes(principal, key.apiKey.scopes);
      const { secret, ...known } = newApiKeySecret();
      const seconds = renewsItself ? Math.max(grace_seconds, leastOwnGraceSeconds) : grace_seconds;
      const oldUntil = seconds > 0 ? new Date(clock.now().getTime() + seconds * 1000) : null;
      const rotated = await apiKeys.rotate(principal, id, known, oldUntil, ifMatch, key?.etag);
      return { created: { key: secret, api_key: rotated.apiKey }, etag: rotated.etag };
    },
    async revoke(principal, id, ifMatch) {
      if (id !== principal.credentialId) refuseRestricted(principal);
      await apiKeys.revoke(principal, id, ifMatch);
    },
    async authenticate(secret, address) {
      const owner = await principals.byApiKeyHash(hashOf(secret), clock.now());
      if (!owner)
        throw new Problem('credential_invalid', 'There is no such API key; it may have been revoked.');
      const { apiKey } = owner;
      refuseEnded(apiKey);
      if (!isAllowedFrom(apiKey.ipAllow, address))
        throw new Problem('address_refused', 'This API key may not be used from this address.');
      refuseSuspended(owner.user);
      if (apiKey.rateLimit !== null) await countRequest(counters, apiKey.id, apiKey.rateLimit);
      uses.note(apiKey, address);
      return principalOfKey(owner);
    },
    async principalOf(keyId) {
      const owner = await principals.byApiKey(keyId, clock.now());
      if (!owner || owner.user.status === 'suspended') return null;
      return owner.apiKey.disabled || owner.apiKey.expired ? null : principalOfKey(owner);
    },
    settled: uses.settled,
  };
}

/** What is bound to a workspace, an address, rules, a rate, a quota or a time could get rid of that through another key. */
function refuseRestricted(principal: Principal): void {
  if (!isRestricted(principal)) return;
  throw new Problem(
    'login_required',
    'This API key is limited beyond its scopes, so it makes no keys, and changes and ends none: log in, and send the access token.',
  );
}

/** Whether a change may let a key do what it could not before, so that its changer needs all its scopes. */
function widens(change: ApiKeyUpdate): boolean {
  const { disabled, expires_at, ip_allow, permission_rules, rate_limit } = change;
  const touched = [expires_at, ip_allow, permission_rules, rate_limit];
  return disabled === false || touched.some((value) => value !== undefined);
}

/** Nobody gives a key a right that they do not have themselves. */
function requireScopes(principal: Principal, scopes: readonly Scope[]): void {
  const missing = scopes.filter((scope) => !principal.scopes.has(scope));
  if (missing.length === 0) return;
  throw new Problem(
    'scope_required',
    `This API key lacks the scope ${missing.join(', ')}, so it cannot give it to a key.`,
  );
}

/** A leap second passes the contract too, and no clock here shows it. */
function requireFuture(expiresAt: string | null | undefined, clock: Clock): void {
  if (!expiresAt || Date.parse(expiresAt) > clock.now().getTime()) return;
  throw new Problem('invalid_request', 'body/expires_at: must be a moment in the future', {
    errors: [
      { in: 'body', pointer: '/expires_at', message: 'must be a moment in the future', code: 'future' },
    ],
  });
}

function refuseEnded({ disabled, expired }: ApiKeyOwner['apiKey']): void {
  if (disabled)
    throw new Problem('credential_invalid', 'This API key is disabled; enable it, or use another.');
  if (expired) throw new Problem('credential_expired', 'This API key has expired; create a new one.');
}
