/** What each provider type gives: models, once it knows where and how to reach them. */
import type {
  EmbeddingModelV4,
  ImageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
  SharedV4ProviderOptions,
  SpeechModelV4,
  TranscriptionModelV4,
} from '@ai-sdk/provider';
import type { OutboundCall, OutboundFetch } from '../../outbound/outbound.ts';

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
  /** Whether OpenAI is asked by its Responses API; by chat completions if absent. */
  readonly responses?: boolean;
  readonly fetch: OutboundFetch;
  /** Aborted where nobody waits any more. */
  readonly signal: AbortSignal;
};

/** What a factory of models that write is given. */
export type LanguageCall = FactoryCall & {
  /** For what is read by hand. */
  readonly call: OutboundCall;
};

/** As much of the AI SDK's models as is asked of them. */
export interface AnsweringModel {
  doStream(
    options: LanguageModelV4CallOptions & {
      /** Nobody reads the answer before its end. */
      readonly whole?: boolean;
    },
  ): PromiseLike<{ readonly stream: AsyncIterable<LanguageModelV4StreamPart> }>;
}

/** Opens a model of one provider type. A promise where a token has to be fetched first. */
export type ProviderFactory = (
  call: LanguageCall,
  modelId: string,
) => AnsweringModel | Promise<AnsweringModel>;

/** Opens what a provider type has besides language models: the same call gives each of them. */
export interface MediaFactories {
  embedding(call: FactoryCall, modelId: string): EmbeddingModelV4 | Promise<EmbeddingModelV4>;
  image(call: FactoryCall, modelId: string): ImageModelV4 | Promise<ImageModelV4>;
  speech(call: FactoryCall, modelId: string): SpeechModelV4 | Promise<SpeechModelV4>;
  transcription(call: FactoryCall, modelId: string): TranscriptionModelV4 | Promise<TranscriptionModelV4>;
  /** What the vendor is told of a sound: its language, where that is known. */
  hearing(language: string | undefined): SharedV4ProviderOptions;
}

/** A `fetch` for a vendor's client that has no place for fields which it does not know. */
export function fetchChanging(change: BodyChange | null, fetch: OutboundFetch): OutboundFetch {
  if (!change) return fetch;
  return (input, init) => {
    if (typeof init?.body !== 'string') return fetch(input, init);
    return fetch(input, { ...init, body: JSON.stringify(change(JSON.parse(init.body))) });
  };
}
