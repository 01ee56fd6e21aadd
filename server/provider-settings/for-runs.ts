/** The providers that stored settings make for a query: each the same object as long as nothing of it is changed. */

import type { Catalog, ProviderCandidate } from '../config/config.ts';
import { keepNewest } from '../keep-newest.ts';
import { Problem } from '../problem.ts';
import { openSetting } from './opened.ts';
import type { ProviderSettingsParts } from './parts.ts';
import type { StoredSetting } from './stored.ts';

/** A provider whose address somebody with an account gave. */
export type OwnProvider = ProviderCandidate & { readonly giver: 'account' };

export interface ProvidersForQueries {
  /**
   * In the order of the settings; of two for one provider the first that can be used. One that cannot is left out, and
   * told of where it is read; only the one that is wanted by its id has to be there.
   */
  forRuns(settings: readonly StoredSetting[], wantedId: string | undefined): Promise<readonly OwnProvider[]>;
  /** Every provider of these settings that can be used, also of several for one provider. */
  forChoice(settings: readonly StoredSetting[]): Promise<readonly OwnProvider[]>;
}

/** What is kept open of settings that were not changed since: they hold secrets, and are opened for every model call. */
const mostKept = 1000;

interface Kept {
  readonly catalog: Catalog;
  readonly provider: OwnProvider;
}

export function providersForQueries(parts: ProviderSettingsParts): ProvidersForQueries {
  const kept = new Map<string, Kept>();

  async function opened(stored: StoredSetting): Promise<OwnProvider | null> {
    const catalog = await parts.catalog();
    const key = `${stored.id} ${stored.revision} ${stored.discoveredMark}`;
    const known = kept.get(key);
    if (known?.catalog === catalog)
      return parts.refusalOf(stored.entry.base_url ?? usual) ? null : known.provider;
    const { candidate } = await openSetting(parts, stored);
    if (!candidate) return null;
    const provider = { ...candidate, giver: 'account' } as const;
    // Whether it is connected otherwise than by a key, no revision tells; nor what is discovered where nobody has looked.
    if (stored.apiKeySet && stored.discoveredMark !== undefined)
      keepNewest(kept, key, { catalog, provider }, mostKept);
    return provider;
  }

  /** One that nobody foresaw is left out like any other that cannot be used. */
  async function providerOf(stored: StoredSetting): Promise<OwnProvider | null> {
    try {
      return await opened(stored);
    } catch (error) {
      if (error instanceof Problem) throw error;
      parts.log.warn({ err: error, provider_setting_id: stored.id }, 'a provider setting cannot be used');
      return null;
    }
  }

  const forChoice = async (settings: readonly StoredSetting[]) => {
    const providers = await Promise.all(enabled(settings).map(providerOf));
    return providers.filter((provider) => provider !== null);
  };
  return {
    forChoice,
    async forRuns(settings, wantedId) {
      const there = enabled(settings);
      const providers = await Promise.all(there.map(providerOf));
      if (wantedId !== undefined)
        requireUsable(wantedId, settings, providers[there.findIndex(({ id }) => id === wantedId)]);
      const first = new Map<string, OwnProvider>();
      for (const provider of providers)
        if (provider && !first.has(provider.id)) first.set(provider.id, provider);
      return [...first.values()];
    },
  };
}

function enabled(settings: readonly StoredSetting[]): readonly StoredSetting[] {
  return settings.filter(({ entry }) => !entry.disable);
}

/** A place that is never refused: that of a built-in provider. */
const usual = 'https://api.openai.com';

function requireUsable(
  wantedId: string,
  settings: readonly StoredSetting[],
  provider: OwnProvider | null | undefined,
): void {
  if (provider) return;
  if (!settings.some(({ id }) => id === wantedId))
    throw new Problem('not_found', 'No provider setting has this id, or it is not yours.');
  throw new Problem(
    'invalid_request',
    'x-service-provider-setting-id: this setting is disabled or cannot be used; read it, its diagnostics say why.',
  );
}
