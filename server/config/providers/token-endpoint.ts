/** Asks an OAuth server for tokens: the client names itself as the server wants it, and no answer is believed unread. */
import type { OutboundFetch } from '../../outbound/outbound.ts';
import { isLoopback } from '../loopback.ts';

/** How a client is known to the server. */
export interface TokenClient {
  readonly client_id?: string | undefined;
  readonly client_secret?: string | undefined;
  /** 0 finds out by trying, 1 in the body, 2 in the Authorization header. */
  readonly auth_style?: 0 | 1 | 2 | undefined;
}

/** What a server answered; where it refused, its `error` says why in the words of the standard. */
export interface TokenAnswer {
  readonly ok: boolean;
  readonly status: number;
  readonly members: Readonly<Record<string, unknown>>;
}

/** The server could not be asked, or said nothing that could be read. Its own words are never told: they may quote a token. */
export class TokenEndpointError extends Error {}

const maximumBytes = 64 * 1024;

/** Null where a secret would travel in the open. */
export function secureUrl(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  const secure = url && (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)));
  return secure ? url : null;
}

/** Style 0 finds out by trying, as OAuth libraries do: the header first, as the standard prefers. */
export async function askTokenEndpoint(
  place: URL,
  client: TokenClient,
  grant: Readonly<Record<string, string>>,
  fetch: OutboundFetch,
): Promise<TokenAnswer> {
  const { auth_style: style = 0, client_secret } = client;
  const header = style === 2 || (style === 0 && client_secret);
  const first = await post(place, client, grant, { style: header ? 'header' : 'body', fetch });
  if (first.ok || style !== 0 || !header) return answerOf(first);
  const { members, ...refusal } = await answerOf(first);
  // A server that knows the client and refuses the grant has used the grant up.
  if (first.status !== 401 && members.error !== 'invalid_client' && members.error !== 'invalid_request')
    if (typeof members.error === 'string') return { members, ...refusal };
  return answerOf(await post(place, client, grant, { style: 'body', fetch }));
}

/** Whether the server has taken a token back (RFC 7009); it says so even of one that it does not know. */
export async function revokeToken(
  place: URL,
  client: TokenClient,
  token: Readonly<{ token: string; token_type_hint: 'access_token' | 'refresh_token' }>,
  fetch: OutboundFetch,
): Promise<boolean> {
  const { auth_style: style = 0, client_secret } = client;
  const header = style === 2 || (style === 0 && client_secret);
  for (const one of header && style === 0
    ? (['header', 'body'] as const)
    : ([header ? 'header' : 'body'] as const)) {
    const { ok, body } = await post(place, client, token, { style: one, fetch });
    await body?.cancel();
    if (ok) return true;
  }
  return false;
}

async function post(
  place: URL,
  { client_id = '', client_secret = '' }: TokenClient,
  grant: Readonly<Record<string, string>>,
  { style, fetch }: { readonly style: 'header' | 'body'; readonly fetch: OutboundFetch },
): Promise<Response> {
  const body = new URLSearchParams(grant);
  if (style === 'body' && client_id) body.set('client_id', client_id);
  if (style === 'body' && client_secret) body.set('client_secret', client_secret);
  const credentials = `${encodeURIComponent(client_id)}:${encodeURIComponent(client_secret)}`;
  const authorization = `Basic ${Buffer.from(credentials).toString('base64')}`;
  try {
    return await fetch(place, {
      method: 'POST',
      headers: { accept: 'application/json', ...(style === 'header' && { authorization }) },
      body,
      // Where a redirect leads, the refresh token would follow.
      redirect: 'error',
    });
  } catch (cause) {
    throw new TokenEndpointError('it could not be reached', { cause });
  }
}

/** A refusal need not be JSON; what gives tokens has to be. */
async function answerOf(response: Response): Promise<TokenAnswer> {
  const { ok, status } = response;
  try {
    const text = await response.text();
    const answer: unknown = text.length > maximumBytes ? null : JSON.parse(text);
    if (typeof answer === 'object' && answer !== null) return { ok, status, members: { ...answer } };
  } catch (error) {
    if (!(error instanceof SyntaxError))
      throw new TokenEndpointError('it could not be reached', { cause: error });
  }
  if (ok) throw new TokenEndpointError('its answer holds no token');
  return { ok, status, members: {} };
}
