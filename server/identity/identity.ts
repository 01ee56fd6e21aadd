/** Who somebody is: accounts, logins, API keys, and the first start. The face of this folder. */
import { type Clock, steadyClock } from '../clock.ts';
import type {
  AccountCreate,
  AccountCreated,
  ApiKeyCreate,
  ApiKeyCreated,
  ApiKeyRotate,
  ApiKeyUpdate,
  LoginRequest,
  Mfa,
  MfaConfirmed,
  MfaEnrolled,
  PasswordChange,
  PasswordReset,
  PasswordResetLink,
  PasswordResetRequested,
  RegisterRequest,
  TokenPair,
} from '../contract/api.ts';
import type { Log } from '../log.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { Problem } from '../problem.ts';
import { type Absence, type AbsentPerson, principalFor } from './absent-people.ts';
import { createAccessTokens } from './access-tokens.ts';
import { createAccounts, normalisedEmail, type Registration } from './accounts.ts';
import { createApiKeys } from './api-keys.ts';
import { bootstrap, type FirstCredential, type FirstStart, type Show } from './bootstrap.ts';
import { createDeviceLogins, type DeviceLogins } from './device-logins.ts';
import { createInvitations, type Invitations } from './invitations.ts';
import { createKeptRequests, type KeepMeanwhile, type KeptRequests } from './kept-requests.ts';
import { answered, createLoginBrake } from './login-brake.ts';
import { createLogins } from './logins.ts';
import { createPerson } from './new-people.ts';
import { createNotices, type Mailer } from './notices.ts';
import { createOidcLogins, type OidcLogins } from './oidc.ts';
import { createOidcProviders, type OidcProvider } from './oidc-providers.ts';
import { createOwnPasswords } from './own-passwords.ts';
import { createPasswordResets } from './password-resets.ts';
import { isWhole, keepsItsRights, type Principal } from './principal.ts';
import { createProcessKeys } from './process-key.ts';
import type { IdentityRecords, Origin, TaggedApiKey, UserRecords } from './records.ts';
import { createSealing, type MasterKeys } from './sealing.ts';
import { createSecondFactors } from './second-factor.ts';
import { createSigningKeys } from './signing-keys.ts';

export type { FirstCredential, FirstStart } from './bootstrap.ts';
export {
  beginRotation,
  endRotation,
  followMasterKey,
  holdsMasterKey,
  loadMasterKey,
  type MasterKey,
} from './master-key.ts';
export type { Mailer } from './notices.ts';
export { passwordQueues } from './passwords.ts';
export type { Principal } from './principal.ts';
export type { Origin } from './records.ts';
export { createSealing, idOf, type Sealing } from './sealing.ts';

/** Everything the server knows about who may come in. */
export interface Identity {
  /**
   * By its form, an access token or an `sk-` key, that came from an address. Throws `credential_invalid`,
   * `credential_expired` or `account_suspended`; for keys also `address_refused` or `rate_limited`.
   */
  authenticate(credential: string, address?: string | null): Promise<Principal>;
  /**
   * For open streams, all of one credential: false once it was revoked, or has lost a right that the stream was begun
   * with. That an access token has expired in the meantime does not count.
   */
  stillValid(principals: readonly Principal[]): Promise<readonly boolean[]>;
  /** For what the server does for somebody who is not there: who they are by now, or why nobody may act for them. */
  actingFor(person: AbsentPerson): Promise<Principal | Absence>;
  /** Without an origin the server itself asks, from nowhere. */
  register(body: RegisterRequest, origin?: Origin): Promise<TokenPair>;
  /** Throws `login_failed`, `otp_required`, `account_suspended` or `too_many_attempts`. */
  login(body: LoginRequest, origin?: Origin): Promise<TokenPair>;
  refresh(refreshToken: string, origin?: Origin): Promise<TokenPair>;
  /** Logging in through OpenID Connect. */
  readonly oidc: OidcLogins;
  /** Logging in by a code that a person confirms elsewhere. */
  readonly devices: DeviceLogins;
  logout(principal: Principal, allDevices: boolean): Promise<void>;
  /** Answers the same for every address. Throws `too_many_attempts`. */
  requestPasswordReset(email: string, origin: Origin): Promise<PasswordResetRequested>;
  /** Throws `not_found` where no account has the address. */
  createPasswordResetLink(principal: Principal, email: string): Promise<PasswordResetLink>;
  /** Throws `reset_link_expired`. */
  resetPassword(body: PasswordReset, origin: Origin): Promise<void>;
  /** Throws `password_wrong`. */
  changePassword(principal: Principal, body: PasswordChange): Promise<void>;
  mfa(principal: Principal): Promise<Mfa>;
  /** Throws `password_wrong` or `mfa_conflict`. */
  enrollMfa(principal: Principal, password: string): Promise<MfaEnrolled>;
  /** Throws `otp_invalid` or `mfa_conflict`. */
  confirmMfa(principal: Principal, code: string): Promise<MfaConfirmed>;
  /** Throws `otp_invalid` or `mfa_conflict`. */
  disableMfa(principal: Principal, code: string): Promise<void>;
  createApiKey(principal: Principal, body: ApiKeyCreate): Promise<ApiKeyCreated>;
  /** Throws `scope_required` where the change would give the key a right that its changer lacks. */
  updateApiKey(
    principal: Principal,
    id: string,
    change: ApiKeyUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedApiKey>;
  /** Throws `login_required` where another key is ended with one that is limited. */
  revokeApiKey(principal: Principal, id: string, ifMatch?: string | undefined): Promise<void>;
  /** Into an organization. The token is sent by e-mail, or answered once where that cannot be. */
  invite: Invitations['create'];
  /** Joins the organization of the invitation. Throws `invitation_gone` or `already_member`. */
  acceptInvitation: Invitations['accept'];
  /** An account for somebody else, who sets a password with a link. Throws `role_required`, `not_found`, `email_taken`. */
  createPerson(
    principal: Principal,
    body: AccountCreate,
    keep: KeepMeanwhile<AccountCreated>,
  ): Promise<AccountCreated>;
  /** Throws `scope_required` for a key with rights that the caller lacks. */
  rotateApiKey(
    principal: Principal,
    id: string,
    body: ApiKeyRotate,
    ifMatch?: string | undefined,
  ): Promise<{ readonly created: ApiKeyCreated; readonly etag: string }>;
  /** A key that acts for the operator until this process ends, for the command that has the server inside. */
  issueProcessKey(): Promise<string>;
  /**
   * Makes the operator, or a token to become it; null once there is one. Call it once at each start. An operator whose
   * credential could not be shown is not made.
   */
  bootstrap(start: FirstStart, show?: Show): Promise<FirstCredential | null>;
  /** Requests with an Idempotency-Key, and what they were answered. */
  readonly requests: KeptRequests;
  /** How many accounts there are: a second one turns `single` into `multi`. */
  accounts(): Promise<number>;
  /** Waits for what goes on behind answers that were given; call it before the store closes. */
  settled(): Promise<void>;
}

export interface IdentityOptions {
  readonly records: IdentityRecords;
  readonly masterKey: Uint8Array | MasterKeys;
  readonly registration: Registration;
  /** How often one address may fail to log in to one account within a quarter of an hour; 0 brakes nothing. */
  readonly loginAttempts?: number;
  /** Null or absent where this server sends no mail. */
  readonly mailer?: Mailer | null;
  /** How people reach this server, for links. */
  readonly publicUrl?: string | null;
  readonly clock: Clock;
  /** Milliseconds that have passed, whatever happens to the clock. */
  readonly elapsed?: () => number;
  readonly log: Log;
  /** The address that browsers reach this server by. */
  readonly baseUrl: () => string;
  readonly oidcProviders?: readonly OidcProvider[];
  readonly outbound: Pick<Outbound, 'fetchFor'>;
  /** Called with the new count before an account that registered, or was made, gets in. */
  readonly onRegistered?: (accounts: number) => void;
}

/** A longer credential cannot be one of ours; it is refused before anything is computed of it. */
const longestCredential = 4096;

/** What nobody needs who knows their password, and far too few for guessing one. */
const defaultLoginAttempts = 10;

/** Throws at once where the master key is not the one that this database was sealed with. */
export async function createIdentity(options: IdentityOptions): Promise<Identity> {
  const { records, log } = options;
  const clock = steadyClock(options.clock, options.elapsed, (milliseconds) =>
    log.warn(
      { ahead_seconds: Math.round(milliseconds / 1000) },
      'the clock of this machine was set back since the server started: what it issues, and what expires, goes by the later time until it starts anew',
    ),
  );
  const sealing = createSealing(options.masterKey);
  const signingKeys = createSigningKeys(records.signingKeys, sealing, clock);
  const logins = createLogins(records, createAccessTokens(signingKeys, clock), clock, log);
  const apiKeys = createApiKeys(records, clock, log);
  const processKeys = createProcessKeys(records.principals);
  const brake = createLoginBrake(
    records.counters,
    records.loginAddresses,
    options.loginAttempts ?? defaultLoginAttempts,
  );
  const accounts = createAccounts(records, brake, options.registration, clock);
  const notices = createNotices(options.mailer ?? null, options.publicUrl ?? null, log);
  const ownPasswords = createOwnPasswords(records.passwords, brake);
  const invitations = createInvitations({ ...options, brake, notices, clock });
  const resets = createPasswordResets({
    records: records.passwords,
    ...{ brake, notices, clock, log },
  });
  // Apps go by the time that it is, also where this server began with a later one; no code is good twice in any case.
  const secondFactors = createSecondFactors(records.secondFactors, sealing, brake, options.clock);
  const onRegistered = async () => options.onRegistered?.(await records.users.count());
  const { baseUrl, outbound, oidcProviders = [] } = options;
  const providers = createOidcProviders({ providers: oidcProviders, baseUrl, outbound, log });
  await signingKeys.signer();

  return {
    requests: createKeptRequests(records.keptRequests, sealing, clock),
    async authenticate(credential, address = null) {
      if (credential.length > longestCredential) throw unknownForm();
      if (credential.startsWith('sk-'))
        return (await processKeys.authenticate(credential)) ?? apiKeys.authenticate(credential, address);
      if (credential.split('.').length === 3) return logins.authenticate(credential, address);
      throw unknownForm();
    },
    actingFor: (person) => principalFor(person, { principals: records.principals, clock }),
    async stillValid(principals) {
      const [first] = principals;
      if (!first) return [];
      const { principalOf } = first.credential === 'login' ? logins : apiKeys;
      const { credentialId } = first;
      const now = (await processKeys.principalOf(credentialId)) ?? (await principalOf(credentialId));
      if (now === null) return principals.map(() => false);
      if (principals.every((before) => keepsItsRights(before, now))) return principals.map(() => true);
      // A workspace that is deleted takes no right away from what goes on elsewhere.
      const ids = new Set(principals.flatMap(({ workspaces }) => workspaces.map(({ id }) => id)));
      const existing = await records.principals.existingWorkspaces([...ids]);
      return principals.map((before) => {
        const workspaces = before.workspaces.filter(({ id }) => existing.has(id));
        return keepsItsRights({ ...before, workspaces }, now);
      });
    },
    async register(body, origin) {
      const user = await accounts.register(body, origin);
      await onRegistered();
      await brake.welcome(user, (origin ?? nowhere).address);
      return logins.start(user, { method: 'registration', device: origin?.userAgent ?? null, origin });
    },
    async login(body, given) {
      const origin = given ?? nowhere;
      const attempt = await brake.begin(normalisedEmail(body.email), origin.address);
      const account = await answered(attempt, accounts.check(body));
      await attempt.takeBack();
      await secondFactors.require(account.user, body.otp, origin);
      await brake.welcome(account.user, origin.address);
      const beginning = { method: 'password', device: origin.userAgent ?? null, origin: given } as const;
      const pair = await logins.startUnchanged(account, beginning);
      if (!pair)
        throw new Problem(
          'login_failed',
          'The password was changed while this login began; log in with the new one.',
        );
      return pair;
    },
    requestPasswordReset: resets.request,
    async createPasswordResetLink(principal, email) {
      await refuseToBecomeOperator(principal, email, records.users);
      return resets.createLink(principal, email);
    },
    resetPassword: ({ token, password }, origin) => resets.reset(token, password, origin),
    async changePassword(principal, { current_password, new_password }) {
      await ownPasswords.change(principal, current_password, new_password);
      notices.passwordChanged(recipient(principal));
    },
    mfa: ({ userId }) => secondFactors.state(userId),
    async enrollMfa(principal, password) {
      await ownPasswords.confirm(principal, password);
      return secondFactors.enroll(principal);
    },
    async confirmMfa(principal, code) {
      const confirmed = await secondFactors.confirm(principal, code);
      notices.secondFactorChanged(recipient(principal), 'on');
      return confirmed;
    },
    async disableMfa(principal, code) {
      await secondFactors.disable(principal, code);
      notices.secondFactorChanged(recipient(principal), 'off');
    },
    oidc: createOidcLogins({ records: records.oidc, providers, logins, clock, onRegistered }),
    devices: createDeviceLogins(records.deviceLogins, { logins, clock, baseUrl }),
    refresh: logins.refresh,
    logout: logins.end,
    createApiKey: apiKeys.create,
    updateApiKey: apiKeys.update,
    revokeApiKey: apiKeys.revoke,
    invite: invitations.create,
    acceptInvitation: invitations.accept,
    rotateApiKey: apiKeys.rotate,
    async createPerson(principal, body, keep) {
      const created = await createPerson(principal, body, { people: records.people, resets, keep });
      const count = await records.users.count();
      // There is no such account where its request is undone.
      records.keptRequests.whenCommitted(() => options.onRegistered?.(count));
      return created;
    },
    issueProcessKey: processKeys.issue,
    bootstrap: (start, show = async () => undefined) => bootstrap(start, records, apiKeys, clock, show),
    accounts: () => records.users.count(),
    async settled() {
      await resets.settled();
      await Promise.all([apiKeys.settled(), logins.settled(), notices.settled()]);
    },
  };
}

/** A link to the password of an operator is worth a login of theirs: who holds less may not make one. */
async function refuseToBecomeOperator(
  principal: Principal,
  email: string,
  users: Pick<UserRecords, 'findForLogin'>,
): Promise<void> {
  if (isWhole(principal) || !(await users.findForLogin(normalisedEmail(email)))?.user.operator) return;
  throw new Problem(
    'login_required',
    'This API key is limited, and with a link to the password of an operator it could do what they may: log in, or use a key of the operator with all scopes and no other limit.',
  );
}

const nowhere: Origin = { requestId: '', address: null, credential: null };

function recipient({ userId, email }: Principal) {
  return { id: userId, email };
}

function unknownForm(): Problem {
  return new Problem('credential_invalid', 'This is neither an access token nor an API key of this server.');
}
