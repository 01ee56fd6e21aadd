/** The parts that keep, ask and log in at providers which people have set. */
import type { Clock } from '../clock.ts';
import type { ProviderCandidate } from '../config/config.ts';
import type { Sealing } from '../identity/identity.ts';
import type { Log } from '../log.ts';
import type { ModelCatalogs } from '../model-catalogs.ts';
import type { Outbound } from '../outbound/outbound.ts';
import {
  createDefaultModels,
  createProviderAsking,
  createProviderOauths,
  createProviderSettings,
} from '../provider-settings/provider-settings.ts';
import { askShortly, describeModel, isVendorModel, listModels, vendorModels } from '../runtime/runtime.ts';
import type { Reach, Store } from '../store/store.ts';

/** What an answer with tokens may cost. */
const tokenLimits = { maxBytes: 256 * 1024, totalMs: 10_000 };

/** The longest list of models that is known is a hundredth of it. */
const listLimits = { maxBytes: 4 * 1024 * 1024, totalMs: 15_000 };

export interface ProviderInput {
  readonly store: Store;
  readonly outbound: Outbound;
  readonly sealing: Sealing;
  readonly catalog: () => ReturnType<ModelCatalogs['current']>;
  /** The providers of settings files and the environment, as they are now. */
  readonly installedProviders: () => Promise<readonly ProviderCandidate[]>;
  readonly clock: Clock;
  readonly log: Log;
}

export function openProviders({ store, outbound, sealing, catalog, ...input }: ProviderInput) {
  const { installedProviders, clock, log } = input;
  const refusalOf = (url: string) => outbound.refusalOf(url, 'account');
  const tokenFetch = outbound.fetchFor('account', tokenLimits);
  const { providerOauth: records, keptRequests } = store;
  const providerOauth = createProviderOauths<Reach>({
    ...{ records, sealing, refusalOf, apart: keptRequests.apart, clock, log },
    fetch: tokenFetch,
  });
  const parts = {
    ...{ sealing, refusalOf, catalog, log },
    oauth: providerOauth,
    discoveries: store.providerModels,
  };
  const fetch = outbound.fetchFor('account', listLimits);
  const call = outbound.callFor('account');
  const askers: Parameters<typeof createProviderAsking>[0]['askers'] = {
    vendorModels,
    describe: describeModel,
    list: (definition, signal) => listModels({ definition, fetch, signal }),
    askShortly: (definition, modelId, signal) => askShortly({ definition, fetch, call, signal }, modelId),
  };
  return {
    providerOauth,
    providerSettings: createProviderSettings(parts, askers),
    providerAsking: createProviderAsking({ ...parts, askers }),
    defaultModels: createDefaultModels({
      records: store.defaultModels,
      installation: installedProviders,
      isVendorModel,
    }),
  };
}
