/** OpenID Connect providers: where to send a browser, and who it is that came back. */
import { createHmac } from 'node:crypto';
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type ClientAuth,
  ClientError,
  ClientSecretBasic,
  ClientSecretPost,
  type Configuration,
  calculatePKCECodeChallenge,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  None,
  ResponseBodyError,
} from 'openid-client';
import type { Log } from '../log.ts';
import { fetchFrom, type Outbound, OutboundError, outboundErrorIn } from '../outbound/outbound.ts';
import { Problem } from '../problem.ts';

/** One provider, as the operator has set it up. */
export interface OidcProvider {
  readonly name: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | null;
  readonly scopes: string;
  readonly registration: 'open' | 'invite';
  /** The organization that accounts made through it join; null gives each one of their own. */
  readonly organizationId: string | null;
  readonly role: 'admin' | 'member' | 'viewer';
  readonly trustEmail: boolean;
}

/** Whom a provider vouches for. */
export interface OidcPerson {
  readonly issuer: string;
  readonly subject: string;
  /** Null where the provider says nothing of it. */
  readonly email: string | null;
  readonly emailVerified: boolean;
  readonly name: string | null;
}

/** What the provider sent the browser back with. */
export interface OidcAnswer {
  readonly state: string;
  readonly code: string;
  readonly iss?: string | undefined;
}

export interface OidcProviders {
  /** Throws `not_found` where the operator has set up no such provider. */
  find(name: string): OidcProvider;
  /** The page of the provider for one attempt. Throws `oidc_provider_failed`. */
  pageFor(
    provider: OidcProvider,
    attempt: { readonly state: string; readonly browser: string },
  ): Promise<string>;
  /**
   * Proves an answer, and says who it is about. Throws `oidc_login_invalid` for what proves nothing, and
   * `oidc_provider_failed` where the provider cannot be asked.
   */
  personOf(provider: OidcProvider, browser: string, answer: OidcAnswer): Promise<OidcPerson>;
}

export interface OidcProvidersOptions {
  readonly providers: readonly OidcProvider[];
  /** The address that browsers reach this server by. */
  readonly baseUrl: () => string;
  readonly outbound: Pick<Outbound, 'fetchFor'>;
  readonly log: Log;
}

/** Keys and addresses of a provider may change; an hour is what most of them let others keep theirs. */
const rediscoverMs = 3_600_000;
const answerWithinSeconds = 10;
/** Metadata, keys and tokens take a few kilobytes. */
const mostAnswerBytes = 1024 * 1024;

export function createOidcProviders({
  providers,
  baseUrl,
  outbound,
  log,
}: OidcProvidersOptions): OidcProviders {
  const known = new Map<string, { readonly found: Promise<Configuration>; readonly at: number }>();

  async function configurationOf(provider: OidcProvider): Promise<Configuration> {
    const before = known.get(provider.name);
    const isKnown = before && performance.now() - before.at < rediscoverMs;
    const asked = isKnown ? before : { found: discover(provider, outbound), at: performance.now() };
    known.set(provider.name, asked);
    try {
      return await asked.found;
    } catch (error) {
      // Others who wait for it may have asked anew by now.
      if (known.get(provider.name) === asked) known.delete(provider.name);
      throw failed(provider, error, log);
    }
  }

  const callbackOf = ({ name }: OidcProvider): URL =>
    new URL(`/api/v1/auth/oidc/${name}/callback`, baseUrl());

  return {
    find(name) {
      const provider = providers.find((one) => one.name === name);
      if (!provider) throw new Problem('not_found', 'There is no such provider to log in through.');
      return provider;
    },
    async pageFor(provider, { state, browser }) {
      const configuration = await configurationOf(provider);
      return buildAuthorizationUrl(configuration, {
        redirect_uri: callbackOf(provider).href,
        scope: provider.scopes,
        state,
        nonce: nonceOf(browser),
        code_challenge: await calculatePKCECodeChallenge(verifierOf(browser)),
        code_challenge_method: 'S256',
      }).href;
    },
    async personOf(provider, browser, answer) {
      const configuration = await configurationOf(provider);
      const url = callbackOf(provider);
      for (const [name, value] of Object.entries(answer))
        if (value !== undefined) url.searchParams.set(name, value);
      try {
        return await prove(configuration, url, answer.state, browser);
      } catch (error) {
        throw isProvidersFault(error) ? failed(provider, error, log) : unproved(provider, error, log);
      }
    },
  };
}

async function discover(
  provider: OidcProvider,
  outbound: OidcProvidersOptions['outbound'],
): Promise<Configuration> {
  const issuer = new URL(provider.issuer);
  // The operator names the issuer; where it has its other endpoints, the issuer says.
  const fetch = fetchFrom(issuer, outbound, 'operator', { maxBytes: mostAnswerBytes });
  const configuration = await discovery(issuer, provider.clientId, undefined, authentication(provider), {
    // The library's type of a body is wider than what it sends: text, and forms.
    [customFetch]: (url, init) => fetch(url, init as RequestInit),
    timeout: answerWithinSeconds,
    // The settings let it be without TLS on this machine alone.
    execute: issuer.protocol === 'http:' ? [allowInsecureRequests] : [],
  });
  if (configuration.serverMetadata().issuer !== provider.issuer)
    throw new Error(`the provider calls itself ${configuration.serverMetadata().issuer}`);
  enableNonRepudiationChecks(configuration);
  return configuration;
}

/** By the header unless the provider says that it takes the secret in the body alone (OpenID Connect Core, 9). */
function authentication({ clientSecret }: OidcProvider): ClientAuth {
  if (clientSecret === null) return None();
  const [basic, post] = [ClientSecretBasic(clientSecret), ClientSecretPost(clientSecret)];
  return (server, ...rest) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    return (methods.includes('client_secret_basic') ? basic : post)(server, ...rest);
  };
}

async function prove(
  configuration: Configuration,
  url: URL,
  state: string,
  browser: string,
): Promise<OidcPerson> {
  const tokens = await authorizationCodeGrant(configuration, url, {
    expectedState: state,
    expectedNonce: nonceOf(browser),
    pkceCodeVerifier: verifierOf(browser),
    idTokenExpected: true,
  });
  const proved = tokens.claims();
  if (!proved) throw new Error('The provider gave no ID token.');
  const { issuer, userinfo_endpoint } = configuration.serverMetadata();
  const asks = proved.email === undefined && userinfo_endpoint !== undefined;
  const claims = asks ? await fetchUserInfo(configuration, tokens.access_token, proved.sub) : proved;
  return {
    issuer,
    subject: proved.sub,
    email: emailOf(claims.email),
    emailVerified: claims.email_verified === true,
    name: textOf(claims.name, 200),
  };
}

/** Nothing is cut out of it, which would make another address of it. */
function emailOf(claim: unknown): string | null {
  return typeof claim === 'string' && claim !== '' && claim.length <= 254 ? claim : null;
}

/** What a provider says of a person is input, as what that person types. */
function textOf(claim: unknown, longest: number): string | null {
  if (typeof claim !== 'string' || !claim.isWellFormed()) return null;
  const text = claim.replace(/[\p{Cc}\p{Cf}]/gu, '').trim();
  return text === '' || text.length > longest ? null : text;
}

/** Only the browser has the secret that these come from, so that they need be stored nowhere. */
function verifierOf(browser: string): string {
  return createHmac('sha256', browser).update('code verifier').digest('base64url');
}

function nonceOf(browser: string): string {
  return createHmac('sha256', browser).update('nonce').digest('base64url');
}

/** Whether the provider could not be asked; the rest is what the browser brought along. */
function isProvidersFault(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof OutboundError) return true;
    if (at instanceof ResponseBodyError && (at.status >= 500 || at.error === 'invalid_client')) return true;
    if (at instanceof ClientError && at.code === 'OAUTH_TIMEOUT') return true;
    // A response with no word of the protocol, as of a proxy before the provider; its class is that of the HTTP client.
    const { status } = (at.cause ?? {}) as { status?: unknown }; // whatever the cause is
    if (at instanceof ClientError && typeof status === 'number' && status >= 500) return true;
  }
  return false;
}

function failed({ name }: OidcProvider, error: unknown, log: Log): Problem {
  log.warn({ provider: name, ...reasonOf(error) }, 'an identity provider failed');
  return new Problem(
    'oidc_provider_failed',
    `The identity provider ${name} did not answer as it should; try again, or log in another way.`,
  );
}

function unproved({ name }: OidcProvider, error: unknown, log: Log): Problem {
  log.warn({ provider: name, ...reasonOf(error) }, 'a login through an identity provider proved nothing');
  return new Problem(
    'oidc_login_invalid',
    `What came back from ${name} proves nothing; begin the login again.`,
  );
}

/** The error itself may hold the answer of the provider, tokens included. */
function reasonOf(error: unknown): { readonly reason: string; readonly code: string | null } {
  // What the guard says names the way out; the library around it only says that something went wrong.
  const { message, code } = (outboundErrorIn(error) ?? error) as { message?: unknown; code?: unknown }; // whatever was thrown
  return { reason: String(message), code: typeof code === 'string' ? code : null };
}
