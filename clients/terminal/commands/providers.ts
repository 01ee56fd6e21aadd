/** `service providers`. */
import type { ListedProvider, LoadedSettings, Place } from '../../../server/config/config.ts';
import { describePlace, ignoredIn, placeOfEntry, tellIgnored } from '../origin-of.ts';
import { notice, printJson, printTable } from '../output.ts';
import { currentSettings } from '../places.ts';

/** Lists every provider that is named here, and why one cannot be asked. No command of a template is run. */
export async function listProviders({ json = false }: { readonly json?: boolean }): Promise<void> {
  const config = await import('../../../server/config/config.ts');
  const loaded = await currentSettings();
  const providers = await config.listProviders(loaded.config, process.env);
  const ignored = ignoredIn(loaded, 'providers');
  if (json) return printJson({ providers: providers.map((one) => asJson(one, loaded)), ignored });
  tellIgnored(ignored);
  if (providers.length === 0) return notice(noProviders);
  printTable(providers, [
    { title: 'id', value: ({ id }) => id, style: 'bold' },
    { title: 'type', value: ({ type }) => type },
    { title: 'base url', value: ({ baseUrl }) => baseUrl ?? '' },
    { title: 'from', value: (provider) => describeOrigin(provider, placeOf(provider, loaded)), style: 'dim' },
    { title: 'state', value: describeState, style: ({ state }) => colours[state] },
  ]);
}

/** What to do where nothing can be asked. */
export const noProviders =
  'No provider can be asked. Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add one to "providers" in service.json.';

const colours = { usable: 'green', disabled: 'dim', unusable: 'yellow' } as const;

function asJson(provider: ListedProvider, loaded: LoadedSettings) {
  const { id, name, type, baseUrl, state, fault, variable, models } = provider;
  const place = placeOf(provider, loaded);
  return {
    id,
    name,
    type,
    base_url: baseUrl,
    state,
    fault: fault && `${fault.message}.`,
    remedy: fault?.remedy ?? null,
    variable,
    file: place?.file ?? null,
    line: place?.line ?? null,
    models: models.map((model) => model.id),
  };
}

function placeOf({ id }: ListedProvider, loaded: LoadedSettings): Place | null {
  return placeOfEntry(loaded, 'providers', id);
}

function describeOrigin({ variable }: ListedProvider, place: Place | null): string {
  return variable === null ? describePlace(place) : `$${variable}`;
}

function describeState({ state, fault }: ListedProvider): string {
  return fault ? `${state}: ${fault.message}. ${fault.remedy}` : state;
}
