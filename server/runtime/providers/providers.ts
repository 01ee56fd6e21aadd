/** The model providers of a runtime: finds the model that a name means, and opens it. */
import { Problem } from '../../problem.ts';
import { noTracing, type Tracing } from '../../tracing.ts';
import type { Model } from '../models/model.ts';
import { tracedModel } from '../models/traced-model.ts';
import { demoModel, demoModelId, demoProviderId } from './demo.ts';
import { followedModel } from './followed-model.ts';
import { type ModelCalls, openModel, type WritingCalls } from './open-model.ts';
import { callOf, fetchOf, type OwnProviders, ownFirst, type ProviderReach } from './own-providers.ts';
import type { ProviderDefinition } from './provider-definition.ts';

export type { ProviderDefinition } from './provider-definition.ts';

export interface ProvidersOptions extends ModelCalls, ProviderReach {
  readonly definitions: readonly ProviderDefinition[];
  /** As they are now; those that were given count for good if absent. */
  readonly current?: () => Promise<readonly ProviderDefinition[]>;
  /** `<provider>:<model_id>` that a query without a model means. */
  readonly defaultModel: string | null;
  /** Whether the built-in demonstration answers where nothing else is configured. */
  readonly demo: boolean;
  /** Told of each model call; nobody is if absent. */
  readonly tracing?: Tracing;
}

export interface Providers {
  /** The ids of the providers, the default one first. */
  readonly ids: readonly string[];
  /** The full names of the models that they list, in the same order. */
  readonly models: readonly string[];
  /**
   * The full name that a model's name means; null means the default.
   * Throws Problem model_not_found or no_provider_configured.
   */
  resolve(name: string | null): string;
  /** The model that the settings mean by a full name: its provider's first where it has no such one, null without the provider. */
  chosen(fullName: string): string | null;
  /** Opens a model by its full name. */
  open(fullName: string): Model;
  /** The same with somebody's own before them, which `current` looks for again at each model call. */
  with(own: OwnProviders, current: () => Promise<OwnProviders>): Providers;
}

export function createProviders(options: ProvidersOptions): Providers {
  const byId = new Map(options.definitions.map((definition) => [definition.id, definition]));
  const { tracing = noTracing } = options;
  const demoAnswers = options.demo && byId.size === 0;
  const callsOf = (one: ProviderDefinition): WritingCalls => ({
    timeouts: options.timeouts,
    fetch: fetchOf(one, options),
    call: callOf(one, options),
  });
  return {
    ids: demoAnswers ? [demoProviderId] : [...byId.keys()],
    models: demoAnswers
      ? [`${demoProviderId}:${demoModelId}`]
      : [...byId.values()].flatMap(({ id, models }) => models.map((model) => `${id}:${model.id}`)),
    resolve(name) {
      const full =
        name === null ? defaultName(options, demoAnswers) : fullName(name, byId, options, demoAnswers);
      if (!full) throw unconfigured();
      return full;
    },
    chosen: (full) => chosenName(full, options),
    open(full) {
      const [provider, modelId] = split(full);
      if (provider === demoProviderId) return tracedModel(demoModel(), demoProviderId, tracing);
      const definition = byId.get(provider);
      if (!definition) throw unknownModel(full, [...byId.keys()]);
      const opened = (one: ProviderDefinition) =>
        tracedModel(openModel(one, modelId, callsOf(one)), one.type, tracing);
      const { current } = options;
      if (!current) return opened(definition);
      const find = async () => (await current()).find(({ id }) => id === provider) ?? null;
      return followedModel({ definition, current: find, open: opened });
    },
    with(own, current) {
      const { definitions, defaultModel } = options;
      return createProviders({
        ...options,
        definitions: ownFirst(own, definitions),
        defaultModel: own.models.large ?? defaultModel,
        current: async () => ownFirst(await current(), definitions),
      });
    },
  };
}

/** A name splits at its first colon only where a known provider stands before it: model ids have colons too. */
function fullName(
  name: string,
  byId: ReadonlyMap<string, ProviderDefinition>,
  options: ProvidersOptions,
  demoAnswers: boolean,
): string | null {
  const [provider, modelId] = split(name);
  if (byId.has(provider) && modelId) return name;
  if (provider === demoProviderId) {
    if (name !== `${demoProviderId}:${demoModelId}`) throw unknownModel(name, [...byId.keys()]);
    return name;
  }
  const listing = options.definitions.find(({ models }) => models.some(({ id }) => id === name));
  if (listing) return `${listing.id}:${name}`;
  if (byId.size === 0 && !demoAnswers) return null;
  throw unknownModel(name, demoAnswers ? [demoProviderId] : [...byId.keys()]);
}

function defaultName({ defaultModel, definitions }: ProvidersOptions, demoAnswers: boolean): string | null {
  const chosen = defaultModel && chosenName(defaultModel, { definitions });
  if (chosen) return chosen;
  for (const { id, models } of definitions) if (models[0]) return `${id}:${models[0].id}`;
  return demoAnswers ? `${demoProviderId}:${demoModelId}` : null;
}

/** The settings may name what cannot be asked here; their reader was warned when they were read. */
function chosenName(full: string, { definitions }: Pick<ProvidersOptions, 'definitions'>): string | null {
  const [providerId, modelId] = split(full);
  const definition = definitions.find(({ id }) => id === providerId);
  if (!definition) return null;
  const [first] = definition.models;
  const absent = definition.onlyListed && !definition.models.some(({ id }) => id === modelId);
  return absent && first ? `${providerId}:${first.id}` : full;
}

function split(name: string): [provider: string, modelId: string] {
  const colon = name.indexOf(':');
  return colon < 0 ? ['', name] : [name.slice(0, colon), name.slice(colon + 1)];
}

function unconfigured(): Problem {
  return new Problem(
    'no_provider_configured',
    'Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add a provider to the global service.json.',
  );
}

function unknownModel(name: string, providers: readonly string[]): Problem {
  return new Problem(
    'model_not_found',
    `No provider has the model ${JSON.stringify(name)}; name it as <provider>:<model_id> with one of: ${providers.join(', ')}.`,
  );
}
