/** What a runtime is told of a model provider. */
import type { Provider, ProviderModel } from '../../contract/config.ts';
import type { ProviderConnection } from './provider-factory.ts';

/** A provider type under its real name. */
export type ProviderType = Exclude<NonNullable<Provider['type']>, `vendor-${string}`>;

/** A provider as it was found in settings or environment. */
export interface ProviderDefinition {
  readonly id: string;
  readonly type: ProviderType;
  /** `account` where somebody with an account gave its address; else those who run the installation. */
  readonly giver?: 'account';
  /**
   * Asked at the moment of use, so that a changed variable counts and an unset one fails only its own provider. A
   * connection that the provider has refused is replaced where it can be.
   */
  readonly connect: (signal?: AbortSignal, refused?: ProviderConnection) => Promise<ProviderConnection>;
  /** The models by which it may be asked without being named; the first is its default. */
  readonly models: readonly {
    readonly id: string;
    /** What the settings say of how it is asked. */
    readonly settings?: ProviderModel;
    /** What catalogues know of it, what counts most first, where the settings say nothing. */
    readonly known?: readonly ProviderModel[];
  }[];
  /** Whether it is known to have no other models. */
  readonly onlyListed?: boolean;
  /** What catalogues know of models by their ids, where these are not listed: vectors, pictures and sound are asked for by any. */
  readonly unlisted?: ReadonlyMap<string, readonly ProviderModel[]>;
  /** Whether its calls cost nothing by themselves. */
  readonly flatRate?: boolean;
  /** Fields of the vendor's own, added to each request as they are. */
  readonly providerOptions?: Readonly<Record<string, unknown>>;
  /** Stands before the system prompt of each call. */
  readonly systemPromptPrefix?: string;
}
