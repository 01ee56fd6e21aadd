/** The model providers of a runtime: finds the model that a name means, and opens it. */
import type { SharedV4ProviderOptions } from '@ai-sdk/provider';
import { Problem } from '../../problem.ts';
import type { Model } from '../model.ts';
import { aiSdkModel, type ModelTimeouts } from './ai-sdk.ts';
import { anthropic } from './anthropic.ts';
import { demoModel, demoModelId, demoProviderId } from './demo.ts';
import { openai } from './openai.ts';
import { openaiCompat } from './openai-compat.ts';
import type { ProviderConnection, ProviderFactory } from './provider-factory.ts';

/** A provider as it was found in settings or environment. */
export interface ProviderDefinition {
  readonly id: string;
  readonly type: 'openai' | 'openai-compat' | 'anthropic';
  /** Read at the moment of use, so that a changed variable counts and an unset one fails only its own provider. */
  readonly connect: () => ProviderConnection;
  /** The models by which it may be asked without being named; the first is its default. */
  readonly models: readonly { readonly id: string }[];
  /** Options of the vendor's own, passed on as they are. */
  readonly providerOptions?: Readonly<Record<string, unknown>>;
  /** Stands before the system prompt of each call. */
  readonly systemPromptPrefix?: string;
}

export interface ProvidersOptions {
  readonly definitions: readonly ProviderDefinition[];
  /** `<provider>:<model_id>` that a query without a model means. */
  readonly defaultModel: string | null;
  /** Whether the built-in demonstration answers where nothing else is configured. */
  readonly demo: boolean;
  readonly timeouts: ModelTimeouts;
}

export interface Providers {
  /** The ids of the providers, the default one first. */
  readonly ids: readonly string[];
  /**
   * The full name that a model's name means; null means the default.
   * Throws Problem model_not_found or no_provider_configured.
   */
  resolve(name: string | null): string;
  /** Opens a model by its full name. */
  open(fullName: string): Model;
}

const factories: Readonly<Record<ProviderDefinition['type'], ProviderFactory>> = {
  openai,
  'openai-compat': openaiCompat,
  anthropic,
};

export function createProviders(options: ProvidersOptions): Providers {
  const byId = new Map(options.definitions.map((definition) => [definition.id, definition]));
  const demoAnswers = options.demo && byId.size === 0;
  return {
    ids: demoAnswers ? [demoProviderId] : [...byId.keys()],
    resolve(name) {
      const full =
        name === null ? defaultName(options, demoAnswers) : fullName(name, byId, options, demoAnswers);
      if (!full) throw unconfigured();
      return full;
    },
    open(full) {
      const [provider, modelId] = split(full);
      if (provider === demoProviderId) return demoModel();
      const definition = byId.get(provider);
      if (!definition) throw unknownModel(full, [...byId.keys()]);
      return openModel(definition, modelId, options.timeouts);
    },
  };
}

function openModel(definition: ProviderDefinition, modelId: string, timeouts: ModelTimeouts): Model {
  const connection = connectionOf(definition);
  const model = factories[definition.type]({ id: definition.id, ...connection })(modelId);
  const name = `${definition.id}:${modelId}`;
  const opened = aiSdkModel(name, model, timeouts, secretsOf(connection), optionsOf(definition));
  const prefix = definition.systemPromptPrefix;
  if (!prefix) return opened;
  return {
    name: opened.name,
    stream: (request, signal) =>
      opened.stream({ ...request, system: `${prefix}\n${request.system}` }, signal),
  };
}

/** What the settings say is wrong with them is for the operator's log, not for whoever asks a question. */
function connectionOf({ id, connect }: ProviderDefinition): ProviderConnection {
  try {
    return connect();
  } catch (cause) {
    throw new Problem(
      'provider_refused',
      `The settings of the provider ${id} cannot be used; its operator's log says why.`,
      {
        cause,
      },
    );
  }
}

/** Any header may be a credential. What is very short is none, and would blot out half a sentence. */
function secretsOf({ apiKey, headers }: ProviderConnection): readonly string[] {
  const given = [apiKey ?? '', ...Object.values(headers ?? {})];
  return given.flatMap((value) => [value, value.replace(/^\w+ /, '')]).filter(({ length }) => length >= 8);
}

/** The SDK keeps the options of each vendor under that vendor's name; a compatible server's under its id. */
function optionsOf({ id, type, providerOptions }: ProviderDefinition): SharedV4ProviderOptions | undefined {
  if (!providerOptions) return undefined;
  // Settings are JSON, and so is what the SDK takes; it refuses what the vendor does not know.
  return { [type === 'openai-compat' ? id : type]: providerOptions } as SharedV4ProviderOptions;
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
  // The settings may name a provider that cannot be used here; they were warned about it when they were read.
  if (defaultModel && definitions.some(({ id }) => id === split(defaultModel)[0])) return defaultModel;
  for (const { id, models } of definitions) if (models[0]) return `${id}:${models[0].id}`;
  return demoAnswers ? `${demoProviderId}:${demoModelId}` : null;
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
