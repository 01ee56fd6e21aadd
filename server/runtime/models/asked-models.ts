/** The models that somebody may ask, and how they are asked outside of runs. */
import type { ClientConfig } from '../../contract/config.ts';
import { Problem } from '../../problem.ts';
import type { Providers } from '../providers/providers.ts';
import { type CompletionRequest, completeOnce } from './completion.ts';
import type { ModelFacts, ModelPart, RelayedAnswer, RelayRequest } from './model.ts';
import { meantModel } from './model-names.ts';
import { relayOnce } from './relayed-call.ts';

export interface Completion extends CompletionRequest {
  readonly model: string;
}

export interface AskedModels {
  /** One model call without session, tools or storage. */
  complete(call: Completion, signal: AbortSignal): AsyncIterable<ModelPart>;
  /** Whether the model's provider speaks the Messages API, so that a call need not be put into other words. */
  relays(fullName: string): boolean;
  /** Such a call in the client's own words. Throws Problem. */
  relay(
    call: RelayRequest & { readonly model: string; readonly spent: NonNullable<CompletionRequest['spent']> },
    signal: AbortSignal,
  ): Promise<RelayedAnswer>;
  /** The full name of the model that a name means; null means the default. */
  resolveModel(name: string | null): Promise<string>;
  /** The same for a name that a client insists on, which the settings may map to a model. */
  resolveForeignModel(name: string): Promise<string>;
  /** The full names of the models by which the providers may be asked, the default provider's first. */
  models(): Promise<readonly string[]>;
  /** What is known of a model by its full name. */
  modelFacts(fullName: string): Promise<ModelFacts>;
}

interface Known {
  readonly config: ClientConfig;
  readonly providers: Providers;
  /** The id of the one provider that the caller wants. */
  readonly wanted?: string | undefined;
}

/** `now` is what was known last, `newest` looks again. */
export function askedModels(now: () => Known, newest: () => Promise<Known>): AskedModels {
  return {
    complete: (call, signal) => completeOnce(now().providers.open(call.model), call, signal),
    relays: (fullName) => now().providers.open(fullName).relay !== undefined,
    relay: ({ model, spent, ...request }, signal) => {
      const { providers } = now();
      const opened = providers.open(model);
      // What it is called at its provider, who names the others alike.
      const prefix = opened.name.slice(0, opened.name.indexOf(':') + 1);
      const factsOf = (modelId: string) => providers.open(`${prefix}${modelId}`).facts();
      return relayOnce({ model: opened, factsOf }, request, spent, signal);
    },
    models: async () => (await newest()).providers.models,
    modelFacts: async (fullName) => (await newest()).providers.open(fullName).facts(),
    resolveModel: async (name) => (await newest()).providers.resolve(name),
    resolveForeignModel: async (name) => {
      const { config, providers, wanted } = await newest();
      const meant = meantModel(config, name);
      return providers.resolve(wanted === undefined ? meant : nameWithin(wanted, { name, meant }, providers));
    },
  };
}

/** A name without a provider is one of the wanted provider, and so is one that the settings map to another's. */
function nameWithin(
  wanted: string,
  { name, meant }: { readonly name: string; readonly meant: string },
  { ids }: Providers,
): string {
  const providerOf = (text: string) => ids.find((id) => text.startsWith(`${id}:`));
  const [said, mapped] = [providerOf(name), providerOf(meant)];
  if (mapped === wanted) return meant;
  if (said === undefined) return `${wanted}:${name}`;
  if (said === wanted) return name;
  throw new Problem(
    'invalid_request',
    `x-service-provider-setting-id: the setting is for the provider ${wanted}, and the model is one of ${said}.`,
  );
}
