/** What turns texts into vectors, as the rest of the server asks for it. */
import type { MediaCall } from './media.ts';

/** Which model of which provider. */
export interface EmbeddingChoice {
  /** A provider that is kept on the server, in the place of those of the settings; null for one of those. */
  readonly providerSettingId: string | null;
  /** The id of a provider of the settings, where none is kept by itself. */
  readonly provider: string | null;
  readonly model: string;
  /** The numbers of a vector; null for as many as the model has by itself. */
  readonly dimensions: number | null;
}

export interface EmbeddingModel {
  /** `<provider>:<model_id>` */
  readonly name: string;
  /** A vector for each text, in their order, as the provider gives it. Throws Problem, above all the `provider_` ones. */
  ask(texts: readonly string[], call: MediaCall): Promise<readonly (readonly number[])[]>;
}
