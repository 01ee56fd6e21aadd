/** API keys: made within the maker's own rights, known by a hash, refused from the moment they are ended. */
import type { Clock } from '../clock.ts';
import type { ApiKeyCreate, ApiKeyCreated, ApiKeyUpdate, Scope } from '../contract/api.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { hashOf, newApiKeySecret } from './opaque-tokens.ts';
import { type Principal, toPrincipal } from './principal.ts';
import type { ApiKeyOwner, IdentityRecords, TaggedApiKey } from './records.ts';

export interface ApiKeys {
  create(principal: Principal, body: ApiKeyCreate): Promise<ApiKeyCreated>;
  /** Throws `scope_required` where the change would give the key more than its changer has. */
  update(
    principal: Principal,
    id: string,
    change: ApiKeyUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedApiKey>;
  authenticate(secret: string): Promise<Principal>;
  /** The same by the key's id; null once it is revoked, disabled or expired. */
  principalOf(keyId: string): Promise<Principal | null>;
  /** Waits for the notes of last use that are under way. */
  settled(): Promise<void>;
}

/** The last use is noted once in this time: exact enough to find keys that nobody needs. */
const noteUseEveryMs = 60_000;

export function createApiKeys(
  { apiKeys, principals }: Pick<IdentityRecords, 'apiKeys' | 'principals'>,
  clock: Clock,
  log: Log,
): ApiKeys {
  const notes = new Map<string, Promise<void>>();

  /** The caller does not wait for it, and a failure costs only the note. */
  function noteUse({ id, lastUsedAt }: ApiKeyOwner['apiKey']): void {
    const now = clock.now();
    if (notes.has(id) || (lastUsedAt && now.getTime() - lastUsedAt.getTime() < noteUseEveryMs)) return;
    const note = principals
      .touchApiKey(id, now)
      .catch((error: unknown) =>
        log.error({ err: error, api_key_id: id }, 'the last use of an API key is not noted'),
      )
      .finally(() => notes.delete(id));
    notes.set(id, note);
  }

  return {
    async create(principal, body) {
      const scopes = body.scopes ?? [...principal.scopes];
      requireScopes(principal, scopes);
      requireFuture(body.expires_at, clock);
      const { secret, hash, prefix } = newApiKeySecret();
      const { apiKey } = await apiKeys.create(principal, { ...body, scopes, hash, prefix });
      return { key: secret, api_key: apiKey };
    },
    async update(principal, id, change, ifMatch) {
      requireFuture(change.expires_at, clock);
      requireScopes(principal, change.scopes ?? []);
      const revives = change.disabled === false || change.expires_at !== undefined;
      if (!revives || change.scopes) return apiKeys.update(principal, id, change, ifMatch);
      // The scopes that come back to life are those read here: a change in between makes the tag fail.
      const key = await apiKeys.find(principal, id);
      if (key) requireScopes(principal, key.apiKey.scopes);
      return apiKeys.update(principal, id, change, ifMatch ?? key?.etag);
    },
    async authenticate(secret) {
      const owner = await principals.byApiKeyHash(hashOf(secret), clock.now());
      if (!owner)
        throw new Problem('credential_invalid', 'There is no such API key; it may have been revoked.');
      refuseEnded(owner.apiKey);
      noteUse(owner.apiKey);
      return principalFrom(owner);
    },
    async principalOf(keyId) {
      const owner = await principals.byApiKey(keyId, clock.now());
      return !owner || owner.apiKey.disabled || owner.apiKey.expired ? null : principalFrom(owner);
    },
    async settled() {
      await Promise.all(notes.values());
    },
  };
}

function principalFrom(owner: ApiKeyOwner): Principal {
  return toPrincipal(owner, { kind: 'api_key', id: owner.apiKey.id, scopes: owner.apiKey.scopes });
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
