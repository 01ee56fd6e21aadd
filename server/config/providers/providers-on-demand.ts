/** What is said of providers, loaded when somebody asks: each file read costs every start of the command. */

import type { followProviders as FollowProviders, ResolvedSettings } from '../resolved-settings.ts';
import type { checkTemplates as CheckTemplates } from '../templates/expand.ts';
import type { checkModels as CheckModels } from './models.ts';
import type { listProviders as ListProviders } from './provider-list.ts';
import type { resolveLiteral as ResolveLiteral, resolveProviders as ResolveProviders } from './providers.ts';

/** The same function, once its file is loaded. */
type Loaded<Action extends (...given: never) => unknown> = (
  ...given: Parameters<Action>
) => Promise<ReturnType<Action>>;

/** Finds the usable providers; no command of a template is run. */
export const resolveProviders: Loaded<typeof ResolveProviders> = async (...given) =>
  (await import('./providers.ts')).resolveProviders(...given);

/** A provider that somebody keeps elsewhere than in a settings file: nothing of it is a template. */
export const resolveLiteral: Loaded<typeof ResolveLiteral> = async (...given) =>
  (await import('./providers.ts')).resolveLiteral(...given);

/** The providers in order of preference: those of the settings, then those whose key is in the environment. */
export const listProviders: Loaded<typeof ListProviders> = async (...given) =>
  (await import('./provider-list.ts')).listProviders(...given);

/** A warning for each model of the settings that cannot be asked: its provider cannot, or has no such model. */
export const checkModels: Loaded<typeof CheckModels> = async (...given) =>
  (await import('./models.ts')).checkModels(...given);

/** A warning for each template that is broken or demands a variable that is not set. No command is run. */
export const checkTemplates: Loaded<typeof CheckTemplates> = async (...given) =>
  (await import('../templates/expand.ts')).checkTemplates(...given);

/** Resolves what `current` gives; the same object comes back as long as neither it nor what was discovered changes. */
export const followProviders: typeof FollowProviders = (...given) => {
  let follow: (() => Promise<ResolvedSettings>) | undefined;
  return async () => {
    const loaded = await import('../resolved-settings.ts'); // What failed is tried again by the next who asks.
    follow ??= loaded.followProviders(...given);
    return follow();
  };
};
