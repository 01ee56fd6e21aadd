/** Who somebody is: accounts, logins, API keys, and the first start. The face of this folder. */
import { type Clock, steadyClock } from '../clock.ts';
import type {
  ApiKeyCreate,
  ApiKeyCreated,
  ApiKeyUpdate,
  LoginRequest,
  RegisterRequest,
  TokenPair,
} from '../contract/api.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { createAccessTokens } from './access-tokens.ts';
import { createAccounts, type Registration } from './accounts.ts';
import { createApiKeys } from './api-keys.ts';
import { bootstrap, type FirstCredential, type FirstStart } from './bootstrap.ts';
import { createLogins } from './logins.ts';
import { keepsItsRights, type Principal } from './principal.ts';
import { createProcessKeys } from './process-key.ts';
import type { IdentityRecords, TaggedApiKey } from './records.ts';
import { createSealing } from './sealing.ts';
import { createSigningKeys } from './signing-keys.ts';

export type { FirstCredential, FirstStart } from './bootstrap.ts';
export { loadMasterKey } from './master-key.ts';
export type { Principal } from './principal.ts';
export type { Origin } from './records.ts';

/** Everything the server knows about who may come in. */
export interface Identity {
  /** By its form, an access token or an `sk-` key. Throws `credential_invalid` or `credential_expired`. */
  authenticate(credential: string): Promise<Principal>;
  /**
   * For open streams: false once the credential was revoked or lost a right. That an access token has expired
   * in the meantime does not count.
   */
  stillValid(principal: Principal): Promise<boolean>;
  register(body: RegisterRequest): Promise<TokenPair>;
  login(body: LoginRequest): Promise<TokenPair>;
  refresh(refreshToken: string): Promise<TokenPair>;
  logout(principal: Principal, allDevices: boolean): Promise<void>;
  createApiKey(principal: Principal, body: ApiKeyCreate): Promise<ApiKeyCreated>;
  /** Throws `scope_required` where the change would give the key a right that its changer lacks. */
  updateApiKey(
    principal: Principal,
    id: string,
    change: ApiKeyUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedApiKey>;
  /** A key that acts for the operator until this process ends, for the command that has the server inside. */
  issueProcessKey(): Promise<string>;
  /** Makes the operator, or a token to become it; null once there is one. Call it once at each start. */
  bootstrap(start: FirstStart): Promise<FirstCredential | null>;
  /** How many accounts there are: a second one turns `single` into `multi`. */
  accounts(): Promise<number>;
  /** Waits for what goes on behind answers that were given; call it before the store closes. */
  settled(): Promise<void>;
}

export interface IdentityOptions {
  readonly records: IdentityRecords;
  readonly masterKey: Uint8Array;
  readonly registration: Registration;
  readonly clock: Clock;
  /** Milliseconds that have passed, whatever happens to the clock. */
  readonly elapsed?: () => number;
  readonly log: Log;
  /** Called with the new count before an account that registered gets its first token. */
  readonly onRegistered?: (accounts: number) => void | Promise<void>;
}

/** A longer credential cannot be one of ours; it is refused before anything is computed of it. */
const longestCredential = 4096;

/** Throws at once where the master key is not the one that this database was sealed with. */
export async function createIdentity(options: IdentityOptions): Promise<Identity> {
  const { records, log } = options;
  const clock = steadyClock(options.clock, options.elapsed);
  const signingKeys = createSigningKeys(records.signingKeys, createSealing(options.masterKey), clock);
  const accounts = createAccounts(records.users, options.registration);
  const logins = createLogins(records, createAccessTokens(signingKeys, clock), clock);
  const apiKeys = createApiKeys(records, clock, log);
  const processKeys = createProcessKeys(records.principals);
  await signingKeys.signer();

  return {
    async authenticate(credential) {
      if (credential.length > longestCredential) throw unknownForm();
      if (credential.startsWith('sk-'))
        return (await processKeys.authenticate(credential)) ?? apiKeys.authenticate(credential);
      if (credential.split('.').length === 3) return logins.authenticate(credential);
      throw unknownForm();
    },
    async stillValid(principal) {
      const { principalOf } = principal.credential === 'login' ? logins : apiKeys;
      const { credentialId } = principal;
      const now = (await processKeys.principalOf(credentialId)) ?? (await principalOf(credentialId));
      return now !== null && keepsItsRights(principal, now);
    },
    async register(body) {
      const user = await accounts.register(body);
      await options.onRegistered?.(await records.users.count());
      return logins.start(user);
    },
    async login(body) {
      return logins.start(await accounts.check(body));
    },
    refresh: logins.refresh,
    logout: logins.end,
    createApiKey: apiKeys.create,
    updateApiKey: apiKeys.update,
    issueProcessKey: processKeys.issue,
    bootstrap: (start) => bootstrap(start, records, apiKeys, clock),
    accounts: () => records.users.count(),
    settled: apiKeys.settled,
  };
}

function unknownForm(): Problem {
  return new Problem('credential_invalid', 'This is neither an access token nor an API key of this server.');
}
