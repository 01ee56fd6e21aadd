/** `service models`. */
import type { ServiceClient } from '@service/client';
import type { MessagesModelInfo } from '@service/client/api';
import type { LoadedSettings, ProviderCandidate } from '../../../server/config/config.ts';
import { demonstration, findProviders, noProvider } from '../askable-providers.ts';
import { withService } from '../connection.ts';
import { type Column, notice, printTable } from '../output.ts';
import { currentSettings } from '../places.ts';
import { noticeDiagnostics, withPlaces } from '../settings-notices.ts';

/** A model that can be asked, as it is printed. */
interface AskableModel {
  /** As `--model` takes it. */
  readonly model: string;
  readonly name: string;
  readonly context_window: number | null;
  readonly max_output_tokens: number | null;
  readonly large: boolean;
  readonly small: boolean;
  readonly origin: ProviderCandidate['origin'] | 'built in';
}

/** Those of the settings files of this place, or those that a server has for its caller, who may keep providers there. */
export async function listModels({
  server,
  json = false,
}: {
  readonly server?: string;
  readonly json?: boolean;
}): Promise<void> {
  if (server === undefined) return await listHere(json);
  const models = await withService(server, modelsOfServer);
  if (models.length === 0 && !json) notice('This server has no model for you: no provider is set there.');
  printTable(models, columnsOfServer, { json });
}

const columnsOfServer: readonly Column<MessagesModelInfo>[] = [
  { title: 'model', value: ({ id }) => id, style: 'bold' },
  { title: 'name', value: ({ display_name }) => display_name },
  { title: 'context', value: ({ max_input_tokens }) => String(max_input_tokens ?? '') },
];

async function modelsOfServer(client: ServiceClient): Promise<readonly MessagesModelInfo[]> {
  const models: MessagesModelInfo[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const query = { limit: 1000, ...(after && { after_id: after }) };
    const { data } = await client.GET('/v1/models', { params: { query } });
    models.push(...data.data);
    after = data.has_more ? data.last_id : null;
  }
  return models;
}

/** Lists what can be asked here. Only servers on this machine are asked for theirs; no command of a template is run. */
async function listHere(json: boolean): Promise<void> {
  const { checkModels } = await import('../../../server/config/config.ts');
  const loaded = await currentSettings();
  const providers = await findProviders(loaded.config, process.env);
  noticeDiagnostics(withPlaces(await checkModels(loaded.config, providers), loaded));
  const models = askable(providers, loaded.config);
  if (models.length === 0 && !json) notice(`${noProvider.message} ${noProvider.remedy}`);
  printTable(models.length > 0 ? models : [scripted], columns, { json });
}

/** What answers where there is no model. */
const scripted: AskableModel = {
  model: `${demonstration.provider}:${demonstration.modelId}`,
  name: demonstration.name,
  context_window: null,
  max_output_tokens: null,
  large: true,
  small: true,
  origin: 'built in',
};

const columns: readonly Column<AskableModel>[] = [
  { title: 'model', value: ({ model }) => model, style: 'bold' },
  { title: 'name', value: ({ name }) => name },
  { title: 'context', value: ({ context_window }) => String(context_window ?? '') },
  {
    title: 'used as',
    value: ({ large, small }) => [large && 'large', small && 'small'].filter(Boolean).join(', '),
    style: 'green',
  },
  { title: 'from', value: ({ origin }) => origin, style: 'dim' },
];

function askable(providers: readonly ProviderCandidate[], config: LoadedSettings['config']): AskableModel[] {
  const large = chosen(providers, config.models?.large) ?? first(providers);
  const small = chosen(providers, config.models?.small) ?? large;
  const all = providers.flatMap((provider) =>
    modelsOf(provider, [large, small]).map(({ id, name, contextWindow, maxOutputTokens }) => ({
      model: `${provider.id}:${id}`,
      name,
      context_window: contextWindow ?? null,
      max_output_tokens: maxOutputTokens ?? null,
      origin: provider.origin,
    })),
  );
  return all.map(({ origin, ...row }) => ({
    ...row,
    large: row.model === large,
    small: row.model === small,
    origin,
  }));
}

type Selected = NonNullable<LoadedSettings['config']['models']>['large'];

/** The model that the agent takes: a provider that is known to lack the one that is named has its first one asked. */
function chosen(providers: readonly ProviderCandidate[], selected: Selected): string | null {
  const provider = providers.find(({ id }) => id === selected?.provider);
  if (!provider || !selected) return null;
  const absent = provider.onlyListed && !provider.models.some(({ id }) => id === selected.model);
  return `${provider.id}:${absent ? provider.models[0]?.id : selected.model}`;
}

function first(providers: readonly ProviderCandidate[]): string | null {
  const provider = providers.find(({ models }) => models.length > 0);
  return provider ? `${provider.id}:${provider.models[0]?.id}` : null;
}

/** A vendor has more models than anybody lists; one that the settings choose is among them. */
function modelsOf({ id, models }: ProviderCandidate, chosenOnes: readonly (string | null)[]) {
  const unlisted = chosenOnes.flatMap((full) =>
    full?.startsWith(`${id}:`) ? [full.slice(id.length + 1)] : [],
  );
  const others = [...new Set(unlisted)].filter((one) => !models.some((model) => model.id === one));
  return [...models, ...others.map((one): ProviderCandidate['models'][number] => ({ id: one, name: one }))];
}
