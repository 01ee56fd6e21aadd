// A real OpenID Connect provider (oidc-provider) in which everybody is who the test says: `node openid.ts` prints where
// it listens. PUT /_person chooses who logs in next, with {"deny": true} that they refuse. Loopback only.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { Provider } from 'oidc-provider';

interface Person {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean;
  readonly name?: string;
  readonly deny?: boolean;
}

const people = new Map<string, Person>();
let next: Person = { sub: 'nobody' };

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    console.error(error);
    response.writeHead(500).end();
  });
});
server.listen(0, '127.0.0.1', () => {
  // It listens on a port.
  const { port } = server.address() as AddressInfo;
  provider = providerAt(`http://127.0.0.1:${port}`);
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`);
});
let provider: Provider;

// Whoever has started us may be gone without a word.
process.stdin.on('end', () => process.exit(0)).resume();

function providerAt(issuer: string): Provider {
  return new Provider(issuer, {
    clients: ['corp', 'other'].map((client) => ({
      client_id: client,
      client_secret: `the-secret-of-${client}`,
      // A native client may come from any port of this machine.
      application_type: 'native',
      redirect_uris: [`http://127.0.0.1/api/v1/auth/oidc/${client}/callback`],
      grant_types: ['authorization_code'],
      response_types: ['code'],
    })),
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    scopes: ['openid', 'email', 'profile'],
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    cookies: { keys: ['of no worth'] },
    ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 600, IdToken: 60, Interaction: 600, Session: 600 },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => {
        const { deny: _deny, ...claims } = people.get(sub) ?? { sub };
        return claims;
      },
    }),
    // Whoever logs in agrees to everything: that is not what is tested here.
    async loadExistingGrant({ oidc }) {
      const { client, session } = oidc;
      if (!client || !session?.accountId) return undefined;
      const grant = new oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId });
      grant.addOIDCScope('openid email profile');
      await grant.save();
      return grant;
    },
  });
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.url === '/_person' && request.method === 'PUT') {
    next = (await json(request)) as Person; // its documented form
    people.set(next.sub, next);
    response.writeHead(204).end();
  } else if (request.url?.startsWith('/interaction/')) {
    // A native client is never let through without a consent of this very time.
    const agreed = { login: { accountId: next.sub, remember: false }, consent: {} };
    const result = next.deny ? { error: 'access_denied' } : agreed;
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  } else await provider.callback()(request, response);
}
