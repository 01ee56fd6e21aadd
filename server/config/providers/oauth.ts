/** The access token of a provider's `oauth` section: used while it lasts, renewed in memory when it ends. */
import type { OauthToken } from '../../contract/config.ts';
import { createOutbound } from '../../outbound/outbound.ts';
import { ExpansionError } from '../templates/expansion-error.ts';
import { askTokenEndpoint, secureUrl, type TokenAnswer, TokenEndpointError } from './token-endpoint.ts';

/** A token that ends sooner could end on its way. */
const marginMs = 30_000;
const timeoutMs = 10_000;
const maximumBytes = 64 * 1024;

/** A guard of its own: the place is always one that trusted settings name, so that nobody's mode changes it. */
const fetchRenewal = createOutbound({ shared: () => false }).fetchFor('operator', {
  maxBytes: 4 * maximumBytes,
  totalMs: timeoutMs,
});

/** What a renewal has brought, until it ends; `refreshToken` replaces the one it was asked with. */
interface Renewed {
  readonly accessToken: string;
  readonly expiresAtMs: number;
  readonly refreshToken: string;
}

interface Renewal {
  newest: Renewed | null;
  /** The renewal at work: a server may honour a refresh token only once, so that two must not ask with it. */
  pending: Promise<Renewed> | null;
}

/**
 * By token server and the refresh token as the file has it. For the life of the process, since the settings may be read
 * anew when the refresh token of the file is used up already.
 */
const renewals = new Map<string, Renewal>();

/** The token to use now. Throws ExpansionError where it has ended and cannot be renewed. */
export async function accessToken(token: OauthToken): Promise<string> {
  if (lasts(token.expires_at * 1000)) return token.access_token;
  const place = tokenPlace(token);
  const renewal = renewalOf(JSON.stringify([place.href, token.refresh_token]));
  if (renewal.newest && lasts(renewal.newest.expiresAtMs)) return renewal.newest.accessToken;
  const refreshToken = renewal.newest?.refreshToken ?? token.refresh_token ?? '';
  renewal.pending ??= renewed(place, token, refreshToken).finally(() => {
    renewal.pending = null;
  });
  renewal.newest = await renewal.pending;
  return renewal.newest.accessToken;
}

function renewalOf(key: string): Renewal {
  const renewal = renewals.get(key) ?? { newest: null, pending: null };
  renewals.set(key, renewal);
  return renewal;
}

/** Says at the start what would fail later. Throws ExpansionError. */
export function checkOauth(token: OauthToken): void {
  if (!lasts(token.expires_at * 1000)) tokenPlace(token);
}

function lasts(expiresAtMs: number): boolean {
  return expiresAtMs > Date.now() + marginMs;
}

function tokenPlace({ refresh_token, client }: OauthToken): URL {
  if (!refresh_token || !client?.token_url) {
    throw new ExpansionError(
      'The oauth token has ended and cannot be renewed',
      'Write a new one, with refresh_token and client.token_url.',
    );
  }
  const url = secureUrl(client.token_url);
  if (!url) {
    throw new ExpansionError(
      'client.token_url of oauth is no https URL',
      'Write one; only loopback may be http.',
    );
  }
  return url;
}

async function renewed(
  place: URL,
  { client = {}, expires_in }: OauthToken,
  refreshToken: string,
): Promise<Renewed> {
  const answer = await ask(place, client, refreshToken);
  const { access_token, refresh_token, expires_in: seconds = expires_in } = answer;
  if (typeof access_token !== 'string' || access_token === '') throw refused('its answer holds no token');
  return {
    accessToken: access_token,
    expiresAtMs: Date.now() + (typeof seconds === 'number' ? seconds : 0) * 1000,
    refreshToken: typeof refresh_token === 'string' && refresh_token ? refresh_token : refreshToken,
  };
}

async function ask(
  place: URL,
  client: NonNullable<OauthToken['client']>,
  refreshToken: string,
): Promise<TokenAnswer['members']> {
  const grant = { grant_type: 'refresh_token', refresh_token: refreshToken };
  const { ok, status, members } = await askTokenEndpoint(place, client, grant, fetchRenewal).catch(
    unreachable,
  );
  if (!ok) throw refused(`it answered with status ${status}`);
  return members;
}

function unreachable(error: unknown): never {
  throw error instanceof TokenEndpointError ? refused(error.message) : error;
}

function refused(how: string): ExpansionError {
  return new ExpansionError(
    `The oauth token has ended, and the server at client.token_url did not renew it: ${how}`,
    'Write a new one.',
  );
}
