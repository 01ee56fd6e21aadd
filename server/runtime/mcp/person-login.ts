/** A person's login to a remote MCP server through a browser that is elsewhere: begun here, finished when it comes back. */
import { auth, type FetchLike, type OAuthDiscoveryState } from '@modelcontextprotocol/client';
import { fetchFrom, type Outbound } from '../../outbound/outbound.ts';
import { boundedFetch } from './bounded-fetch.ts';
import { McpFailure } from './failure.ts';
import { challengeOf, loginFailureOf } from './login.ts';
import { type KeptLogin, OauthFlow } from './oauth-flow.ts';

/** How the authorization server knows us, where nobody can register there. */
export interface GivenClient {
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  readonly scope?: string | undefined;
}

export interface LoginFlows {
  /** Where the person goes, and what has to be kept until they come back: a secret. Rejects with McpFailure. */
  begin(
    url: URL,
    client: GivenClient,
    back: { readonly redirectUrl: string; readonly state: string },
  ): Promise<{ readonly authorizeUrl: string; readonly attempt: string }>;
  /** The login as it is kept: a secret. Rejects with McpFailure. */
  finish(
    url: URL,
    attempt: string,
    answer: { readonly code: string; readonly iss?: string | undefined },
  ): Promise<string>;
  /** Asks the authorization server to take the tokens back, where it offers that; true where it has. */
  takeBack(login: string): Promise<boolean>;
}

interface Attempt {
  readonly client: GivenClient;
  readonly redirectUrl: string;
  readonly state: string;
  readonly kept: KeptLogin;
  readonly verifier: string;
  readonly discovery?: OAuthDiscoveryState | undefined;
  readonly resourceMetadataUrl?: string | undefined;
  readonly scope?: string | undefined;
}

/** For one request, and for all of `begin` or `finish`: discovery makes as many as ten, and a person waits. */
const usual = { requestMs: 10_000, wholeMs: 30_000 };

/** Far more than what such servers say of themselves; anybody may have an account, and name a server of theirs. */
const largestAnswerBytes = 1024 ** 2;

/** Every request goes through the guard: the server as of an account, where it leads to as of a stranger. */
export function createLoginFlows(outbound: Outbound, { requestMs, wholeMs } = usual): LoginFlows {
  const fetchOf = (url: URL): FetchLike => {
    const fetch = boundedFetch(fetchFrom(url, outbound, 'account', { maxBytes: largestAnswerBytes }));
    const whole = AbortSignal.timeout(wholeMs);
    return (asked, init) =>
      fetch(asked, { ...init, signal: AbortSignal.any([whole, AbortSignal.timeout(requestMs)]) });
  };
  return {
    async begin(url, client, { redirectUrl, state }) {
      const fetchFn = fetchOf(url);
      const sent: URL[] = [];
      const send = (authorizationUrl: URL) => void sent.push(authorizationUrl);
      const flow = new OauthFlow(settingsOf(client), {}, { redirectUrl, state, send });
      try {
        const { resourceMetadataUrl, scope } = await challengeOf(url, fetchFn);
        const wanted = client.scope ?? scope;
        await auth(flow, {
          ...{ serverUrl: url, fetchFn },
          ...(resourceMetadataUrl && { resourceMetadataUrl }),
          ...(wanted !== undefined && { scope: wanted }),
        });
        const [authorizationUrl] = sent;
        if (!authorizationUrl) throw new McpFailure('its authorization server names no page to log in on');
        const { kept, verifier, discovery } = flow;
        const attempt: Attempt = {
          ...{ client, redirectUrl, state, kept, verifier, discovery },
          ...{ resourceMetadataUrl: resourceMetadataUrl?.href, scope: wanted },
        };
        return { authorizeUrl: authorizationUrl.href, attempt: JSON.stringify(attempt) };
      } catch (error) {
        throw loginFailureOf(error);
      }
    },
    async finish(url, text, { code, iss }) {
      const attempt = JSON.parse(text) as Attempt; // as `begin` wrote it
      const { client, redirectUrl, state, kept, resourceMetadataUrl, scope } = attempt;
      const interaction = { redirectUrl, state, send: () => undefined };
      const flow = new OauthFlow(settingsOf(client), kept, interaction, attempt);
      try {
        await auth(flow, {
          ...{ serverUrl: url, fetchFn: fetchOf(url), authorizationCode: code },
          ...(iss !== undefined && { iss }),
          ...(resourceMetadataUrl !== undefined && { resourceMetadataUrl: new URL(resourceMetadataUrl) }),
          ...(scope !== undefined && { scope }),
        });
      } catch (error) {
        throw loginFailureOf(error);
      }
      if (!flow.kept.tokens) throw new McpFailure('the login brought no token');
      const metadata = flow.discovery?.authorizationServerMetadata;
      const issuer = metadata?.issuer;
      const known = flow.clientInformation(issuer === undefined ? undefined : { issuer });
      // Some descriptions of authorization servers have none.
      const revocation =
        metadata && 'revocation_endpoint' in metadata ? metadata.revocation_endpoint : undefined;
      return JSON.stringify({ ...flow.kept, client: known, revocation });
    },
    async takeBack(text) {
      const { tokens, client, revocation } = JSON.parse(text) as KeptLogin & { readonly revocation?: string }; // as `finish` wrote it
      if (revocation === undefined || !tokens || !isSafe(revocation)) return false;
      const fetch = outbound.fetchFor('stranger', { maxBytes: 64 * 1024, totalMs: requestMs });
      const signal = AbortSignal.timeout(requestMs);
      const given = [
        { token: tokens.refresh_token, token_type_hint: 'refresh_token' },
        { token: tokens.access_token, token_type_hint: 'access_token' },
      ];
      let taken = true;
      for (const { token, token_type_hint } of given) {
        if (token === undefined) continue;
        const secret = client && 'client_secret' in client ? client.client_secret : undefined;
        const body = new URLSearchParams({ token, token_type_hint, client_id: client?.client_id ?? '' });
        if (secret !== undefined) body.set('client_secret', secret);
        const response = await fetch(revocation, { method: 'POST', body, signal }).catch(() => null);
        await response?.body?.cancel();
        taken &&= response?.ok ?? false;
      }
      return taken;
    },
  };
}

/** As for the endpoint of tokens: what stands in the clear, others could read on the way. */
function isSafe(endpoint: string): boolean {
  if (!URL.canParse(endpoint)) return false;
  const { protocol, hostname } = new URL(endpoint);
  return protocol === 'https:' || /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
}

function settingsOf({ clientId, clientSecret, scope }: GivenClient) {
  return {
    ...{ allowed: true, grant: 'authorization_code' as const, clientId, clientSecret, scope },
    ...{ issuer: undefined, callbackPort: undefined },
  };
}
