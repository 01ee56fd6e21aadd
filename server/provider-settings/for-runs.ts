/** The providers that stored settings make for a query: each the same object as long as its setting is not changed. */
import type { ProviderCandidate } from '../config/config.ts';
import { Problem } from '../problem.ts';
import { openSetting } from './opened.ts';
import type { ProviderSettingsParts } from './parts.ts';
import type { StoredSetting } from './stored.ts';

/** A provider whose address somebody with an account gave. */
export type OwnProvider = ProviderCandidate & { readonly giver: 'account' };

/** What is kept open of settings that were not changed since: they hold secrets, and are opened for every model call. */
const mostKept = 1000;

/**
 * In the order of the settings; of two for one provider the first that can be used. One that cannot is left out, and
 * told of where it is read; only the one that is wanted by its id has to be there.
 */
export function providersForRuns(parts: ProviderSettingsParts) {
  const kept = new Map<string, OwnProvider>();

  async function providerOf(stored: StoredSetting): Promise<OwnProvider | null> {
    const key = `${stored.id} ${stored.revision}`;
    const known = kept.get(key);
    if (known) return parts.refusalOf(stored.entry.base_url ?? usual) ? null : known;
    const { candidate } = await openSetting(parts, stored);
    if (!candidate) return null;
    const made = { ...candidate, giver: 'account' } as const;
    // Whether it is connected otherwise than by a key, no revision tells.
    if (!stored.apiKeySet) return made;
    kept.set(key, made);
    const [oldest] = kept.keys();
    if (oldest !== undefined && kept.size > mostKept) kept.delete(oldest);
    return made;
  }

  return async (
    settings: readonly StoredSetting[],
    wantedId: string | undefined,
  ): Promise<readonly OwnProvider[]> => {
    const there = settings.filter(({ entry }) => !entry.disable);
    const providers = await Promise.all(there.map(providerOf));
    if (wantedId !== undefined)
      requireUsable(wantedId, settings, providers[there.findIndex(({ id }) => id === wantedId)]);
    const first = new Map<string, OwnProvider>();
    for (const provider of providers)
      if (provider && !first.has(provider.id)) first.set(provider.id, provider);
    return [...first.values()];
  };
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
