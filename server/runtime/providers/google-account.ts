/** Access tokens for a service account of Google Cloud: an assertion that its key signs is traded for one. */
import { createHash } from 'node:crypto';
import { keepNewest } from '../../keep-newest.ts';
import type { OutboundFetch } from '../../outbound/outbound.ts';
import { ModelFailure } from '../models/model.ts';
import { orAborted } from '../or-aborted.ts';

/** What a key file of Google Cloud holds, as far as it is needed. */
export interface ServiceAccount {
  readonly email: string;
  readonly privateKey: string;
  readonly keyId: string | null;
  readonly tokenUrl: string;
}

const scope = 'https://www.googleapis.com/auth/cloud-platform';
const usualTokenUrl = 'https://oauth2.googleapis.com/token';
/** A token that ends sooner could end on its way. */
const marginMs = 60_000;
const timeoutMs = 10_000;

interface Held {
  readonly token: string;
  readonly endsAtMs: number;
}

/** By account: each model that is opened would ask for a token of its own. */
const tokens = new Map<string, { newest: Held | null; pending: Promise<Held> | null }>();
/** Any key file may be tried. */
const mostAccounts = 1000;

/** The account of a key file; null where the text is no key file. */
export function serviceAccountOf(text: string): ServiceAccount | null {
  if (!text.trimStart().startsWith('{')) return null;
  const { client_email, private_key, private_key_id, token_uri } = membersOf(text);
  if (typeof client_email !== 'string' || typeof private_key !== 'string') return null;
  return {
    email: client_email,
    privateKey: private_key,
    keyId: typeof private_key_id === 'string' ? private_key_id : null,
    tokenUrl: typeof token_uri === 'string' ? token_uri : usualTokenUrl,
  };
}

/** What a token is asked for with. */
export interface TokenCall {
  readonly account: ServiceAccount;
  readonly fetch: OutboundFetch;
  readonly signal: AbortSignal;
  /** A token that is no longer taken, though it should last. */
  readonly refused?: string;
}

/** A token that lasts; whoever asks while one is fetched gets that one. Throws ModelFailure, and the reason of the signal. */
export async function accountToken({ account, fetch, signal, refused }: TokenCall): Promise<string> {
  // Nobody would hear of the failure of what is begun for nobody, and such a failure ends the process.
  signal.throwIfAborted();
  const name = createHash('sha256').update(JSON.stringify(account)).digest('base64');
  const kept = tokens.get(name) ?? { newest: null, pending: null };
  keepNewest(tokens, name, kept, mostAccounts);
  if (kept.newest && kept.newest.token !== refused && kept.newest.endsAtMs > Date.now() + marginMs)
    return kept.newest.token;
  kept.pending ??= traded(account, fetch).finally(() => {
    kept.pending = null;
  });
  kept.newest = await orAborted(kept.pending, signal);
  return kept.newest.token;
}

async function traded(account: ServiceAccount, fetch: OutboundFetch): Promise<Held> {
  const body = new URLSearchParams({
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: await assertionOf(account),
  });
  const { status, ok, text } = await asked(account.tokenUrl, body, fetch);
  if (!ok) throw refusedWith(status);
  const { access_token, expires_in } = membersOf(text);
  if (typeof access_token !== 'string') throw refusedWith(status);
  return { token: access_token, endsAtMs: Date.now() + Number(expires_in ?? 0) * 1000 };
}

async function assertionOf({ email, privateKey, keyId, tokenUrl }: ServiceAccount): Promise<string> {
  const { importPKCS8, SignJWT } = await import('jose');
  try {
    const key = await importPKCS8(privateKey, 'RS256');
    return await new SignJWT({ scope })
      .setProtectedHeader({ alg: 'RS256', typ: 'JWT', ...(keyId && { kid: keyId }) })
      .setIssuer(email)
      .setAudience(tokenUrl)
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(key);
  } catch (cause) {
    throw new ModelFailure(
      'provider_refused',
      'replace',
      'The key file of the model provider holds no usable key.',
      {
        cause,
      },
    );
  }
}

async function asked(url: string, body: URLSearchParams, fetch: OutboundFetch) {
  try {
    const signal = AbortSignal.timeout(timeoutMs);
    // Where a redirect leads, the assertion would follow.
    const response = await fetch(url, { method: 'POST', body, signal, redirect: 'error' });
    return { status: response.status, ok: response.ok, text: await response.text() };
  } catch (cause) {
    throw new ModelFailure(
      'provider_failed',
      'retry',
      'The token endpoint of the model provider was not reached, or broke off its answer.',
      {
        cause,
      },
    );
  }
}

/** Its words are kept back: they may quote the assertion. */
function refusedWith(status: number): ModelFailure {
  if (status >= 500 || status === 429)
    return new ModelFailure(
      'provider_failed',
      'retry',
      `The token endpoint of the model provider answered with status ${status}; try again later.`,
    );
  return new ModelFailure(
    'provider_refused',
    'replace',
    'The model provider refused our credential; check its key file.',
  );
}

function membersOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}
