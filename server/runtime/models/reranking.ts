/** What puts texts into the order in which they answer a question, as the rest of the server asks for it. */
import type { MediaCall } from './media.ts';

export interface RerankRequest {
  readonly query: string;
  readonly texts: readonly string[];
}

export interface RerankingModel {
  /** `<provider>:<model_id>` */
  readonly name: string;
  /** How well each text answers, in their order: more is better. Throws Problem, above all the `provider_` ones. */
  ask(request: RerankRequest, call: MediaCall): Promise<readonly number[]>;
}
