/** A small MCP server that wants a login, and its authorization server, on loopback: with PKCE, registration and rotation. */
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';

export interface OauthServer {
  readonly origin: string;
  /** The address of the MCP server. */
  readonly url: string;
  /** What it says of itself in place of the truth: as the MCP server, as the authorization server, and where it refuses. */
  readonly claims: { resource: object; authorization: object; refusal: object; challenge: string | null };
  /** How long an access token lasts, as it says itself. */
  readonly lifetime: { seconds: number };
  /** Waited for before a request is worked on, and before it is answered. */
  readonly pauses: {
    before: (asked: OauthServer['asked'][number]) => unknown;
    after: OauthServer['pauses']['before'];
  };
  /** Everything that it was asked: where, with which credential, and what. */
  readonly asked: {
    readonly path: string;
    readonly authorization: string | undefined;
    readonly headers: IncomingHttpHeaders;
    readonly body: string;
  }[];
  /** How many of those requests nobody has answered or given up. */
  readonly unanswered: (path: string) => number;
  /** What was asked of the token endpoint, in its order. */
  readonly grants: URLSearchParams[];
  /** The tokens that were taken back (RFC 7009). */
  readonly takenBack: readonly string[];
  /** How many clients have registered. */
  readonly clients: () => number;
  /** Every access token given so far counts no more; with `all`, no refresh token either. */
  revoke(all?: boolean): void;
}

interface Code {
  readonly challenge: string;
  readonly redirect: string;
}

/** Starts both. A client by the name `known` with the secret `its secret` need not register. */
export async function startOauthServer(): Promise<OauthServer> {
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const origin = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  const claims: OauthServer['claims'] = { resource: {}, authorization: {}, refusal: {}, challenge: null };
  const lifetime = { seconds: 3600 };
  const pauses: OauthServer['pauses'] = { before: () => undefined, after: () => undefined };
  const asked: OauthServer['asked'] = [];
  const open = new Set<OauthServer['asked'][number]>();
  const grants: URLSearchParams[] = [];
  const clients = new Set(['known']);
  const codes = new Map<string, Code>();
  const accessTokens = new Set<string>();
  const refreshTokens = new Set<string>();
  const takenBack: string[] = [];

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', origin);
    const body = await bodyOf(request);
    const { headers: sent } = request;
    const heard = { path: url.pathname, authorization: sent.authorization, headers: sent, body };
    asked.push(heard);
    open.add(heard);
    response.on('close', () => open.delete(heard));
    await pauses.before(heard);
    const answer = answers[url.pathname] ?? (() => refused('not_found', 404));
    const { status, body: said, headers = {} } = answer({ request, url, body });
    await pauses.after(heard);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    const told = said !== null && 'error' in said ? { ...said, ...claims.refusal } : said;
    response.end(told === null ? '' : JSON.stringify(told));
  }

  const resource = () => ({
    status: 200,
    body: {
      ...{ resource: `${origin}/mcp`, authorization_servers: [origin], scopes_supported: ['use'] },
      ...claims.resource,
    },
  });

  const answers: Readonly<Record<string, (asked: Asked) => Answer>> = {
    '/.well-known/oauth-protected-resource': resource,
    '/.well-known/oauth-protected-resource/mcp': resource,
    '/.well-known/oauth-authorization-server': () => ({
      status: 200,
      body: {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        revocation_endpoint: `${origin}/revoke`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        grant_types_supported: ['authorization_code', 'refresh_token', 'client_credentials'],
        token_endpoint_auth_methods_supported: ['none', 'client_secret_basic'],
        ...claims.authorization,
      },
    }),
    '/register': ({ body }) => {
      const id = randomUUID();
      clients.add(id);
      return { status: 201, body: { ...(JSON.parse(body) as object), client_id: id } }; // it is ours
    },
    '/authorize': ({ url }) => {
      const redirect = url.searchParams.get('redirect_uri') ?? '';
      const code = randomUUID();
      codes.set(code, { challenge: url.searchParams.get('code_challenge') ?? '', redirect });
      const back = new URL(redirect);
      back.search = String(new URLSearchParams({ code, state: url.searchParams.get('state') ?? '' }));
      return { status: 302, body: null, headers: { location: back.href } };
    },
    '/revoke': ({ body }) => {
      const given = new URLSearchParams(body).get('token') ?? '';
      takenBack.push(given);
      accessTokens.delete(given);
      refreshTokens.delete(given);
      return { status: 200, body: {} };
    },
    '/token': ({ request, body }) => token(request, new URLSearchParams(body)),
    '/mcp': ({ request, body }) => {
      const sent = request.headers.authorization?.replace('Bearer ', '') ?? '';
      if (accessTokens.has(sent)) return speak(request, body);
      const metadata = claims.challenge ?? `${origin}/.well-known/oauth-protected-resource`;
      const challenge = `Bearer resource_metadata="${metadata}"`;
      return { status: 401, body: {}, headers: { 'www-authenticate': challenge } };
    },
  };

  function token(request: IncomingMessage, asked: URLSearchParams): Answer {
    grants.push(asked);
    const grant = asked.get('grant_type');
    if (grant === 'client_credentials') {
      const basic = basicOf(request);
      return basic === 'known:its%20secret' || basic === 'known:its secret'
        ? given(false)
        : refused('invalid_client');
    }
    const [client = ''] = asked.has('client_id')
      ? [asked.get('client_id') ?? '']
      : basicOf(request).split(':');
    if (!clients.has(client)) return refused('invalid_client');
    // Good for one use each.
    if (grant === 'refresh_token')
      return refreshTokens.delete(asked.get('refresh_token') ?? '') ? given(true) : refused('invalid_grant');
    const code = codes.get(asked.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(asked.get('code_verifier') ?? '')
      .digest('base64url');
    const good = code?.challenge === challenge && code.redirect === asked.get('redirect_uri');
    return good && codes.delete(asked.get('code') ?? '') ? given(true) : refused('invalid_grant');
  }

  function given(renewable: boolean): Answer {
    const [access_token, refresh_token] = [randomUUID(), randomUUID()];
    accessTokens.add(access_token);
    if (renewable) refreshTokens.add(refresh_token);
    const tokens = {
      access_token,
      token_type: 'Bearer',
      expires_in: lifetime.seconds,
      ...(renewable && { refresh_token }),
    };
    return { status: 200, body: tokens };
  }

  return {
    origin,
    url: `${origin}/mcp`,
    claims,
    lifetime,
    pauses,
    asked,
    unanswered: (path) => [...open].filter((heard) => heard.path === path).length,
    grants,
    takenBack,
    clients: () => clients.size - 1,
    revoke(all = false) {
      accessTokens.clear();
      if (all) refreshTokens.clear();
    },
  };
}

interface Asked {
  readonly request: IncomingMessage;
  readonly url: URL;
  readonly body: string;
}

interface Answer {
  readonly status: number;
  readonly body: object | null;
  readonly headers?: Readonly<Record<string, string>>;
}

function refused(error: string, status = 400): Answer {
  return { status, body: { error } };
}

/** The name and the password of a client, with a colon between. */
function basicOf({ headers }: IncomingMessage): string {
  return Buffer.from(headers.authorization?.slice('Basic '.length) ?? '', 'base64').toString();
}

/** One tool over streamable HTTP, without a session or a stream. */
function speak({ method: verb }: IncomingMessage, body: string): Answer {
  if (verb !== 'POST') return { status: 405, body: {} };
  const { id, method } = JSON.parse(body) as { id?: number; method: string }; // the client is ours
  if (id === undefined) return { status: 202, body: null };
  const results: Readonly<Record<string, object>> = {
    initialize: {
      protocolVersion: '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'guarded', version: '0' },
    },
    'tools/list': { tools: [{ name: 'act', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: 'done' }] },
  };
  return { status: 200, body: { jsonrpc: '2.0', id, result: results[method] ?? {} } };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  return body;
}
