/** The model that a run asks, and those of the settings that stand in for it. */
import type { ClientConfig } from '../../contract/config.ts';
import { chosenGeneration } from '../providers/model-settings.ts';
import type { Providers } from '../providers/providers.ts';
import type { Generation, Model } from './model.ts';

export interface ModelChoice {
  /** Asked now. */
  readonly model: Model;
  readonly generation: Generation;
  /** Whether it is one of the fallbacks by now. */
  readonly replaced: boolean;
  /** Takes the next of the fallbacks for good; false where there is none left. */
  replace(): boolean;
  /** Takes the fallback that another process had come to; where it is none of them any more, all stays as it is. */
  resumeWith(name: string): void;
}

/** `generation` is what the query itself says, which then counts instead of what the settings say. */
export function chooseModel(
  providers: Providers,
  config: ClientConfig,
  name: string,
  generation?: Generation,
): ModelChoice {
  const chosen = [config.models?.large, config.models?.small].find(
    (kind) => kind && `${kind.provider}:${kind.model}` === name,
  );
  const isLarge = chosen !== undefined && chosen === config.models?.large;
  const asked = generation ?? (isLarge ? chosenGeneration(chosen) : {});
  return choiceOf(providers, name, asked, chosen?.fallbacks ?? []);
}

/** A model that the settings choose by its kind; null where they choose none that can be asked. */
export function chooseKind(
  providers: Providers,
  config: ClientConfig,
  kind: 'large' | 'small',
): ModelChoice | null {
  const chosen = config.models?.[kind];
  const name = chosen && providers.chosen(`${chosen.provider}:${chosen.model}`);
  return name ? choiceOf(providers, name, chosenGeneration(chosen), chosen.fallbacks ?? []) : null;
}

function choiceOf(
  providers: Providers,
  name: string,
  generation: Generation,
  fallbacks: readonly string[],
): ModelChoice {
  // Those whose provider is not there were told of when the settings were read.
  const left = fallbacks.flatMap((fallback) => providers.chosen(fallback) ?? []);
  const { providerOptions: _fieldsOfAnotherVendor, ...common } = generation;
  const first = { model: providers.open(name), generation };
  let now = first;
  const replace = (): boolean => {
    const next = left.shift();
    if (next === undefined) return false;
    now = { model: providers.open(next), generation: common };
    return true;
  };
  return {
    get model() {
      return now.model;
    },
    get generation() {
      return now.generation;
    },
    get replaced() {
      return now !== first;
    },
    replace,
    resumeWith(name) {
      const place = left.indexOf(name);
      if (place < 0) return;
      left.splice(0, place);
      replace();
    },
  };
}
