/** The guard of outgoing requests: every URL that somebody outside of this program gave is fetched through here, and nowhere else. */
import { type AllowList, parseAllowList } from './allow-list.ts';
import { callBy, type OutboundCall } from './call.ts';
import type { Dispatchers } from './dispatchers.ts';
import { followRedirects, redirectStatus, urlOf } from './hops.ts';
import type { OutboundLimits } from './limits.ts';
import type { Resolvers } from './look-ups.ts';
import { OutboundError, outboundErrorIn } from './outbound-error.ts';
import { assertHost, assertUrl, type Reach, reachOf, type UrlGiver } from './reach.ts';

export { allowListFault } from './allow-list.ts';
export { callBy, type OutboundCall, textOf } from './call.ts';
export type { OutboundLimits } from './limits.ts';
export type { Resolver } from './look-ups.ts';
export { OutboundError, outboundErrorIn, outboundSentence } from './outbound-error.ts';
export type { UrlGiver } from './reach.ts';

/** As the platform's, but for strings and URLs only: a Request belongs to the library that made it. */
export type OutboundFetch = typeof globalThis.fetch;

export interface OutboundOptions extends Resolvers {
  /** Whether many people share this process: private places are then reached only where the operator lists them. */
  readonly shared: () => boolean;
  /** Hosts, origins, addresses and ranges that the operator lists; see `parseAllowList`. */
  readonly allow?: readonly string[];
}

export interface Outbound {
  /** A guarded `fetch` for the URLs that such a one gave. Throws OutboundError for what the guard refuses. */
  fetchFor(giver: UrlGiver, limits?: OutboundLimits): OutboundFetch;
  /** The same for what is passed on as it comes: see `OutboundCall`. */
  callFor(giver: UrlGiver, limits?: Pick<OutboundLimits, 'maxBytes'>): OutboundCall;
  /**
   * Why the guard would not fetch this URL, as far as the URL itself says; null where it does not. No name is looked up:
   * that is done when it is fetched, so that nobody learns here which names there are.
   */
  refusalOf(url: string, giver: UrlGiver): OutboundError | null;
  /** Closes every connection. */
  close(): Promise<void>;
}

/** For a server that somebody names: what lies at its origin is reached as far as they may, all else as it tells us. */
export function fetchFrom(
  { origin }: URL,
  outbound: Pick<Outbound, 'fetchFor'>,
  giver: UrlGiver,
  limits?: OutboundLimits,
): (url: string | URL, init?: RequestInit) => Promise<Response> {
  const [named, told] = [outbound.fetchFor(giver, limits), outbound.fetchFor('stranger', limits)];
  return (url, init) => (new URL(url).origin === origin ? named : told)(url, init);
}

/** No answer of a model comes near it; it only keeps an endless one from being taken for one. */
const defaultMaxBytes = 256 * 1024 * 1024;

/** How many places a call remembers: models are asked at a few again and again. */
const mostCalled = 100;

/** A URL that was called, and how far the call may reach. */
interface CalledPlace {
  readonly url: URL;
  readonly shared: boolean;
  readonly reach: Reach;
}

/** Builds the guard. It connects to nothing, and loads its HTTP client, when it is first used. */
export function createOutbound(options: OutboundOptions): Outbound {
  const allow: AllowList = parseAllowList(options.allow ?? []);
  let dispatchers: Promise<Dispatchers> | null = null;
  let loaded: Dispatchers | null = null;
  const load = async (): Promise<Dispatchers> => {
    const { createDispatchers } = await import('./dispatchers.ts');
    return createDispatchers(allow, options);
  };
  const dispatching = (): Promise<Dispatchers> => {
    dispatchers ??= load().catch((error: unknown) => {
      // A file that could not be read, as where too many are open, may be there the next time.
      dispatchers = null;
      throw error;
    });
    return dispatchers;
  };
  function placeOf(text: string, giver: UrlGiver, shared: boolean): CalledPlace {
    const url = urlOf(text);
    assertUrl(url);
    return { url, shared, reach: reachOf({ giver, url, first: url, shared, allow }) };
  }

  return {
    fetchFor(giver, limits = {}) {
      const whole = { maxBytes: defaultMaxBytes, ...limits };
      const reach = (url: URL, first: URL): Reach =>
        reachOf({ giver, url, first, shared: options.shared(), allow });
      return async (input, init) => {
        return followRedirects(await dispatching(), { input, init, limits: whole, reach });
      };
    },
    callFor(giver, { maxBytes = defaultMaxBytes } = {}) {
      const fetch = this.fetchFor(giver, { maxBytes });
      const called = new Map<string, CalledPlace>();
      return async (text, init) => {
        const shared = options.shared();
        const before = called.get(text);
        const place = before?.shared === shared ? before : placeOf(text, giver, shared);
        if (called.size >= mostCalled) called.clear();
        called.set(text, place);
        loaded ??= await dispatching();
        try {
          const answer = await loaded.call(place.url, init, place.reach, maxBytes);
          if (!redirectStatus.has(answer.status)) return answer;
          await answer.body.return?.();
        } catch (error) {
          throw outboundErrorIn(error) ?? error;
        }
        // Few servers of models do that: the one that follows them asks once more.
        return callBy(fetch)(text, init);
      };
    },
    refusalOf(text, giver) {
      if (!URL.canParse(text)) return new OutboundError('url_refused', 'That is not a URL.');
      const url = new URL(text);
      try {
        assertUrl(url);
        assertHost(url, reachOf({ giver, url, first: url, shared: options.shared(), allow }), allow);
        return null;
      } catch (error) {
        if (error instanceof OutboundError) return error;
        throw error;
      }
    },
    async close() {
      await (await dispatchers)?.close();
    },
  };
}
