/** Searches the web: by the engine and the rules that the operator has set, as they stand at the moment of a search. */
import type {
  WebSearchEngine,
  WebSearchEngineName,
  WebSearchResult,
  WebSearchSettings,
  WebSearchSettingsUpdate,
} from '../contract/api.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { Problem } from '../problem.ts';
import { isWithin } from './domain-rules.ts';
import type { EnginePlace, EngineQuery } from './engine.ts';
import { engineNames, engines } from './engines.ts';
import type { SettingsRecords, StoredSettings } from './kept-settings.ts';
import { changed } from './settings-change.ts';

export interface TaggedWebSearch {
  readonly settings: WebSearchSettings;
  readonly etag: string;
}

/** The engine that is asked now. */
export interface AskedEngine {
  readonly name: WebSearchEngineName;
  /** The best first; never more than the settings say. Throws Problem. */
  search(query: string, maxResults: number | undefined, signal: AbortSignal): Promise<WebSearchResult[]>;
}

export interface WebSearch<Operator> {
  read(): Promise<TaggedWebSearch>;
  /** Throws `set_by_environment`, `precondition_failed` or `invalid_request`. */
  change(operator: Operator, patch: WebSearchSettingsUpdate, ifMatch: string): Promise<TaggedWebSearch>;
  engines(): Promise<WebSearchEngine[]>;
  /** Null where no engine is set. */
  engine(): Promise<AskedEngine | null>;
}

export interface WebSearchParts<Operator> {
  readonly records: SettingsRecords<Operator>;
  /** A SearXNG that the environment names; null where the settings say who is asked. */
  readonly environment: string | null;
  readonly outbound: Outbound;
  readonly sealing: { seal(apiKey: string): string; open(sealed: string): string };
  /** How long one answer of an engine may take; 20 seconds if absent. */
  readonly timeoutMs?: number;
}

/** Many times the longest answer of an engine. */
const maxBytes = 8 * 1024 * 1024;

export function createWebSearch<Operator>(parts: WebSearchParts<Operator>): WebSearch<Operator> {
  const { records, environment, outbound, sealing, timeoutMs: totalMs = 20_000 } = parts;
  // A key is for the server that it was given for, and for none that this one names.
  const mayRedirect = (target: URL, first: URL) => target.origin === first.origin;
  const limits = { maxBytes, totalMs, mayRedirect };
  const fetches = {
    environment: outbound.fetchFor('operator', limits),
    setting: outbound.fetchFor('account', limits),
  };
  const fixed = environment !== null;
  const tagged = ({ kept, etag }: { readonly kept: StoredSettings; readonly etag: string }) => ({
    settings: shown(kept, environment),
    etag,
  });
  const placeOf = ({ base_url, sealed_api_key }: StoredSettings): EnginePlace =>
    fixed
      ? { baseUrl: environment, apiKey: null, fetch: fetches.environment }
      : {
          baseUrl: base_url,
          apiKey: sealed_api_key === null ? null : sealing.open(sealed_api_key),
          fetch: fetches.setting,
        };
  return {
    read: async () => tagged(await records.read(environment)),
    async change(operator, patch, ifMatch) {
      const means = {
        fixed,
        seal: sealing.seal,
        refusalOf: (url: string) => outbound.refusalOf(url, 'account')?.message ?? null,
      };
      const merge = (before: Parameters<typeof changed>[0]) => changed(before, patch, means);
      return tagged(await records.change(operator, { ifMatch, mark: environment, merge }));
    },
    async engines() {
      const { engine } = shown(await records.current(), environment);
      return engineNames.map((name) => {
        const { title, needsBaseUrl, needsApiKey } = engines[name];
        const needs = { needs_base_url: needsBaseUrl, needs_api_key: needsApiKey };
        return { name, title, ...needs, selected: name === engine };
      });
    },
    async engine() {
      const kept = await records.current();
      const { engine: name } = shown(kept, environment);
      if (name === null) return null;
      return {
        name,
        search: (query, maxResults, signal) =>
          search(name, queryOf(kept, query, maxResults), placeOf(kept), signal),
      };
    },
  };
}

function queryOf(
  { max_results, safe_search, allow_domains, deny_domains }: StoredSettings,
  query: string,
  maxResults: number | undefined,
): EngineQuery {
  return {
    query: query.trim(),
    maxResults: Math.min(maxResults ?? max_results, max_results),
    safeSearch: safe_search,
    allowDomains: allow_domains,
    denyDomains: deny_domains,
  };
}

/** Each page of the web once. */
async function search(
  name: WebSearchEngineName,
  query: EngineQuery,
  place: EnginePlace,
  signal: AbortSignal,
): Promise<WebSearchResult[]> {
  const seen = new Set<string>();
  const found: WebSearchResult[] = [];
  try {
    for await (const page of engines[name].pages(query, place, signal)) {
      const before = seen.size;
      for (const hit of page) {
        if (!seen.has(hit.url) && isWithin(hit.url, query)) found.push(hit);
        seen.add(hit.url);
      }
      if (seen.size === before || found.length >= query.maxResults) break;
    }
  } catch (error) {
    // Of an engine that refuses a further page, what it has given so far is more than nothing.
    if (found.length === 0 || signal.aborted || !(error instanceof Problem)) throw error;
  }
  return found.slice(0, query.maxResults);
}

/** As they count here. */
function shown(kept: StoredSettings, environment: string | null): WebSearchSettings {
  const { max_results, safe_search, allow_domains, deny_domains, updated_at } = kept;
  const rules = { max_results, safe_search, updated_at };
  const lists = { allow_domains: [...allow_domains], deny_domains: [...deny_domains] };
  if (environment !== null)
    return {
      ...{ engine: 'searxng', source: 'environment', base_url: environment, api_key_set: false },
      ...{ ...rules, ...lists },
    };
  return {
    engine: kept.engine,
    source: updated_at === null ? 'default' : 'setting',
    base_url: kept.base_url,
    api_key_set: kept.sealed_api_key !== null,
    ...{ ...rules, ...lists },
  };
}
