/** What a patch makes of the settings: members that do not fit together are refused, and no key goes to another address. */
import type { WebSearchEngineName, WebSearchSettingsUpdate } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { plainDomains } from './domain-rules.ts';
import { engines } from './engines.ts';
import type { KeptSettings } from './kept-settings.ts';

export interface ChangeMeans {
  seal(apiKey: string): string;
  /** Why an address is not to be spoken to; null where it is. */
  refusalOf(url: string): string | null;
  /** Whether the environment names the engine. */
  readonly fixed: boolean;
}

/** Throws `set_by_environment` or `invalid_request`. */
export function changed(
  before: KeptSettings,
  patch: WebSearchSettingsUpdate,
  means: ChangeMeans,
): KeptSettings {
  const { max_results, safe_search, allow_domains, deny_domains } = patch;
  return {
    ...engineOf(before, patch, means),
    max_results: max_results ?? before.max_results,
    safe_search: safe_search ?? before.safe_search,
    allow_domains: allow_domains ? plainDomains(allow_domains) : before.allow_domains,
    deny_domains: deny_domains ? plainDomains(deny_domains) : before.deny_domains,
  };
}

type EngineSettings = Pick<KeptSettings, 'engine' | 'base_url' | 'sealed_api_key'>;

function engineOf(before: KeptSettings, patch: WebSearchSettingsUpdate, means: ChangeMeans): EngineSettings {
  const { engine, base_url, sealed_api_key } = before;
  const given = (['engine', 'base_url', 'api_key'] as const).find((name) => patch[name] !== undefined);
  if (given === undefined) return { engine, base_url, sealed_api_key };
  if (means.fixed) throw setByEnvironment();
  const wanted = patch.engine === undefined ? engine : patch.engine;
  if (wanted === null) return withoutEngine(patch);
  const kept = wanted === engine ? before : { base_url: null, sealed_api_key: null };
  const baseUrl = patch.base_url === undefined ? kept.base_url : patch.base_url;
  requireAddress(wanted, baseUrl, means);
  const sameAddress = baseUrl === kept.base_url;
  const key = keyOf(wanted, patch, sameAddress ? kept.sealed_api_key : null, means);
  return { engine: wanted, base_url: baseUrl, sealed_api_key: key };
}

function withoutEngine({ base_url, api_key }: WebSearchSettingsUpdate): EngineSettings {
  const advice = 'It counts with an engine only; send `engine` with it.';
  if (base_url !== undefined && base_url !== null) throw refused('/base_url', advice);
  if (api_key !== undefined) throw refused('/api_key', advice);
  return { engine: null, base_url: null, sealed_api_key: null };
}

function requireAddress(engine: WebSearchEngineName, baseUrl: string | null, means: ChangeMeans): void {
  const { title, needsBaseUrl } = engines[engine];
  if (baseUrl === null && needsBaseUrl) throw refused('/base_url', `Say where ${title} is reached.`);
  const refusal = baseUrl === null ? null : means.refusalOf(baseUrl);
  if (refusal !== null) throw refused('/base_url', refusal);
}

function keyOf(
  engine: WebSearchEngineName,
  { api_key }: WebSearchSettingsUpdate,
  kept: string | null,
  { seal }: ChangeMeans,
): string | null {
  const { title, needsApiKey } = engines[engine];
  if (!needsApiKey) {
    if (api_key !== undefined) throw refused('/api_key', `${title} takes no key.`);
    return null;
  }
  if (api_key !== undefined) return seal(api_key);
  if (kept === null) throw refused('/api_key', `Send the key of ${title}: none is kept for this address.`);
  return kept;
}

function refused(pointer: string, message: string): Problem {
  return new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code: 'web_search' }],
  });
}

function setByEnvironment(): Problem {
  return new Problem(
    'set_by_environment',
    'SERVICE_WEB_SEARCH_URL names the engine; change the variable, and start the server anew.',
  );
}
