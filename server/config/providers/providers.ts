/** Finds the model providers that can be used: those of the settings, then those whose key is in the environment. */
import { homedir } from 'node:os';
import type { ClientConfig, Provider, ProviderModel } from '../../contract/config.ts';
import type { Diagnostic } from '../diagnostic.ts';
import { pointerPart } from '../pointer.ts';
import { ExpansionError } from '../templates/expansion-error.ts';
import type { Environment } from '../templates/variables.ts';
import { type BuiltInProvider, builtInProviders, defaultModels } from './built-in-providers.ts';
import { type Connection, checkConnection, connectionOf, type TemplateSurroundings } from './connection.ts';
import { type ProviderType, realProviderType } from './provider-type.ts';

/** A provider that can be asked. */
export interface ProviderCandidate {
  readonly id: string;
  readonly name: string;
  readonly type: ProviderType;
  /** Replaces variables and runs commands, at the moment of use. Throws ExpansionError. */
  readonly connect: (signal?: AbortSignal, refused?: Connection) => Promise<Connection>;
  /** The first is the provider's default. */
  readonly models: readonly CandidateModel[];
  /** Whether it is known to have no others. */
  readonly onlyListed?: boolean;
  /** What catalogues know of its models, by their ids, also of those that it does not list. */
  readonly unlisted?: ReadonlyMap<string, readonly ProviderModel[]>;
  /** Whether its calls cost nothing by themselves. */
  readonly flatRate?: boolean;
  readonly providerOptions?: Readonly<Record<string, unknown>>;
  readonly systemPromptPrefix?: string;
  readonly origin: 'settings' | 'environment' | 'discovered';
}

/** A model of a provider, as far as it is known. */
export interface CandidateModel {
  readonly id: string;
  readonly name: string;
  readonly contextWindow?: number;
  readonly maxOutputTokens?: number;
  /** As the settings describe it. */
  readonly settings?: ProviderModel;
  /** As catalogues describe it, what counts most first; the settings count before all of them. */
  readonly known?: readonly ProviderModel[];
}

/** What providers are resolved with besides the settings. */
export interface ResolveOptions {
  /** Where the commands of templates run; the person's home if absent. */
  readonly workingDirectory?: string | undefined;
}

/** The providers that can be used, in order of preference, and a warning for each that cannot. */
export interface ResolvedProviders {
  readonly candidates: readonly ProviderCandidate[];
  readonly diagnostics: readonly Diagnostic[];
}

/**
 * Finds the usable providers. Those of the environment come last, and only under ids that the settings leave free.
 * No command of a template is run: that is left to `connect`.
 */
export function resolveProviders(
  config: ClientConfig,
  environment: Environment,
  { workingDirectory = homedir() }: ResolveOptions = {},
): ResolvedProviders {
  const surroundings = { environment, workingDirectory };
  const candidates: ProviderCandidate[] = [];
  const diagnostics: Diagnostic[] = [];
  for (const entry of [...settingsEntries(config), ...environmentEntries(config, environment)]) {
    const fault = faultOf(entry, surroundings);
    if (fault) diagnostics.push(warning(entry.id, fault));
    else candidates.push(candidateOf(entry, surroundings));
    if (!fault && entry.provider.extra_body && entry.type !== 'openai-compat') {
      diagnostics.push(warning(entry.id, bodyNotSent, '/extra_body'));
    }
  }
  return { candidates, diagnostics };
}

/** A provider whose values are what they say, and what is wrong with it. */
export interface LiteralProvider {
  readonly type: ProviderType;
  /** Null where it cannot be used. */
  readonly candidate: ProviderCandidate | null;
  readonly diagnostics: readonly Pick<Diagnostic, 'severity' | 'message' | 'remedy'>[];
}

/**
 * A provider that somebody keeps elsewhere than in a settings file: nothing of it is a template, and nothing of the
 * environment is added, so that its key goes nowhere but to its own address, and no other key does. Models that it lists
 * itself stand in for those that nobody has described.
 */
export function resolveLiteral(
  id: string,
  provider: Provider,
  discovered: readonly string[] = [],
): LiteralProvider {
  const known = builtInProviders.get(id);
  const type = realProviderType(provider.type ?? known?.type ?? 'openai');
  const builtIn = known?.type === type ? known : undefined;
  // Written, though empty, the key is not looked for in variables.
  const written = { ...provider, api_key: provider.api_key ?? '' };
  const entry: Entry = {
    ...{ id, type, builtIn, chosen: discovered, alone: false, origin: 'settings' },
    provider: provider.oauth && !provider.api_key ? provider : written,
  };
  const surroundings = { environment: {}, workingDirectory: homedir(), literal: true } as const;
  const fault = literalFault(entry) ?? faultOf(entry, surroundings);
  if (fault) return { type, candidate: null, diagnostics: [{ severity: 'error', ...fault }] };
  const bodyIdle = provider.extra_body && type !== 'openai-compat';
  return {
    type,
    candidate: candidateOf(entry, surroundings),
    diagnostics: bodyIdle ? [{ severity: 'warning', ...bodyNotSent }] : [],
  };
}

/** What a variable would have to say otherwise. */
function literalFault({ provider, builtIn }: Entry): Fault | null {
  if (provider.base_url || !builtIn || builtIn.baseUrl(() => '')) return null;
  return { message: `A provider of the type ${builtIn.type} needs a base_url`, remedy: 'Add base_url.' };
}

/** A provider before it is known to be usable. */
interface Entry {
  readonly id: string;
  readonly provider: Provider;
  readonly type: ProviderType;
  /** What the service adds by itself; nothing where the settings forbid it. */
  readonly builtIn: BuiltInProvider | undefined;
  /** Whether the settings must say everything themselves. */
  readonly alone: boolean;
  /** The models of it that `models` names. */
  readonly chosen: readonly string[];
  readonly origin: 'settings' | 'environment';
}

function settingsEntries(config: ClientConfig): Entry[] {
  const alone = config.options?.disable_default_providers ?? false;
  return Object.entries(config.providers ?? {})
    .filter(([, provider]) => !provider.disable)
    .map(([id, provider]) => {
      const known = alone ? undefined : builtInProviders.get(id);
      const type = realProviderType(provider.type ?? known?.type ?? 'openai');
      // Under a type of its own the entry is another provider, which only shares the id.
      return {
        id,
        provider,
        type,
        builtIn: known?.type === type ? known : undefined,
        alone,
        chosen: chosenModels(config, id),
        origin: 'settings',
      };
    });
}

function environmentEntries(config: ClientConfig, environment: Environment): Entry[] {
  if (config.options?.disable_default_providers) return [];
  return [...builtInProviders]
    .filter(([id]) => !Object.hasOwn(config.providers ?? {}, id))
    .filter(([, builtIn]) => isOffered(builtIn, environment))
    .map(([id, builtIn]) => {
      const chosen = chosenModels(config, id);
      return { provider: {}, alone: false, chosen, id, type: builtIn.type, builtIn, origin: 'environment' };
    });
}

function isOffered({ keyVariable, needs }: BuiltInProvider, environment: Environment): boolean {
  const key = environment[keyVariable] || environment[`${keyVariable}_FILE`];
  return Boolean(key) && needs.every((variable) => environment[variable]);
}

function chosenModels({ models = {} }: ClientConfig, providerId: string): string[] {
  const chosen = [models.large, models.small].flatMap((model) => (model ? [model] : []));
  const named = chosen.filter(({ provider }) => provider === providerId).map(({ model }) => model);
  const prefix = `${providerId}:`;
  const standIns = chosen.flatMap(({ fallbacks = [] }) => fallbacks);
  return [
    ...named,
    ...standIns.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length)),
  ];
}

/** Why a provider is left out, and what to do about it. */
interface Fault {
  readonly message: string;
  readonly remedy: string;
}

const bodyNotSent: Fault = {
  message: 'extra_body is sent only to providers of the type openai-compat',
  remedy: 'Remove it, or use provider_options.',
};

function faultOf(entry: Entry, surroundings: TemplateSurroundings): Fault | null {
  const { id, provider, builtIn, alone } = entry;
  if (id === '' || id.includes(':')) {
    return { message: 'The id of a provider has no colon and is not empty', remedy: 'Choose another id.' };
  }
  const missing = (['base_url', 'models', 'api_key'] as const).filter((key) => !provider[key]?.length);
  if (alone && missing.length > 0) {
    const message = `With disable_default_providers a provider needs ${missing.join(' and ')}`;
    return { message, remedy: `Add ${missing.join(' and ')}.` };
  }
  if (!builtIn && !provider.base_url) {
    return {
      message: 'A provider that is not built in needs a base_url',
      remedy: 'Add "base_url": "https://…".',
    };
  }
  if (!builtIn && modelsOf(entry).length === 0) {
    return {
      message: 'A provider that is not built in needs at least one model',
      remedy: 'Add "models": [{ "id": "…" }], or name one of its models in models.large.',
    };
  }
  return connectionFault(entry, surroundings);
}

/** Tried once at the start, so that a missing variable is told then and not at the first question. */
function connectionFault(
  { provider, type, builtIn }: Entry,
  surroundings: TemplateSurroundings,
): Fault | null {
  try {
    checkConnection({ provider, type, builtIn }, surroundings);
    return null;
  } catch (error) {
    if (!(error instanceof ExpansionError)) throw error;
    return { message: error.fault, remedy: error.remedy };
  }
}

function warning(id: string, { message, remedy }: Fault, below = ''): Diagnostic {
  const pointer = `/providers/${pointerPart(id)}${below}`;
  return { severity: 'warning', place: null, pointer, message, expected: null, remedy };
}

function candidateOf(entry: Entry, surroundings: TemplateSurroundings): ProviderCandidate {
  const { id, provider, type, builtIn, origin } = entry;
  const source = { provider, type, builtIn };
  return {
    id,
    name: provider.name ?? builtIn?.name ?? id,
    type,
    connect: (signal) => connectionOf(source, surroundings, signal),
    models: modelsOf(entry),
    // Of a vendor's models the settings need name only those that they say more about.
    ...(!builtIn && provider.models?.length && { onlyListed: true }),
    ...(provider.flat_rate && { flatRate: true }),
    ...(provider.provider_options && { providerOptions: provider.provider_options }),
    ...(provider.system_prompt_prefix && { systemPromptPrefix: provider.system_prompt_prefix }),
    origin,
  };
}

function modelsOf({ provider: { models = [] }, type, builtIn, chosen }: Entry): CandidateModel[] {
  const usual = builtIn ? defaultModels[type] : null;
  const unlisted = usual ? [usual] : [...new Set(chosen)];
  if (models.length === 0) return unlisted.map((id) => ({ id, name: id }));
  const first = models.filter(({ id }, index) => models.findIndex((other) => other.id === id) === index);
  return first.map(candidateModel);
}

function candidateModel(settings: ProviderModel): CandidateModel {
  const { id, name, context_window, default_max_tokens } = settings;
  return {
    id,
    name: name ?? id,
    // 0 stands for "not known", as absence does.
    ...(context_window && { contextWindow: context_window }),
    ...(default_max_tokens && { maxOutputTokens: default_max_tokens }),
    settings,
  };
}
