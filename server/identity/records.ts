/** What identity needs of a store: one call is one transaction. The store fits; the assembly hands it in. */
import type {
  Account,
  ApiKey,
  ApiKeyCreate,
  ApiKeyUpdate,
  OidcIdentity as ContractIdentity,
  DeviceLogin,
  Invitation,
  InvitationCreate,
  LoginMethod,
  Membership,
  PermissionRule,
  Role,
  Scope,
  User,
} from '../contract/api.ts';
import type { RequestRecords } from './kept-requests.ts';

export interface IdentityRecords {
  readonly keptRequests: RequestRecords;
  readonly users: UserRecords;
  readonly people: PeopleRecords;
  readonly principals: PrincipalRecords;
  readonly logins: LoginRecords;
  readonly oidc: OidcRecords;
  readonly deviceLogins: DeviceLoginRecords;
  readonly signingKeys: SigningKeyRecords;
  readonly apiKeys: ApiKeyRecords;
  readonly invitations: InvitationRecords;
  readonly loginAddresses: LoginAddressRecords;
  readonly passwords: PasswordRecords;
  readonly secondFactors: SecondFactorRecords;
  readonly counters: Counters;
  /** All that `work` writes, or nothing. */
  transaction<T>(work: () => Promise<T>): Promise<T>;
}

/** Accounts that somebody makes for somebody else. */
export interface PeopleRecords {
  create(
    owner: Owner,
    person: {
      readonly email: string;
      readonly name: string;
      readonly passwordHash: string;
      readonly role: Role;
      readonly organizationId?: string | undefined;
    },
  ): Promise<{ readonly account: Account }>;
}

export interface UserRecords {
  count(): Promise<number>;
  hasOperator(): Promise<boolean>;
  /** Null where no account has this address. */
  findForLogin(email: string): Promise<UserThen | null>;
  /**
   * Makes the account with its organization and workspace and uses up its token, all or nothing. With a bootstrap
   * token it is the operator; with an invitation into an organization it joins that one instead. Throws `registration_refused` or `email_taken`.
   */
  createAccount(account: NewAccount): Promise<User>;
}

/** An account, and which password it had then. */
export interface UserThen {
  readonly user: User;
  readonly passwordHash: string;
}

export interface NewAccount {
  readonly email: string;
  readonly name: string;
  readonly passwordHash: string;
  readonly token?: ShownToken | undefined;
  /** A provider vouches for the address. */
  readonly addressProved?: boolean | undefined;
  /** Where the request came from; absent where the service makes the account itself. */
  readonly origin?: Origin | undefined;
}

/** A token to register with, as the store knows it: only its hash. */
export interface RegistrationToken {
  readonly kind: 'bootstrap' | 'invitation';
  readonly hash: string;
}

/** One that somebody comes with, and when. */
export interface ShownToken extends RegistrationToken {
  readonly at: Date;
}

/** Who a credential belongs to at this moment; each is one query. */
export interface PrincipalRecords {
  byLogin(loginId: string, now: Date): Promise<LoginOwner | null>;
  byApiKeyHash(hash: string, now: Date): Promise<ApiKeyOwner | null>;
  byApiKey(id: string, now: Date): Promise<ApiKeyOwner | null>;
  /** Null where the account is gone. */
  byUser(userId: string): Promise<CredentialOwner | null>;
  /** The account that runs the installation, the oldest where there are several; null before the first start. */
  operator(): Promise<CredentialOwner | null>;
  /** Those of the workspaces that have not been deleted. */
  existingWorkspaces(ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** Counts requests of a key, and notes its use, at most once a minute. */
  touchApiKey(id: string, use: ApiKeyUse): Promise<void>;
}

export interface ApiKeyUse {
  readonly at: Date;
  readonly address: string | null;
  readonly requests: number;
}

export interface CredentialOwner {
  readonly user: User;
  readonly memberships: readonly PrincipalMembership[];
  readonly workspaces: readonly ReachedWorkspace[];
}

/** A workspace in which somebody has a role: given to them or their group, or the default one of their organization. */
export interface ReachedWorkspace {
  readonly id: string;
  readonly organizationId: string;
  readonly role: Role;
}

export interface PrincipalMembership {
  readonly organizationId: string;
  readonly organizationName: string;
  readonly role: Role;
  readonly defaultWorkspaceId: string;
}

export interface LoginOwner extends CredentialOwner {
  readonly login: {
    readonly id: string;
    readonly ended: boolean;
    readonly expired: boolean;
    readonly lastSeenAt: Date | null;
  };
}

export interface ApiKeyOwner extends CredentialOwner {
  readonly apiKey: {
    readonly id: string;
    readonly scopes: readonly Scope[];
    readonly disabled: boolean;
    readonly expired: boolean;
    /** The one workspace that the key is bound to; without an organization it is gone. */
    readonly workspace: { readonly id: string; readonly organizationId: string | null } | null;
    readonly ipAllow: readonly string[];
    readonly permissionRules: readonly PermissionRule[];
    readonly rateLimit: number | null;
    readonly hasEnd: boolean;
    readonly hasQuota: boolean;
    /** Secrets with a lower number are not good any more. */
    readonly oldestSecret: number;
    /** The number of the secret that was given, and of the newest where none was. */
    readonly secretNumber: number;
    readonly lastUsedAt: Date | null;
  };
}

export interface LoginRecords {
  create(login: NewLogin): Promise<string>;
  /** Null where the account has another password by now, or is suspended, or where the device is let in no more. */
  createUnchanged(login: NewLogin, passwordHash: string): Promise<string | null>;
  /** Notes that a login was used, and from where; at most once a minute. */
  touch(loginId: string, address: string | null, now: Date): Promise<void>;
  /** The login that a refresh token is of, used or not. */
  loginOf(hash: string): Promise<string | null>;
  /** Exchanges a refresh token that was never used; one that was ends its login. */
  rotate(oldHash: string, newHash: string, now: Date, origin?: Origin): Promise<Rotation>;
  end(loginId: string, by: Actor): Promise<void>;
  endAll(userId: string, by: Actor): Promise<void>;
}

/** Who does something that is recorded: nobody known, or a person. */
export interface Actor {
  readonly userId: string | null;
  readonly origin?: Origin | undefined;
}

/** How a login begins, and where. */
export interface NewLogin {
  readonly userId: string;
  readonly refreshHash: string;
  readonly expiresAt: Date;
  readonly method: LoginMethod;
  /** What it calls itself. */
  readonly device: string | null;
  /** Absent where the server itself begins it. */
  readonly origin?: Origin | undefined;
  /** Of the device that was let in, and is not again. */
  readonly deviceHash?: string;
}

export type Rotation =
  | 'unknown'
  | 'expired'
  | 'reused'
  | 'spent'
  | { readonly loginId: string; readonly userId: string };

export interface SigningKeyRecord {
  readonly kid: string;
  readonly sealedPrivateKey: string;
  readonly publicJwk: Readonly<Record<string, unknown>>;
}

export interface StoredSigningKey extends SigningKeyRecord {
  readonly createdAt: Date;
}

export interface SigningKeyRecords {
  /** The newest first. */
  list(): Promise<readonly StoredSigningKey[]>;
  /** Its tokens are refused from then on. */
  remove(kid: string): Promise<void>;
  add(key: SigningKeyRecord): Promise<void>;
}

/** Where a request came from, for the audit log. */
export interface Origin {
  readonly requestId: string;
  readonly address: string | null;
  /** What the caller calls itself. */
  readonly userAgent?: string | null;
  readonly credential: { readonly kind: 'login' | 'api_key'; readonly id: string } | null;
}

/** Whose keys: the store's `Reach`. */
export interface Owner {
  readonly userId: string;
  readonly origin?: Origin | undefined;
  readonly memberships: readonly PrincipalMembership[];
  readonly organizationIds: readonly string[];
  readonly workspaces: readonly ReachedWorkspace[];
  readonly key?: { readonly secretNumber: number } | undefined;
  /** The least role that the operation asks for. */
  readonly needs?: Role;
}

export interface ApiKeyRecords {
  /** Throws `login_required` for the old secret of a key. */
  create(owner: Owner, key: NewApiKey): Promise<TaggedApiKey>;
  find(owner: Owner, id: string): Promise<TaggedApiKey | null>;
  /** Throws `not_found`, `precondition_failed`, or `login_required` for the old secret of a key. */
  update(
    owner: Owner,
    id: string,
    change: ApiKeyUpdate,
    ifMatch?: string | undefined,
    seen?: string | undefined,
  ): Promise<TaggedApiKey>;
  /** Another secret; the old one is good until then, or no more. Throws as `update`. */
  rotate(
    owner: Owner,
    id: string,
    secret: NewSecret,
    oldUntil: Date | null,
    ifMatch?: string | undefined,
    seen?: string | undefined,
  ): Promise<TaggedApiKey>;
  revoke(owner: Owner, id: string, ifMatch?: string | undefined): Promise<void>;
}

/** What a key is known by. */
export interface NewSecret {
  readonly hash: string;
  readonly prefix: string;
}

export interface NewApiKey extends Omit<ApiKeyCreate, 'scopes'>, NewSecret {
  readonly scopes: readonly Scope[];
}

export interface TaggedApiKey {
  readonly apiKey: ApiKey;
  readonly etag: string;
}

export interface InvitationRecords {
  add(token: RegistrationToken & { readonly expiresAt: Date }): Promise<void>;
  /** Throws `registration_refused` where nobody can use it. */
  requireOpen(token: ShownToken): Promise<void>;
  /** Into an organization. Throws `not_found`, `role_required`, or what speaks against the address. */
  create(
    owner: Owner,
    organizationId: string,
    invitation: InvitationCreate & { readonly hash: string },
  ): Promise<{ readonly invitation: Invitation; readonly organizationName: string }>;
  /** That it went to its address and to nobody else. */
  noteMailed(owner: Owner, organizationId: string, id: string): Promise<void>;
  /** Joins the organization. Throws `invitation_gone` or `already_member`. */
  accept(
    owner: Owner,
    hash: string,
    now: Date,
  ): Promise<{ readonly membership: Membership; readonly removed: number }>;
  /** Ends the unused tokens of a kind. */
  withdraw(kind: RegistrationToken['kind']): Promise<number>;
}

export interface LoginAddressRecords {
  /** Whether the account with this e-mail address has logged in from there. */
  isKnown(email: string, address: string, withinMs?: number): Promise<boolean>;
  remember(userId: string, address: string): Promise<void>;
}

export interface PasswordRecords {
  /** The hash of the caller's own password. */
  find(owner: Owner): Promise<string | null>;
  /** Ends the caller's other logins too. False where the password has another hash by now. */
  change(
    owner: Owner,
    hashes: { readonly from: string; readonly to: string },
    keepLoginId: string,
  ): Promise<boolean>;
  /** Null where the address has no account. */
  addReset(
    reset: {
      readonly email: string;
      readonly hash: string;
      readonly expiresAt: Date;
      readonly mailed: boolean;
      readonly organizationId?: string | null | undefined;
    },
    actor: Actor,
  ): Promise<User | null>;
  noteForgotten(email: string, actor: Actor): Promise<User | null>;
  isOpen(hash: string, now: Date): Promise<boolean>;
  /** Uses the link up and ends every login; null where it is not good. Counts what else was `removed`. */
  reset(
    hash: string,
    passwordHash: string,
    actor: Actor,
    now: Date,
  ): Promise<{ readonly user: User; readonly removed: number } | null>;
}

export interface SecondFactorRecord {
  readonly sealedSecret: string;
  /** Null until it was confirmed. */
  readonly confirmedAt: Date | null;
  readonly recoveryCodesLeft: number;
}

export interface SecondFactorRecords {
  find(userId: string): Promise<SecondFactorRecord | null>;
  /** Throws `mfa_conflict` where one is on. */
  enroll(owner: Owner, sealedSecret: string): Promise<void>;
  /** Throws `mfa_conflict` where no such secret waits. */
  confirm(owner: Owner, sealedSecret: string, step: number, recoveryHashes: readonly string[]): Promise<void>;
  /** False where a code of this time step, or of a later one, was taken before. */
  takeStep(userId: string, sealedSecret: string, step: number): Promise<boolean>;
  takeRecoveryCode(actor: Actor & { readonly userId: string }, hash: string): Promise<boolean>;
  remove(owner: Owner): Promise<boolean>;
}

/** Counts within a time, on all nodes together. `relaxed` is for what is counted with every request. */
export interface Counters {
  counter(limit: {
    readonly name: string;
    readonly most: number;
    readonly seconds: number;
    readonly relaxed?: boolean;
  }): Counter;
}

interface Count {
  readonly allowed: boolean;
  readonly resetMs: number;
}

export interface Counter {
  count(key: string): Promise<Count>;
  look(key: string): Promise<Count>;
  giveBack(key: string): Promise<void>;
  forget(key: string): Promise<void>;
}

/** See the store, which fits. */
export interface OidcRecords {
  begin(attempt: {
    readonly stateHash: string;
    readonly browserHash: string;
    readonly provider: string;
    readonly returnTo: string;
    readonly userId: string | null;
    readonly origin?: Origin | undefined;
    readonly expiresAt: Date;
  }): Promise<void>;
  /** Uses an attempt up; null where there is none of this browser and provider, or it has expired. */
  take(
    which: { readonly stateHash: string; readonly browserHash: string; readonly provider: string },
    now: Date,
  ): Promise<{ readonly returnTo: string; readonly account: AttemptAccount | null } | null>;
  userOf(identity: OidcIdentity, now: Date): Promise<User | null>;
  /** Throws `email_taken`, `registration_refused`, or `duplicate` where the identity is linked by now. */
  createAccount(
    account: NewAccount & { readonly joins: { readonly organizationId: string; readonly role: Role } | null },
    identity: OidcIdentity,
    origin: Origin,
  ): Promise<User>;
  /** `other` where it is linked to another account, `changed` where the account has another password, or the login has ended, by now. */
  link(
    identity: OidcIdentity,
    account: AttemptAccount,
    origin: Origin,
  ): Promise<'linked' | 'other' | 'changed'>;
  linked(owner: Owner, issuer: string): Promise<ContractIdentity[]>;
  unlink(owner: Owner, issuer: string): Promise<void>;
  issueCode(code: {
    readonly codeHash: string;
    readonly browserHash: string;
    readonly userId: string;
    readonly expiresAt: Date;
  }): Promise<void>;
  /** Uses a code up; null where there is none of this browser, or it has expired. */
  takeCode(
    which: { readonly codeHash: string; readonly browserHash: string },
    now: Date,
  ): Promise<UserThen | null>;
}

/** Whose account a provider is linked to, and by which login. */
export interface AttemptAccount {
  readonly userId: string;
  readonly loginId: string | null;
  readonly passwordHash: string;
}

/** Who somebody is at a provider. */
export interface OidcIdentity {
  readonly issuer: string;
  readonly subject: string;
}

/** See the store, which fits. */
export interface DeviceLoginRecords {
  open(device: OpenDeviceLogin, most: number, now: Date): Promise<'opened' | 'taken' | 'too_many'>;
  poll(
    deviceHash: string,
    now: Date,
  ): Promise<
    | 'authorization_pending'
    | 'slow_down'
    | 'access_denied'
    | 'expired_token'
    | (UserThen & { readonly clientName: string | null })
  >;
  find(owner: Owner, userCode: string, now: Date): Promise<DeviceLogin | HeldUp | null>;
  reply(
    owner: Owner,
    userCode: string,
    decision: 'allow' | 'deny',
    now: Date,
  ): Promise<'replied' | 'answered' | HeldUp | null>;
}

export interface OpenDeviceLogin {
  readonly deviceHash: string;
  readonly userCode: string;
  readonly clientName: string | null;
  readonly address: string | null;
  /** By which those that wait are counted. */
  readonly place: string;
  readonly intervalSeconds: number;
  readonly expiresAt: Date;
}

/** Somebody tries codes, and has to wait. */
interface HeldUp {
  readonly waitSeconds: number;
}
