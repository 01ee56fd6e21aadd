/** What people, workspaces and organizations have of their own besides the settings of the runtime. */
import type { ClientConfig } from '../../contract/config.ts';
import { callBy, type OutboundCall, type OutboundFetch } from '../../outbound/outbound.ts';
import type { ProviderDefinition } from './provider-definition.ts';

/** Whose query it is, and where: by this it is decided which providers it may use. */
export interface Asker {
  readonly userId: string;
  readonly workspaceId: string;
  /** Whether they ask with a credential that is bound to the workspace: what is their own does not count then. */
  readonly bound?: boolean | undefined;
  /** The setting that the caller wants to be used before all others. */
  readonly providerSettingId?: string | undefined;
}

export interface OwnProviders {
  /** The first counts, of two with one id too; each is the same object as long as nothing of it changes. */
  readonly providers: readonly ProviderDefinition[];
  /** By their full names, in the place of those of the settings. */
  readonly models: {
    readonly large?: string | undefined;
    readonly small?: string | undefined;
    /** The large one where the person has chosen it: their word counts before that of the workspace. */
    readonly ofPerson?: string | undefined;
  };
}

/** Throws Problem `not_found` where the setting that is wanted is not there. */
export type FindOwnProviders = (asker: Asker) => Promise<OwnProviders>;

/** The settings, with the models that are chosen there instead. */
export function withOwnModels(config: ClientConfig, { models }: Pick<OwnProviders, 'models'>): ClientConfig {
  const { large, small } = models;
  if (large === undefined && small === undefined) return config;
  return {
    ...config,
    models: {
      ...config.models,
      ...(large !== undefined && { large: selected(large) }),
      ...(small !== undefined && { small: selected(small) }),
    },
  };
}

function selected(fullName: string) {
  const colon = fullName.indexOf(':');
  return { provider: fullName.slice(0, colon), model: fullName.slice(colon + 1) };
}

/** All providers, somebody's own before the others; of two with one id the first counts. */
export function ownFirst(
  { providers }: Pick<OwnProviders, 'providers'>,
  others: readonly ProviderDefinition[],
): readonly ProviderDefinition[] {
  const ids = new Set<string>();
  return [...providers, ...others].filter(({ id }) => !ids.has(id) && ids.add(id));
}

/** By what providers are reached. */
export interface ProviderReach {
  readonly fetch: OutboundFetch;
  /** For those whose address somebody with an account gave; they cannot be reached without it. */
  readonly accountFetch?: OutboundFetch;
  /** The same two for what is passed on as it comes; it goes by fetch if absent. */
  readonly call?: OutboundCall;
  readonly accountCall?: OutboundCall;
}

export function fetchOf(
  { id, giver }: ProviderDefinition,
  { fetch, accountFetch }: ProviderReach,
): OutboundFetch {
  if (giver !== 'account') return fetch;
  if (!accountFetch) throw new Error(`The provider ${id} is somebody's own, and there is no way to reach it`);
  return accountFetch;
}

export function callOf(definition: ProviderDefinition, reach: ProviderReach): OutboundCall {
  const call = definition.giver === 'account' ? reach.accountCall : reach.call;
  return call ?? callBy(fetchOf(definition, reach));
}
