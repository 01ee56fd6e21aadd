/** The token that opens a connected setting: used while it lasts, renewed by one of all nodes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { askTokenEndpoint, secureUrl, TokenEndpointError } from '../config/config.ts';
import { Problem } from '../problem.ts';
import {
  type OauthConnection,
  type OauthParts,
  openTokens,
  type SealedTokens,
  sealTokens,
} from './oauth-parts.ts';

/** A token that ends sooner could end on its way. */
const marginMs = 30_000;
/** A node that renews has this long; after that another one may. */
const claimMs = 30_000;
const lookAgainMs = 150;

/** Throws `provider_refused` where it has to be connected again, `provider_failed` where it could not be renewed now. */
export async function currentToken(parts: OauthParts, settingId: string): Promise<string> {
  const { records, clock } = parts;
  const giveUp = performance.now() + claimMs;
  for (;;) {
    const connection = await records.find(settingId);
    if (!connection) throw connectAgain('it is not connected any more');
    if (connection.fault !== null) throw connectAgain(connection.fault);
    const now = clock.now().getTime();
    const { expiresAt, revision } = connection;
    if (expiresAt === null || expiresAt > now + marginMs)
      return openTokens(parts.sealing, settingId, connection.tokens).access_token;
    if (await records.claim(settingId, revision, now + claimMs)) return renew(parts, settingId, connection);
    if (performance.now() > giveUp)
      throw new Problem('provider_failed', 'Another node has been renewing the OAuth token for too long.');
    await sleep(lookAgainMs);
  }
}

async function renew(
  parts: OauthParts,
  settingId: string,
  { tokens: sealed, revision, scopes }: OauthConnection,
): Promise<string> {
  const { records, sealing } = parts;
  try {
    const tokens = openTokens(sealing, settingId, sealed);
    const answer = await askForMore(parts, tokens);
    if (typeof answer === 'string') {
      await records.notRenewed(settingId, revision, answer);
      throw connectAgain(answer);
    }
    const next = tokensOf(answer, tokens, parts.clock.now().getTime());
    // Before it is used: a refresh token may be good once, and the next one is in this answer alone.
    await records.renewed(settingId, revision, {
      tokens: sealTokens(sealing, settingId, next.tokens),
      expiresAt: next.expiresAt,
      scopes: next.scopes ?? scopes,
    });
    return next.tokens.access_token;
  } catch (error) {
    if (!(error instanceof TokenEndpointError)) throw error;
    await records.notRenewed(settingId, revision, null);
    throw new Problem(
      'provider_failed',
      `The OAuth token has ended, and was not renewed: ${error.message}.`,
      {
        cause: error,
      },
    );
  }
}

/** The members of the answer; a sentence where nothing but a new connection helps. */
async function askForMore(
  { fetch }: OauthParts,
  { client, refresh_token }: SealedTokens,
): Promise<Readonly<Record<string, unknown>> | string> {
  const place = secureUrl(client.token_url);
  if (!place || !refresh_token) return 'The token has ended, and there is none to renew it with.';
  const grant = { grant_type: 'refresh_token', refresh_token };
  const { ok, status, members } = await askTokenEndpoint(place, client, grant, fetch);
  if (ok) return members;
  // What is wrong with the server or with the rate may be right in a moment.
  if (status >= 500 || status === 429 || status === 408)
    throw new TokenEndpointError(`the token server answered with status ${status}`);
  return `The token has ended, and the token server did not renew it: it answered with status ${status}.`;
}

/** What an answer of a token endpoint holds. Throws TokenEndpointError where it holds no token. */
export function tokensOf(
  answer: Readonly<Record<string, unknown>>,
  before: Pick<SealedTokens, 'client'> & Partial<SealedTokens>,
  now: number,
): {
  readonly tokens: SealedTokens;
  readonly expiresAt: number | null;
  readonly scopes: readonly string[] | null;
} {
  const { access_token, refresh_token, scope } = answer;
  const seconds = Number(answer.expires_in);
  if (typeof access_token !== 'string' || !/^[\x21-\x7e]+$/.test(access_token))
    throw new TokenEndpointError('its answer holds no token');
  const renewing = typeof refresh_token === 'string' && refresh_token ? refresh_token : before.refresh_token;
  return {
    tokens: { client: before.client, access_token, ...(renewing && { refresh_token: renewing }) },
    expiresAt: Number.isFinite(seconds) && seconds > 0 ? now + seconds * 1000 : null,
    scopes: typeof scope === 'string' ? scope.split(' ').filter(Boolean) : null,
  };
}

function connectAgain(why: string): Problem {
  return new Problem(
    'provider_refused',
    `The provider setting has to be connected again (startProviderOauth): ${why}`,
  );
}
