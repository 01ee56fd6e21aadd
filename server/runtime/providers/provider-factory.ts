/** What each provider type gives: models, once it knows where and how to reach them. */
import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { OutboundFetch } from '../../outbound/outbound.ts';

/** Where and how to reach a provider. */
export interface ProviderConnection {
  readonly baseUrl?: string;
  readonly apiKey?: string;
  /** Sent in the Authorization header where the vendor's keys go elsewhere. */
  readonly authToken?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly extraBody?: Readonly<Record<string, unknown>>;
}

/** The body of a request, as it goes over the wire. */
export type RequestBody = Readonly<Record<string, unknown>>;

/** Says what a body becomes before it is sent. */
export type BodyChange = (body: RequestBody) => RequestBody;

/** What a factory is given. */
export type FactoryCall = ProviderConnection & {
  readonly id: string;
  readonly changeBody: BodyChange | null;
  readonly fetch: OutboundFetch;
  /** Aborted where nobody waits any more. */
  readonly signal: AbortSignal;
};

/** Opens a model of one provider type. A promise where a token has to be fetched first. */
export type ProviderFactory = (
  call: FactoryCall,
  modelId: string,
) => LanguageModelV4 | Promise<LanguageModelV4>;

/** A `fetch` for a vendor's client that has no place for fields which it does not know. */
export function fetchChanging(change: BodyChange | null, fetch: OutboundFetch): OutboundFetch {
  if (!change) return fetch;
  return (input, init) => {
    if (typeof init?.body !== 'string') return fetch(input, init);
    return fetch(input, { ...init, body: JSON.stringify(change(JSON.parse(init.body))) });
  };
}
