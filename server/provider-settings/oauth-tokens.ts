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

/** A provider that refuses every token must not have a new one made for each call. */
const earliestRenewalMs = 60_000;
const saveAgainMs = 500;

interface TokenParts extends OauthParts {
  /** The renewals at work in this process. */
  readonly renewing: Set<Promise<unknown>>;
}

/**
 * Another one than the provider has refused, where there can be one. Throws `provider_refused` where it has to be connected
 * again, `provider_failed` where it could not be renewed now.
 */
export async function currentToken(parts: TokenParts, settingId: string, refused?: string): Promise<string> {
  const { records, clock } = parts;
  const giveUp = performance.now() + claimMs;
  for (;;) {
    const connection = await records.find(settingId);
    if (!connection) throw connectAgain('it is not connected any more');
    if (connection.fault !== null) throw connectAgain(connection.fault);
    const now = clock.now().getTime();
    const { expiresAt, revision } = connection;
    if (expiresAt === null || expiresAt > now + marginMs) {
      const tokens = openTokens(parts.sealing, settingId, connection.tokens);
      if (tokens.access_token !== refused || !mayRenewEarly(tokens, now)) return tokens.access_token;
    }
    if (await records.claim(settingId, revision, now + claimMs))
      return awaited(parts.renewing, renew(parts, settingId, connection));
    if (performance.now() > giveUp)
      throw new Problem('provider_failed', 'Another node has been renewing the OAuth token for too long.');
    await sleep(lookAgainMs);
  }
}

function awaited(renewing: Set<Promise<unknown>>, token: Promise<string>): Promise<string> {
  renewing.add(token);
  return token.finally(() => renewing.delete(token));
}

/** What was taken back before its time can be replaced by the refresh token alone. */
function mayRenewEarly({ refresh_token, obtained_at = 0 }: SealedTokens, now: number): boolean {
  return refresh_token !== undefined && now >= obtained_at + earliestRenewalMs;
}

async function renew(
  parts: OauthParts,
  settingId: string,
  { tokens: sealed, revision, scopes, answerLost }: OauthConnection,
): Promise<string> {
  const { records, sealing } = parts;
  try {
    const tokens = openTokens(sealing, settingId, sealed);
    const answer = await askForMore(parts, tokens);
    if (typeof answer === 'string') {
      // Before that, an old refresh token may still be good: many servers take it for a while (RFC 9700, 4.14).
      const fault = answerLost ? `${answer} ${lostBefore}` : answer;
      await records.notRenewed(settingId, revision, { fault, answerLost: false });
      throw connectAgain(fault);
    }
    const next = tokensOf(answer, tokens, parts.clock.now().getTime());
    // Before it is used: a refresh token may be good once, and the next one is in this answer alone.
    const kept = {
      tokens: sealTokens(sealing, settingId, next.tokens),
      expiresAt: next.expiresAt,
      scopes: next.scopes ?? scopes,
    };
    await untilSaved(() => records.renewed(settingId, revision, kept));
    return next.tokens.access_token;
  } catch (error) {
    if (!(error instanceof TokenEndpointError)) throw error;
    await records.notRenewed(settingId, revision, { fault: null, answerLost: !(error instanceof NotNow) });
    throw new Problem(
      'provider_failed',
      `The OAuth token has ended, and was not renewed: ${error.message}.`,
      {
        cause: error,
      },
    );
  }
}

const lostBefore =
  'The answer to a renewal before it never arrived, as when a server is stopped in its middle: the tokens that count were in it.';

/** Nobody else will ever be told these tokens: a database that is away for a moment must not lose them. */
async function untilSaved(save: () => Promise<void>): Promise<void> {
  const giveUp = performance.now() + claimMs;
  for (;;) {
    try {
      return await save();
    } catch (error) {
      if (performance.now() > giveUp) throw error;
      await sleep(saveAgainMs);
    }
  }
}

/** The server has said that it cannot now, and has used nothing up. */
class NotNow extends TokenEndpointError {}

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
    throw new NotNow(`the token server answered with status ${status}`);
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
    tokens: {
      ...{ client: before.client, access_token, obtained_at: now },
      ...(renewing && { refresh_token: renewing }),
    },
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
