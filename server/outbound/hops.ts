/** Follows redirects itself: each is a new request to a new place, checked as the first was, with what may go there. */
import type { Dispatchers } from './dispatchers.ts';
import { type OutboundLimits, startClocks, unfoldingAtMost } from './limits.ts';
import { OutboundError, outboundErrorIn } from './outbound-error.ts';
import { assertUrl, type Reach } from './reach.ts';

export interface GuardedRequest {
  readonly input: string | URL | Request;
  readonly init: RequestInit | undefined;
  readonly limits: OutboundLimits & { readonly maxBytes: number };
  /** How far a request to `url` may reach that began at `first`. */
  readonly reach: (url: URL, first: URL) => Reach;
}

const maxHops = 5;
export const redirectStatus: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** What says nothing about who asks. Any other header may be a credential: vendors have names of their own for theirs. */
const harmlessHeaders: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'content-type',
  'user-agent',
]);

/** The answer at the end of all redirects. */
export async function followRedirects(
  dispatchers: Dispatchers,
  { input, init = {}, limits, reach }: GuardedRequest,
): Promise<Response> {
  const first = urlOf(input);
  const clocks = startClocks(limits, init.signal ?? null);
  assertUrl(first);
  let hop: Hop = { url: first, init: { ...init, signal: clocks.signal } };
  try {
    for (let hops = 0; ; hops += 1) {
      const response = await dispatchers.fetch(hop.url, hop.init, reach(hop.url, first), limits);
      const location = redirectStatus.has(response.status) ? response.headers.get('location') : null;
      if (location === null || init.redirect === 'manual') return unfoldingAtMost(limits.maxBytes, response);
      await response.body?.cancel();
      if (init.redirect === 'error')
        throw refused('The server answered with a redirect, which is not followed here.');
      if (hops === maxHops) throw refused(`The server redirected more than ${maxHops} times.`);
      hop = nextHop(hop, location, response.status);
      assertUrl(hop.url);
      if (limits.mayRedirect?.(hop.url, first) === false)
        throw refused('The server redirects to another place, and is not followed there.');
    }
  } catch (error) {
    throw outboundErrorIn(error) ?? error;
  } finally {
    clocks.answered();
  }
}

interface Hop {
  readonly url: URL;
  readonly init: RequestInit;
}

export function urlOf(input: string | URL | Request): URL {
  if (input instanceof Request)
    throw new TypeError('The guarded fetch takes a string or a URL, not a Request.');
  if (!URL.canParse(String(input))) throw new OutboundError('url_refused', 'That is not a URL.');
  return new URL(input);
}

function nextHop({ url, init }: Hop, location: string, status: number): Hop {
  if (!URL.canParse(location, url.href))
    throw refused('The server redirected to something that is not a URL.');
  const target = new URL(location, url);
  const next = afterStatus(init, status);
  if (target.origin === url.origin) return { url: target, init: next };
  const kept = harmlessOf(next.headers);
  if (url.protocol === 'https:' && target.protocol === 'http:' && kept.dropped)
    throw refused(
      'The server redirected from https to http, where what was sent along could be read by others.',
    );
  if (next.body != null)
    throw refused('The server redirected what was sent to it to another server, which was not asked for.');
  return { url: target, init: { ...next, headers: kept.headers } };
}

/** By the Fetch standard: most redirects make a GET of what was sent. */
function afterStatus(init: RequestInit, status: number): RequestInit {
  const method = (init.method ?? 'GET').toUpperCase();
  const becomesGet =
    status === 303 ? method !== 'GET' && method !== 'HEAD' : status < 303 && method === 'POST';
  if (becomesGet) {
    const { body: _sent, ...rest } = init;
    const headers = new Headers(init.headers);
    for (const name of ['content-type', 'content-length', 'content-encoding', 'content-language'])
      headers.delete(name);
    return { ...rest, method: 'GET', headers };
  }
  if (!canBeSentAgain(init.body))
    throw refused('The server redirected a request whose content cannot be sent twice.');
  return init;
}

function canBeSentAgain(body: RequestInit['body']): boolean {
  return (
    body == null || typeof body === 'string' || body instanceof URLSearchParams || ArrayBuffer.isView(body)
  );
}

function harmlessOf(headers: RequestInit['headers']): { headers: Headers; dropped: boolean } {
  const all = [...new Headers(headers)];
  const harmless = all.filter(([name]) => harmlessHeaders.has(name));
  return { headers: new Headers(harmless), dropped: harmless.length < all.length };
}

function refused(message: string): OutboundError {
  return new OutboundError('redirect_refused', message);
}
