// A small MCP server over streamable HTTP: one tool, two things to read, one prompt; without sessions and streams.

interface Message {
  readonly id?: number | string;
  readonly method: string;
  readonly params?: { readonly name?: string; readonly arguments?: Readonly<Record<string, unknown>> };
}

export interface McpAnswer {
  readonly status: number;
  readonly body: object | null;
}

const tool = {
  name: 'list_issues',
  description: 'Lists the open issues of a project.',
  inputSchema: { type: 'object', properties: { project: { type: 'string' } } },
};
const prompt = {
  name: 'triage',
  description: 'Sorts what came in.',
  arguments: [{ name: 'label', description: 'Only issues with this label.', required: false }],
};
const resource = {
  uri: 'tracker://projects',
  name: 'projects',
  description: 'Every project.',
  mimeType: 'application/json',
};

const results: Readonly<Record<string, (message: Message) => object>> = {
  initialize: () => ({
    protocolVersion: '2025-06-18',
    capabilities: { tools: {}, prompts: {}, resources: {} },
    serverInfo: { name: 'tracker', version: '1.4.0' },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools: [tool] }),
  'tools/call': ({ params }) => ({
    content: [
      { type: 'text', text: `No open issues in ${String(params?.arguments?.project ?? 'any project')}.` },
    ],
  }),
  'prompts/list': () => ({ prompts: [prompt] }),
  'resources/list': () => ({ resources: [resource] }),
  'resources/templates/list': () => ({
    resourceTemplates: [{ uriTemplate: 'tracker://projects/{project}', name: 'project' }],
  }),
};

/** @param body - The text of a POST; only that is answered otherwise than with 405. */
export function answerMcp(method: string | undefined, body: string): McpAnswer {
  if (method !== 'POST') return { status: 405, body: {} };
  const message = JSON.parse(body) as Message; // whoever asks is the client that is tested
  if (message.id === undefined) return { status: 202, body: null };
  const result = results[message.method];
  const said = result
    ? { result: result(message) }
    : { error: { code: -32_601, message: `There is no method ${message.method}` } };
  return { status: 200, body: { jsonrpc: '2.0', id: message.id, ...said } };
}

/** The authorization server beside it, which gives tokens to whoever comes; null for what is no business of its. */
export function answerLogin(path: string, origin: string): McpAnswer | null {
  const answers: Readonly<Record<string, McpAnswer>> = {
    '/.well-known/oauth-authorization-server': {
      status: 200,
      body: {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        revocation_endpoint: `${origin}/revoke`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
      },
    },
    '/register': { status: 201, body: { client_id: 'registered', redirect_uris: [] } },
    '/token': {
      status: 200,
      body: { access_token: 'of-the-tracker', token_type: 'Bearer', expires_in: 3600 },
    },
    '/revoke': { status: 200, body: {} },
  };
  if (path.startsWith('/.well-known/oauth-protected-resource')) return { status: 404, body: {} };
  return answers[path] ?? null;
}
