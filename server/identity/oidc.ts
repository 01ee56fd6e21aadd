/** Logging in through OpenID Connect: one attempt of one browser, from its first page to its tokens. */
import type { Clock } from '../clock.ts';
import type { OidcIdentity, TokenPair, User } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { newAccount } from './accounts.ts';
import type { Logins } from './logins.ts';
import type { OidcPerson, OidcProvider, OidcProviders } from './oidc-providers.ts';
import { hashOf, newBrowserSecret, newLoginCode, newPassword, newState } from './opaque-tokens.ts';
import type { AttemptAccount, OidcRecords, Origin, Owner } from './records.ts';

/** Where a browser is sent, and by what it will be known when it comes back. */
export interface OidcStart {
  readonly page: string;
  /** The secret for its cookie. */
  readonly browser: string;
}

/** What the provider sent the browser back with; `error` in place of `code` where it refuses. */
export interface OidcReturn {
  readonly state: string;
  readonly code?: string | undefined;
  readonly iss?: string | undefined;
  readonly error?: string | undefined;
}

export interface OidcLogins {
  /** Begins an attempt; with an owner, to link a provider to their account, for as long as their login goes on. */
  start(
    provider: string,
    returnTo: string,
    owner: Pick<Owner, 'userId' | 'origin'> | null,
  ): Promise<OidcStart>;
  /**
   * Ends an attempt: the path to send the browser to, with its outcome in the fragment. Throws `oidc_login_invalid`,
   * `oidc_provider_failed`.
   */
  complete(provider: string, back: OidcReturn, browser: string | undefined, origin: Origin): Promise<string>;
  /** Who is linked to the caller's account; all throw `not_found` for a provider that is none. */
  linked(provider: string, owner: Owner): Promise<OidcIdentity[]>;
  /** From now on nobody of the provider gets into the caller's account. */
  unlink(provider: string, owner: Owner): Promise<void>;
  /** The tokens for the code that the browser was sent away with. Throws `oidc_login_invalid`. */
  redeem(code: string, browser: string | undefined, origin: Origin): Promise<TokenPair>;
}

export interface OidcOptions {
  readonly records: OidcRecords;
  readonly providers: OidcProviders;
  readonly logins: Logins;
  readonly clock: Clock;
  /** Called before an account that was made gets its first token. */
  readonly onRegistered: () => Promise<void>;
}

/** So long may a person be at the provider. */
const attemptSeconds = 600;
/** So long has the page that they come back to. */
const codeSeconds = 60;

/** How an attempt ended, for the page. */
type Refusal = 'access_denied' | 'registration_refused' | 'email_taken' | 'identity_taken';

export function createOidcLogins({
  records,
  providers,
  logins,
  clock,
  onRegistered,
}: OidcOptions): OidcLogins {
  const inSeconds = (seconds: number) => new Date(clock.now().getTime() + seconds * 1000);

  async function userFor(
    provider: OidcProvider,
    person: OidcPerson,
    origin: Origin,
  ): Promise<User | Refusal> {
    const known = await records.userOf(person, clock.now());
    if (known) return known;
    const account = await accountFor(provider, person);
    if (!account) return 'registration_refused';
    try {
      const { organizationId, role } = provider;
      const joins = organizationId === null ? null : { organizationId, role };
      const user = await records.createAccount({ ...account, joins }, person, origin);
      await onRegistered();
      return user;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // Of two logins that were their first, and came back at once, the other has made the account.
      const made = await records.userOf(person, clock.now());
      if (made) return made;
      if (error.code === 'email_taken' || error.code === 'registration_refused') return error.code;
      throw error;
    }
  }

  async function outcome(
    provider: OidcProvider,
    person: OidcPerson,
    { account, browser, origin }: { account: AttemptAccount | null; browser: string; origin: Origin },
  ): Promise<string> {
    if (account) {
      const linked = await records.link(person, account, origin);
      // A link that was begun before a new password, or by a login that has ended, would be a way in past that.
      if (linked === 'changed') throw unknownAttempt();
      return linked === 'linked' ? `linked=${provider.name}` : refusal('identity_taken');
    }
    const user = await userFor(provider, person, origin);
    if (typeof user === 'string') return refusal(user);
    const { secret, hash } = newLoginCode();
    await records.issueCode({
      codeHash: hash,
      browserHash: hashOf(browser),
      userId: user.id,
      expiresAt: inSeconds(codeSeconds),
    });
    return `login_code=${secret}`;
  }

  return {
    async start(name, returnTo, owner) {
      const provider = providers.find(name);
      const [state, browser] = [newState(), newBrowserSecret()];
      const page = await providers.pageFor(provider, { state: state.secret, browser });
      await records.begin({
        stateHash: state.hash,
        browserHash: hashOf(browser),
        provider: name,
        returnTo,
        userId: owner?.userId ?? null,
        origin: owner?.origin,
        expiresAt: inSeconds(attemptSeconds),
      });
      return { page, browser };
    },
    linked: async (name, owner) => records.linked(owner, providers.find(name).issuer),
    unlink: async (name, owner) => records.unlink(owner, providers.find(name).issuer),
    async complete(name, { state, code, iss, error }, browser, origin) {
      const provider = providers.find(name);
      if (browser === undefined) throw unknownAttempt();
      // Used up before anything else: whatever becomes of it, it comes no second time.
      const which = { stateHash: hashOf(state), browserHash: hashOf(browser), provider: name };
      const attempt = await records.take(which, clock.now());
      if (!attempt) throw unknownAttempt();
      const { returnTo, account } = attempt;
      if (error !== undefined) return `${returnTo}#${refusal('access_denied')}`;
      if (code === undefined) throw unknownAttempt();
      const person = await providers.personOf(provider, browser, { state, code, iss });
      return `${returnTo}#${await outcome(provider, person, { account, browser, origin })}`;
    },
    async redeem(code, browser, origin) {
      const which = { codeHash: hashOf(code), browserHash: hashOf(browser ?? '') };
      const then = await records.takeCode(which, clock.now());
      const beginning = { method: 'oidc', device: origin.userAgent ?? null, origin } as const;
      const pair = then && (await logins.startUnchanged(then, beginning));
      if (!pair) throw unknownAttempt();
      return pair;
    },
  };
}

/** Null where the provider does not vouch for enough to make an account of. */
async function accountFor(provider: OidcProvider, { email, emailVerified, name }: OidcPerson) {
  if (provider.registration !== 'open' || email === null || !isAddress(email)) return null;
  if (!emailVerified && !provider.trustEmail) return null;
  // Nobody logs in with it; the person can set one by mail.
  return { ...(await newAccount(email, newPassword(), name ?? undefined)), addressProved: true };
}

/** As the contract has it for everybody else: ASCII, so that no letter passes for another. */
function isAddress(email: string): boolean {
  return /^[!-?A-~]+@[!-?A-~]+$/.test(email);
}

function refusal(code: Refusal): string {
  return `login_error=${code}`;
}

function unknownAttempt(): Problem {
  return new Problem(
    'oidc_login_invalid',
    'This login is unknown, used or expired, or was begun in another browser; begin it again.',
  );
}
