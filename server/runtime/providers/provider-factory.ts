/** What each provider type gives: models, once it knows where and how to reach them. */
import type { LanguageModelV4 } from '@ai-sdk/provider';

/** Where and how to reach a provider. */
export interface ProviderConnection {
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly extraBody?: Readonly<Record<string, unknown>>;
}

/** Opens the models of one provider type. */
export type ProviderFactory = (
  connection: ProviderConnection & { readonly id: string },
) => (modelId: string) => LanguageModelV4;
