/** Connects provider settings with OAuth: by a code that a person brings back (PKCE), or by one that they type (RFC 8628). */
import { createHash, randomBytes } from 'node:crypto';
import { askTokenEndpoint, secureUrl, type TokenAnswer, TokenEndpointError } from '../config/config.ts';
import type {
  ProviderOauth,
  ProviderOauthClient,
  ProviderOauthComplete,
  ProviderOauthStart,
  ProviderOauthStarted,
} from '../contract/api.ts';
import { Problem } from '../problem.ts';
import {
  type OauthAttempt,
  type OauthParts,
  openAttempt,
  openTokens,
  type SealedAttempt,
  sealAttempt,
  sealTokens,
} from './oauth-parts.ts';
import { revocationOf } from './oauth-revocation.ts';
import { currentToken, tokensOf } from './oauth-tokens.ts';

/** Whoever calls may change the setting, which has been checked. */
export interface ProviderOauths<Who> {
  /** Throws `invalid_request`, or `provider_failed` where the provider gives no code for a device. */
  start(who: Who, settingId: string, body: ProviderOauthStart): Promise<ProviderOauthStarted>;
  /** Throws `oauth_invalid`, `authorization_pending`, `slow_down`, `access_denied`, `expired_token` or `provider_failed`. */
  complete(who: Who, settingId: string, body: ProviderOauthComplete): Promise<ProviderOauth>;
  show(settingId: string): Promise<ProviderOauth>;
  /** Forgets its tokens, once the provider was asked to take them back. */
  revoke(who: Who, settingId: string): Promise<void>;
  /** What asks the provider to take the tokens back of a setting that is about to be deleted. */
  revocation(settingId: string): Promise<() => Promise<void>>;
  /** Another one than the provider has refused, where there can be one. Throws `provider_refused` where it has to be connected again. */
  token(settingId: string, refused?: string): Promise<string>;
  /** Resolves when no renewal is at work: its answer would be lost with the process. */
  settled(): Promise<void>;
}

const attemptMs = 15 * 60_000;
const usualInterval = 5;

export function createProviderOauths<Who>(parts: OauthParts<Who>): ProviderOauths<Who> {
  const { records, sealing, clock } = parts;
  const renewing = new Set<Promise<unknown>>();
  return {
    async start(who, settingId, body) {
      const client = body.client ?? (await clientBefore(parts, settingId));
      checkClient(parts, client, body);
      const state = randomText();
      const begun = body.flow === 'code' ? byCode(client, body, state) : await byDevice(parts, client, body);
      const now = clock.now().getTime();
      const expiresAt = now + Math.min(begun.lastsMs, attemptMs);
      const sealed = sealAttempt(sealing, settingId, begun.attempt);
      await records.begin(who, settingId, { stateHash: hashOf(state), sealed, nextPollAt: 0, expiresAt });
      const nothing = { authorize_url: null, user_code: null, verification_uri: null, interval: null };
      const shown = { ...nothing, verification_uri_complete: null, ...begun.shown };
      return { flow: body.flow, state, ...shown, expires_at: new Date(expiresAt).toISOString() };
    },
    async complete(who, settingId, { state, code }) {
      const attempt = await records.attempt(who, settingId, hashOf(state));
      if (!attempt) throw invalid('the attempt is unknown, used or expired');
      const opened = openAttempt(sealing, settingId, attempt.sealed);
      const members =
        opened.device_code === undefined
          ? await tradeCode(parts, who, settingId, attempt, opened, code)
          : await askAgain(parts, who, settingId, attempt, opened);
      const found = tokensOf(members, opened, clock.now().getTime());
      const tokens = sealTokens(sealing, settingId, found.tokens);
      await records.connect(who, settingId, {
        ...found,
        tokens,
        scopes: found.scopes ?? opened.scopes,
      });
      return await shownOf(parts, settingId);
    },
    show: (settingId) => shownOf(parts, settingId),
    async revoke(who, settingId) {
      const takeBack = await revocationOf(parts, settingId);
      await takeBack();
      await records.disconnect(who, settingId);
    },
    revocation: (settingId) => revocationOf(parts, settingId),
    token: (settingId, refused) =>
      parts.apart(() => currentToken({ ...parts, renewing }, settingId, refused)),
    async settled() {
      await Promise.allSettled(renewing);
    },
  };
}

async function shownOf(
  { records }: Pick<OauthParts, 'records'> | OauthParts<never>,
  settingId: string,
): Promise<ProviderOauth> {
  const connection = await records.find(settingId);
  if (!connection) return { connected: false, expires_at: null, scopes: [], fault: null };
  const { expiresAt, scopes, fault } = connection;
  return {
    connected: fault === null,
    expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    scopes: [...scopes],
    fault,
  };
}

async function clientBefore(
  { records, sealing }: OauthParts<never>,
  settingId: string,
): Promise<ProviderOauthClient> {
  const connection = await records.find(settingId);
  if (connection) return openTokens(sealing, settingId, connection.tokens).client;
  throw wrong('/client', 'is needed: the setting was not connected before');
}

function checkClient(
  { refusalOf }: Pick<OauthParts, 'refusalOf'>,
  client: ProviderOauthClient,
  { flow }: ProviderOauthStart,
): void {
  const needed = flow === 'code' ? 'auth_url' : 'device_url';
  if (client[needed] === undefined) throw wrong(`/client/${needed}`, `is needed for the flow ${flow}`);
  for (const name of ['auth_url', 'token_url', 'device_url', 'revocation_url'] as const) {
    const url = client[name];
    if (url === undefined) continue;
    if (!secureUrl(url)) throw wrong(`/client/${name}`, 'is no https URL; only loopback may be http');
    // A person goes there themselves.
    const refused = name === 'auth_url' ? null : refusalOf(url);
    if (refused) throw wrong(`/client/${name}`, refused.message, refused);
  }
}

/** How an attempt begins: what is kept, what is told, and how long the provider lets it last. */
interface Begun {
  readonly attempt: SealedAttempt;
  readonly shown: Partial<ProviderOauthStarted>;
  readonly lastsMs: number;
}

function byCode(
  client: ProviderOauthClient,
  { scopes = [], redirect_uri }: ProviderOauthStart,
  state: string,
): Begun {
  const verifier = randomText();
  const url = new URL(client.auth_url ?? '');
  const query = {
    response_type: 'code',
    client_id: client.client_id,
    ...(redirect_uri !== undefined && { redirect_uri }),
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const attempt = { client, scopes, verifier, ...(redirect_uri !== undefined && { redirect_uri }) };
  return { attempt, shown: { authorize_url: url.href }, lastsMs: attemptMs };
}

async function byDevice(
  parts: OauthParts<never>,
  client: ProviderOauthClient,
  { scopes = [] }: ProviderOauthStart,
): Promise<Begun> {
  const { device_url = '' } = client;
  const grant = { client_id: client.client_id, ...(scopes.length > 0 && { scope: scopes.join(' ') }) };
  const { ok, status, members } = await asked(parts, client, device_url, grant);
  const { device_code, user_code, verification_uri, verification_uri_complete } = members;
  const texts = [device_code, user_code, verification_uri];
  if (!ok || !texts.every((text) => typeof text === 'string' && text))
    throw new Problem('provider_failed', `The provider gives no code for a device (status ${status}).`);
  const interval = Math.min(Math.max(Math.ceil(Number(members.interval)) || usualInterval, 1), 60);
  return {
    attempt: { client, scopes, device_code: String(device_code), interval },
    shown: {
      user_code: String(user_code),
      verification_uri: webUrl(verification_uri),
      verification_uri_complete: webUrl(verification_uri_complete),
      interval,
    },
    lastsMs: (Number(members.expires_in) || 600) * 1000,
  };
}

/** People click on it. */
function webUrl(value: unknown): string | null {
  return typeof value === 'string' && URL.canParse(value) && /^https?:/i.test(value)
    ? new URL(value).href
    : null;
}

async function tradeCode<Who>(
  parts: OauthParts<Who>,
  who: Who,
  settingId: string,
  { stateHash }: OauthAttempt,
  { client, verifier = '', redirect_uri }: SealedAttempt,
  code: string | undefined,
): Promise<TokenAnswer['members']> {
  if (code === undefined) throw wrong('/code', 'is needed for the flow code');
  // Ended before it is traded: of two who bring the same code, one is let through.
  if (!(await parts.records.endAttempt(who, settingId, stateHash)))
    throw invalid('the attempt is unknown, used or expired');
  const grant = {
    grant_type: 'authorization_code',
    code,
    code_verifier: verifier,
    ...(redirect_uri !== undefined && { redirect_uri }),
  };
  const { ok, status, members } = await asked(parts, client, client.token_url, grant);
  if (ok) return members;
  throw invalid(`the provider refused the code with status ${status}`);
}

async function askAgain<Who>(
  parts: OauthParts<Who>,
  who: Who,
  settingId: string,
  { stateHash, nextPollAt }: OauthAttempt,
  { client, device_code = '', interval = usualInterval }: SealedAttempt,
): Promise<TokenAnswer['members']> {
  const { records, clock } = parts;
  const now = clock.now().getTime();
  if (now < nextPollAt) throw new Problem('slow_down', `Ask every ${interval} s.`);
  await records.postpone(who, settingId, now + interval * 1000);
  const grant = { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code };
  const { ok, status, members } = await asked(parts, client, client.token_url, grant);
  if (ok && (await records.endAttempt(who, settingId, stateHash))) return members;
  if (ok) throw invalid('the attempt was ended meanwhile');
  if (members.error === 'authorization_pending')
    throw new Problem('authorization_pending', 'Nobody has typed the code yet; ask again later.');
  if (members.error === 'slow_down') {
    await records.postpone(who, settingId, now + (interval + 5) * 1000);
    throw new Problem('slow_down', `Ask in ${interval + 5} s.`);
  }
  if (status >= 500) throw failed(`the token server answered with status ${status}`);
  await records.endAttempt(who, settingId, stateHash);
  if (members.error === 'access_denied')
    throw new Problem(
      'access_denied',
      'The person has refused access; begin again if they meant to grant it.',
    );
  if (members.error === 'expired_token')
    throw new Problem('expired_token', 'The code was not typed in time; begin again.');
  throw invalid(`the provider refused the code with status ${status}`);
}

async function asked(
  { fetch }: Pick<OauthParts, 'fetch'>,
  client: ProviderOauthClient,
  url: string,
  grant: Readonly<Record<string, string>>,
): Promise<TokenAnswer> {
  const place = secureUrl(url);
  if (!place) throw wrong('/client', 'names no https URL');
  try {
    return await askTokenEndpoint(place, client, grant, fetch);
  } catch (error) {
    if (error instanceof TokenEndpointError) throw failed(error.message, error);
    throw error;
  }
}

function failed(why: string, cause?: Error): Problem {
  return new Problem('provider_failed', `The provider could not be asked for a token: ${why}.`, {
    ...(cause && { cause }),
  });
}

function invalid(why: string): Problem {
  return new Problem('oauth_invalid', `The provider setting was not connected: ${why}; begin again.`);
}

function wrong(pointer: string, message: string, cause?: Error): Problem {
  return new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code: 'oauth' }],
    ...(cause && { cause }),
  });
}

function randomText(): string {
  return randomBytes(32).toString('base64url');
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
