/** What providers have refused of the conversations with a model: kept by the process, so that not every run is refused once. */
import { keepNewest } from '../../keep-newest.ts';
import type { ProviderDefinition } from './provider-definition.ts';

export interface Learnt {
  /** Whether it refuses thoughts before which anything has changed, as the recalled does with each prompt. */
  bindsThoughts: boolean;
  /** Whether it wants an answer between what a tool gave and the next prompt. */
  separatesResults: boolean;
  /** Whether it takes only such ids of tool calls as Mistral gives. */
  wantsNine: boolean;
}

/** Of one provider: a model may be asked for by any name. */
const mostModels = 100;

const byProvider = new WeakMap<ProviderDefinition, Map<string, Learnt>>();

/** The same for all runs, until the settings of the provider change: it may be another one then. */
export function learntOf(definition: ProviderDefinition, modelId: string): Learnt {
  const models = byProvider.get(definition) ?? new Map<string, Learnt>();
  byProvider.set(definition, models);
  const learnt = models.get(modelId) ?? { bindsThoughts: false, separatesResults: false, wantsNine: false };
  keepNewest(models, modelId, learnt, mostModels);
  return learnt;
}
