/** Finds the credential of a request, and who it belongs to. */
import type { IncomingMessage } from 'node:http';
import type { Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import type { Caller, Ports } from './ports.ts';

/** Who calls. Throws where no credential came, or two that differ, or one that does not hold. */
export async function authenticate(
  request: IncomingMessage,
  route: Route,
  identity: Pick<Ports['identity'], 'authenticate'>,
  address: string | null,
): Promise<Caller> {
  const given = new Set(credentialsOf(request, route));
  if (given.size > 1)
    throw new Problem(
      'credential_conflict',
      'Two different credentials came in one request; send one of them.',
    );
  const [credential] = given;
  if (credential === undefined) throw new Problem('credential_missing', howTo(route));
  return identity.authenticate(credential, address);
}

/** Throws where the credential has ended, or has lost a right, while the body was on its way. */
export async function requireStillValid(
  caller: Caller,
  identity: Pick<Ports['identity'], 'stillValid'>,
): Promise<void> {
  const [valid] = await identity.stillValid([caller]);
  if (valid) return;
  throw new Problem(
    'credential_invalid',
    'The credential was revoked, or has lost a right, before the request was whole; log in again, or use another key.',
  );
}

function credentialsOf(request: IncomingMessage, route: Route): string[] {
  // `headers` keeps only the first of a repeated Authorization; a second one must not hide.
  const bearers = (request.headersDistinct.authorization ?? []).map(bearer);
  const keys = route.credentials.includes('apiKeyAuth') ? (request.headersDistinct['x-api-key'] ?? []) : [];
  return [...bearers, ...keys.map((key) => key.trim()).filter((key) => key !== '')];
}

function bearer(header: string): string {
  const credential = /^bearer +([A-Za-z0-9._~+/=-]+) *$/i.exec(header)?.[1];
  if (credential === undefined)
    throw new Problem('credential_invalid', 'The Authorization header must read "Bearer <TOKEN>".');
  return credential;
}

function howTo(route: Route): string {
  const alternative = route.credentials.includes('apiKeyAuth')
    ? ', or an API key in the x-api-key header'
    : '';
  return `Send an access token or an API key in the Authorization header as "Bearer <TOKEN>"${alternative}.`;
}
