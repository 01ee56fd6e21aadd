/** What provider settings are worked on with. */

import type { Catalog } from '../config/config.ts';
import type { ProviderOauth } from '../contract/api.ts';
import type { Log } from '../log.ts';
import type { Discovery, Sealing } from './stored.ts';

export interface ProviderSettingsParts {
  readonly sealing: Sealing;
  /** Why the guard of outgoing requests would not let anybody with an account reach the URL; null where it would. */
  readonly refusalOf: (url: string) => Error | null;
  /** How settings are opened that have no key. */
  readonly oauth: {
    show(settingId: string): Promise<ProviderOauth>;
    token(settingId: string, refused?: string): Promise<string>;
  };
  /** What the operator's catalogues know. The same object as long as nothing changes. */
  readonly catalog: () => Promise<Catalog>;
  readonly discoveries: { find(settingId: string): Promise<Discovery | null> };
  readonly log: Log;
}
