/** The login that requests to a remote MCP server carry: kept, renewed once for all who wait, and made by a person. */
import { randomBytes } from 'node:crypto';
import {
  type AuthProvider,
  auth,
  extractWWWAuthenticateParams,
  type FetchLike,
  OAuthError,
} from '@modelcontextprotocol/client';
import type { OauthSettings } from './entry.ts';
import { LoginNeeded, McpFailure, oneLine } from './failure.ts';
import { keepLoginsInMemory, type LoginKeeper } from './login-keeper.ts';
import { type Interaction, type KeptLogin, OauthFlow } from './oauth-flow.ts';

export type { LoginKeeper } from './login-keeper.ts';

/** What the transport of one server is given. */
export interface Login {
  readonly provider: AuthProvider;
  /** The same fetch; it remembers which token each answer is about. */
  watching(fetch: FetchLike): FetchLike;
}

/** A token that ends so soon is renewed before it is sent. */
const marginMs = 10_000;

/** Who does not say how long he keeps others away does so for this long: a lock file counts as abandoned after 30 s. */
const shortestHoldMs = 25_000;

/** How a renewal ended. */
interface Renewed {
  /** What is to be kept now, also where it has failed. */
  readonly login: KeptLogin;
  readonly failure: unknown;
}

/** Where to log in, and for what, as a refusal says. */
interface Challenge {
  readonly resourceMetadataUrl?: URL;
  readonly scope?: string;
}

/** Null where the settings send a credential of their own, or forbid logins. */
export function loginTo(
  url: URL,
  settings: OauthSettings,
  headers: Readonly<Record<string, string>>,
  keeper: LoginKeeper,
): Login | null {
  const hasOwn = Object.keys(headers).some((name) => name.toLowerCase() === 'authorization');
  if (hasOwn || !settings.allowed) return null;
  // What a program gets for itself it can get again: nothing to keep beyond its life.
  const place = settings.grant === 'client_credentials' ? keepLoginsInMemory() : keeper;
  return new KeptLoginOf(url, settings, place);
}

class KeptLoginOf implements Login {
  readonly provider: AuthProvider;
  readonly #url: URL;
  readonly #settings: OauthSettings;
  readonly #keeper: LoginKeeper;
  readonly #sent = new WeakMap<Response, string | undefined>();
  #current: KeptLogin | null = null;
  #fetch: FetchLike = () => Promise.reject(new Error('A login is renewed by the fetch that it watches.'));

  constructor(url: URL, settings: OauthSettings, keeper: LoginKeeper) {
    this.#url = url;
    this.#settings = settings;
    this.#keeper = keeper;
    this.provider = {
      token: () => this.#token(),
      // The fetch that comes along adds the headers of the setting, which are for the server itself and no other.
      onUnauthorized: ({ response }) =>
        this.#renew(this.#sent.get(response), this.#fetch, extractWWWAuthenticateParams(response)),
    };
  }

  watching(fetch: FetchLike): FetchLike {
    this.#fetch = fetch;
    return async (url, init) => {
      const response = await fetch(url, init);
      const sent = new Headers(init?.headers).get('authorization');
      this.#sent.set(response, sent?.replace(/^Bearer /i, ''));
      return response;
    };
  }

  async #token(): Promise<string | undefined> {
    this.#current ??= await readLogin(this.#keeper, this.#url);
    // One that has ended is worth no request; how it is renewed, the answer to that request tells.
    return isOver(this.#current) ? undefined : this.#current.tokens?.access_token;
  }

  /** Whoever comes while others renew finds their new token in place of the one that was refused. */
  async #renew(refused: string | undefined, fetchFn: FetchLike, challenge: Challenge): Promise<void> {
    try {
      await this.#keeper.locked(this.#url.href, () => this.#renewAlone(refused, fetchFn, challenge));
    } catch (error) {
      if (error instanceof McpFailure) throw error;
      throw new McpFailure('its login cannot be renewed now', { cause: error });
    }
  }

  async #renewAlone(refused: string | undefined, fetchFn: FetchLike, challenge: Challenge): Promise<void> {
    const kept = await readLogin(this.#keeper, this.#url);
    this.#current = kept;
    // One that was not sent, since it is over, is nobody's new one.
    if (kept.tokens && kept.tokens.access_token !== refused && !isOver(kept)) return;
    const alone = this.#settings.grant === 'client_credentials';
    if (!alone && kept.tokens?.refresh_token === undefined) throw new LoginNeeded('it asks for a login');
    // A refresh token that two send may cost the login: whoever is let in next must not meet it on its way.
    const renewed = await this.#ask(kept, this.#keeper.holdsMs ?? shortestHoldMs, fetchFn, challenge);
    await this.#keep(kept, renewed.login);
    if (renewed.failure !== null) throw renewed.failure;
  }

  async #ask(
    kept: KeptLogin,
    limitMs: number,
    fetchFn: FetchLike,
    { resourceMetadataUrl, scope }: Challenge,
  ): Promise<Renewed> {
    const flow = new OauthFlow(this.#settings, kept, null);
    const wanted = this.#settings.scope ?? scope;
    const late = AbortSignal.timeout(limitMs);
    try {
      await auth(flow, {
        serverUrl: this.#url,
        fetchFn: fetchUntil(late, fetchFn),
        ...(resourceMetadataUrl && { resourceMetadataUrl }),
        ...(wanted !== undefined && { scope: wanted }),
      });
      return { login: flow.kept, failure: null };
    } catch (error) {
      const isLate = late.aborted && !(error instanceof LoginNeeded);
      return { login: flow.kept, failure: isLate ? tooLate(limitMs, error) : loginFailureOf(error) };
    }
  }

  /** A server that names another place to log in at for a moment must not cost the client that is known at the first. */
  async #keep(kept: KeptLogin, login: KeptLogin): Promise<void> {
    const changed = login.tokens !== kept.tokens;
    this.#current = changed ? login : kept;
    if (changed) await writeLogin(this.#keeper, this.#url, login);
  }
}

/** For all requests of a renewal together. */
function fetchUntil(late: AbortSignal, fetchFn: FetchLike): FetchLike {
  return (url, init) =>
    fetchFn(url, { ...init, signal: init?.signal ? AbortSignal.any([late, init.signal]) : late });
}

function tooLate(limitMs: number, cause: unknown): McpFailure {
  const within = `within ${limitMs / 1000} s`;
  return new McpFailure(
    `its login cannot be renewed now: the authorization server did not answer ${within}`,
    { cause },
  );
}

/** Whether it has ended by our own clock, and there is no refresh token to renew it by. */
function isOver({ tokens, expiresAt }: KeptLogin): boolean {
  if (tokens?.refresh_token !== undefined || expiresAt === undefined) return false;
  // One whose whole life is no longer than the margin would never be sent.
  const half = ((tokens?.expires_in ?? Number.POSITIVE_INFINITY) * 1000) / 2;
  return expiresAt < Date.now() + Math.min(marginMs, half);
}

/** How a person is sent to the authorization server, and what he comes back with. */
export interface Browser {
  readonly redirectUrl: string;
  readonly visit: (authorizationUrl: URL) => Promise<URLSearchParams>;
}

/** Logs a person in to a remote server, and keeps what that gives. Rejects with McpFailure. */
export async function logIn(
  url: URL,
  settings: OauthSettings,
  keeper: LoginKeeper,
  fetchFn: FetchLike,
  browser: Browser,
): Promise<void> {
  const state = randomBytes(24).toString('base64url');
  const visits: Promise<URLSearchParams>[] = [];
  const interaction: Interaction = {
    redirectUrl: browser.redirectUrl,
    state,
    send: (authorizationUrl) => {
      visits.push(browser.visit(authorizationUrl));
    },
  };
  // A client that was registered before may not come back to this address.
  const flow = new OauthFlow(settings, {}, interaction);
  try {
    const { resourceMetadataUrl, scope } = await challengeOf(url, fetchFn);
    const wanted = settings.scope ?? scope;
    const options = {
      serverUrl: url,
      fetchFn,
      ...(resourceMetadataUrl && { resourceMetadataUrl }),
      ...(wanted !== undefined && { scope: wanted }),
    };
    await auth(flow, options);
    // Without one the service has logged in by itself.
    for (const answer of await Promise.all(visits))
      await auth(flow, { ...options, ...codeOf(answer, state) });
  } catch (error) {
    throw loginFailureOf(error);
  }
  await keeper.locked(url.href, () => writeLogin(keeper, url, flow.kept));
}

/** What the server says about where to log in, when it is asked without a login. */
export async function challengeOf(url: URL, fetchFn: FetchLike) {
  const response = await fetchFn(url, { headers: { accept: 'application/json, text/event-stream' } });
  await response.body?.cancel();
  return response.status === 401 ? extractWWWAuthenticateParams(response) : {};
}

function codeOf(answer: URLSearchParams, state: string) {
  if (answer.get('state') !== state) throw new McpFailure('the answer belongs to another login');
  const [code, iss, error] = ['code', 'iss', 'error'].map((name) => answer.get(name));
  if (error) throw new McpFailure(`the login was refused: ${oneLine(error)}`);
  if (!code) throw new McpFailure('the answer to the login holds no code');
  return { authorizationCode: code, ...(iss && { iss }) };
}

async function readLogin(keeper: LoginKeeper, url: URL): Promise<KeptLogin> {
  const text = await keeper.read(url.href);
  if (text === null) return {};
  try {
    return JSON.parse(text) as KeptLogin; // as `writeLogin` wrote it, or it is of no use
  } catch {
    // What stands there is no part of the message, as it is in that of the parser.
    throw new McpFailure('its login, as it is kept, is damaged: log in again');
  }
}

async function writeLogin(keeper: LoginKeeper, url: URL, login: KeptLogin): Promise<void> {
  if (!login.tokens) return await keeper.remove(url.href);
  await keeper.write(url.href, JSON.stringify(login));
}

/**
 * What the authorization server said, and no more: addresses and codes are secrets of the moment. Its own description is no
 * part of it, which may repeat what it was sent: causes go to the log.
 */
export function loginFailureOf(error: unknown): McpFailure {
  if (error instanceof McpFailure) return error;
  if (error instanceof OAuthError) return new McpFailure(`the login failed: ${oneLine(error.code)}`);
  if (error instanceof Error && error.message.includes('does not support dynamic client registration'))
    return new McpFailure(
      'the login failed: its authorization server lets no client register by itself; register one there, and name it as oauth_client_id (over REST client_id)',
    );
  return new McpFailure('the login failed: its authorization server cannot be used', { cause: error });
}
