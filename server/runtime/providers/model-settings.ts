/** What the settings say of how a model is asked: of one that they choose, and of one that a provider lists. */
import type { ClientConfig, ProviderModel } from '../../contract/config.ts';
import type { Generation } from '../models/model.ts';
import type { ProviderDefinition } from './provider-definition.ts';

/** How the settings want a chosen model to be asked. */
export function chosenGeneration(
  chosen: NonNullable<ClientConfig['models']>['large'] | undefined,
): Generation {
  if (!chosen) return {};
  return {
    ...samplingOf(chosen),
    ...(chosen.max_tokens !== undefined && { maxTokens: chosen.max_tokens }),
    ...(chosen.reasoning_effort !== undefined && { reasoningEffort: chosen.reasoning_effort }),
    ...(chosen.think !== undefined && { think: chosen.think }),
  };
}

/** How a model is asked: as its settings say, and where they say nothing, as catalogues know it. */
export function modelSettings(
  model: ProviderDefinition['models'][number] | undefined,
): ProviderModel | undefined {
  const { settings, known = [] } = model ?? {};
  if (known.length === 0) return settings;
  // 0 stands for "not known", as absence does.
  const said = Object.entries(settings ?? {}).filter(([, value]) => value !== 0);
  return Object.assign({}, ...known.toReversed(), Object.fromEntries(said));
}

/** The request with what its model's entry says where the request itself says nothing. */
export function withModelSettings<Request extends Generation>(
  request: Request,
  model: ProviderModel | undefined,
): Request {
  const { reasoningEffort: asked, think, ...rest } = request;
  // Whoever does not know which model answers only hints at how much it is to think.
  if (!model) return request.onlyStandard ? (rest as Request) : request; // what was taken out is optional
  const mayThink = request.onlyStandard ? model.can_reason === true : model.can_reason !== false;
  const effort = mayThink ? effortOf(model, asked) : undefined;
  const providerOptions = { ...model.options?.provider_options, ...request.providerOptions };
  return {
    ...samplingOf(model.options ?? {}),
    // 0 stands for "not known", as absence does.
    ...(model.default_max_tokens && { maxTokens: model.default_max_tokens }),
    ...rest,
    ...(effort !== undefined && { reasoningEffort: effort }),
    ...(think !== undefined && mayThink && { think }),
    ...(Object.keys(providerOptions).length > 0 && { providerOptions }),
  } as Request; // what was taken out goes back in, or was optional
}

/** A level that the model does not know would be refused, as would any by a model that does not reason. */
function effortOf(
  { can_reason, reasoning_levels = [], default_reasoning_effort }: ProviderModel,
  asked: string | undefined,
): string | undefined {
  if (can_reason === false) return undefined;
  const known = asked !== undefined && (reasoning_levels.length === 0 || reasoning_levels.includes(asked));
  return known ? asked : can_reason ? default_reasoning_effort : undefined;
}

function samplingOf(settings: NonNullable<ProviderModel['options']>): Generation {
  const { temperature, top_p, top_k, frequency_penalty, presence_penalty, provider_options } = settings;
  return {
    ...(temperature !== undefined && { temperature }),
    ...(top_p !== undefined && { topP: top_p }),
    ...(top_k !== undefined && { topK: top_k }),
    ...(frequency_penalty !== undefined && { frequencyPenalty: frequency_penalty }),
    ...(presence_penalty !== undefined && { presencePenalty: presence_penalty }),
    ...(provider_options && { providerOptions: provider_options }),
  };
}
