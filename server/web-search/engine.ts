/** What a search engine of the web is to the server; each engine is a file that fits it. */
import type { SafeSearch, WebSearchResult } from '../contract/api.ts';
import type { OutboundFetch } from '../outbound/outbound.ts';

/** One search, with the rules that hold for it. */
export interface EngineQuery {
  readonly query: string;
  readonly maxResults: number;
  readonly safeSearch: SafeSearch;
  /** Empty where any domain is allowed. */
  readonly allowDomains: readonly string[];
  readonly denyDomains: readonly string[];
}

/** Where an engine is, and what it knows us by. */
export interface EnginePlace {
  /** Null for the engine's own address. */
  readonly baseUrl: string | null;
  readonly apiKey: string | null;
  readonly fetch: OutboundFetch;
}

export interface Engine {
  readonly title: string;
  readonly needsBaseUrl: boolean;
  readonly needsApiKey: boolean;
  /**
   * What is found, page by page, the best first: another page is asked for only where those before were not enough. The
   * rules about domains may be heeded in part; whoever asks sees to them. Throws Problem.
   */
  pages(
    query: EngineQuery,
    place: EnginePlace,
    signal: AbortSignal,
  ): AsyncIterable<readonly WebSearchResult[]>;
}
