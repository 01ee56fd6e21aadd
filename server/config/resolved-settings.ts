/** The last step of loading: settings and the providers that follow from them, resolved anew when the files change. */
import type { ClientConfig } from '../contract/config.ts';
import { type Catalog, emptyCatalog, withCatalog } from './catalogs/catalog.ts';
import type { Diagnostic } from './diagnostic.ts';
import { checkModels } from './providers/models.ts';
import { type ProviderCandidate, resolveProviders } from './providers/providers.ts';
import { checkTemplates } from './templates/expand.ts';
import type { Environment } from './templates/variables.ts';

/** Settings, the providers that can be asked, and what is odd about either. */
export interface ResolvedSettings {
  readonly config: ClientConfig;
  readonly providers: readonly ProviderCandidate[];
  readonly diagnostics: readonly Diagnostic[];
}

/** What settings are resolved with besides themselves. */
export interface Surroundings {
  readonly environment: Environment;
  /** Providers that were found on this machine; those of the settings go before them. */
  readonly discovered: () => readonly ProviderCandidate[];
  /** What is known of models beyond the settings; nothing if absent. The same object as long as nothing changes. */
  readonly catalog?: (config: ClientConfig) => Promise<Catalog>;
  /** Where the commands of templates run; the person's home if absent. */
  readonly workingDirectory?: string | undefined;
}

/** Resolves what `current` gives; the same object comes back as long as neither it nor what was discovered changes. */
export function followProviders<Loaded extends Pick<ResolvedSettings, 'config' | 'diagnostics'>>(
  current: () => Promise<Loaded>,
  surroundings: Surroundings,
): () => Promise<ResolvedSettings> {
  let last: (Sources<Loaded> & { resolved: ResolvedSettings }) | null = null;
  return async () => {
    const from = await current();
    const catalog = (await surroundings.catalog?.(from.config)) ?? emptyCatalog;
    const found = surroundings.discovered();
    if (last?.from !== from || last.found !== found || last.catalog !== catalog) {
      const sources = { from, found, catalog };
      last = { ...sources, resolved: resolve(sources, surroundings) };
    }
    return last.resolved;
  };
}

/** What settings are resolved from. */
interface Sources<Loaded> {
  readonly from: Loaded;
  readonly found: readonly ProviderCandidate[];
  readonly catalog: Catalog;
}

function resolve(
  {
    from: { config, diagnostics },
    found,
    catalog,
  }: Sources<Pick<ResolvedSettings, 'config' | 'diagnostics'>>,
  { environment, workingDirectory }: Surroundings,
): ResolvedSettings {
  const named = resolveProviders(config, environment, { workingDirectory });
  const { mcp = {}, lsp = {} } = config;
  const known = new Set(named.candidates.map(({ id }) => id));
  const providers = [...named.candidates, ...found.filter(({ id }) => !known.has(id))].map((provider) =>
    withCatalog(provider, catalog),
  );
  return {
    config,
    providers,
    diagnostics: [
      ...diagnostics,
      ...named.diagnostics,
      ...checkModels(config, providers),
      ...checkTemplates({ mcp, lsp }, environment),
    ],
  };
}
