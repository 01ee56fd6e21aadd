/** `service providers`. */
import type { ListedProvider, LoadedSettings, ProviderCandidate } from '../../../server/config/config.ts';
import { demonstration, findProviders, noProvider } from '../askable-providers.ts';
import { describePlace, ignoredAsJson, ignoredIn, placeOfEntry } from '../origin-of.ts';
import { type Column, notice, printJson, printTable } from '../output.ts';
import { currentSettings } from '../places.ts';
import { noticeIgnored } from '../settings-notices.ts';

/** A provider as it is printed. */
interface ProviderRow {
  readonly id: string;
  readonly name: string;
  readonly type: ListedProvider['type'] | 'demo';
  readonly base_url: string | null;
  readonly state: ListedProvider['state'];
  readonly fault: string | null;
  readonly remedy: string | null;
  readonly origin: ProviderCandidate['origin'] | 'built in';
  readonly variable: string | null;
  readonly file: string | null;
  readonly line: number | null;
  readonly models: readonly string[];
}

/** Lists every provider that is named or found here, and why one cannot be asked. No command of a template is run. */
export async function listProviders({ json = false }: { readonly json?: boolean }): Promise<void> {
  const config = await import('../../../server/config/config.ts');
  const loaded = await currentSettings();
  const named = await config.listProviders(loaded.config, process.env);
  const usable = await findProviders(loaded.config, process.env);
  const found = usable.filter(({ origin }) => origin === 'discovered');
  const providers = [
    ...named.map((provider) => asNamed(provider, loaded)),
    ...(await Promise.all(found.map(asFound))),
    ...(usable.length === 0 ? [scripted] : []),
  ];
  const ignored = ignoredIn(loaded, 'providers');
  if (json) return printJson({ providers, ignored: ignoredAsJson(ignored) });
  noticeIgnored(ignored);
  if (usable.length === 0) notice(`${noProvider.message} ${noProvider.remedy}`);
  printTable(providers, columns);
}

const columns: readonly Column<ProviderRow>[] = [
  { title: 'id', value: ({ id }) => id, style: 'bold' },
  { title: 'type', value: ({ type }) => type },
  { title: 'base url', value: ({ base_url }) => base_url ?? '' },
  { title: 'from', value: describeOrigin, style: 'dim' },
  {
    title: 'state',
    value: ({ state, fault, remedy }) => (fault ? `${state}: ${fault} ${remedy}` : state),
    style: ({ state }) => (({ usable: 'green', disabled: 'dim', unusable: 'yellow' }) as const)[state],
  },
];

function asNamed(provider: ListedProvider, loaded: LoadedSettings): ProviderRow {
  const { id, name, type, baseUrl, state, fault, variable, models } = provider;
  const place = placeOfEntry(loaded, 'providers', id);
  return {
    id,
    name,
    type,
    base_url: baseUrl,
    state,
    fault: fault && `${fault.message}.`,
    remedy: fault?.remedy ?? null,
    origin: variable === null ? 'settings' : 'environment',
    variable,
    file: place?.file ?? null,
    line: place?.line ?? null,
    models: models.map((model) => model.id),
  };
}

const unnamed = {
  state: 'usable',
  fault: null,
  remedy: null,
  variable: null,
  file: null,
  line: null,
} as const;

/** A server on this machine, which answered when it was asked for its models. */
async function asFound({ id, name, type, connect, models, origin }: ProviderCandidate): Promise<ProviderRow> {
  const { baseUrl = null } = await connect();
  return { ...unnamed, id, name, type, base_url: baseUrl, origin, models: models.map((model) => model.id) };
}

/** What answers where no provider can be asked. */
const scripted: ProviderRow = {
  ...unnamed,
  id: demonstration.provider,
  name: demonstration.name,
  type: 'demo',
  base_url: null,
  origin: 'built in',
  models: [demonstration.modelId],
};

function describeOrigin({ origin, variable, file, line }: ProviderRow): string {
  if (variable !== null) return `$${variable}`;
  if (file !== null && line !== null) return describePlace({ file, line });
  return origin === 'discovered' ? 'this machine' : origin;
}
