/** Turns texts into vectors by a model of a provider, through its vendor's client. */
import { Problem } from '../../problem.ts';
import { inSpan, noTracing, type Tracing } from '../../tracing.ts';
import { believedCount } from '../models/believed-counts.ts';
import type { EmbeddingChoice, EmbeddingModel } from '../models/embedding.ts';
import { ModelFailure } from '../models/model.ts';
import { mediaCost } from './catalogue.ts';
import { type MediaConnectionOptions, withMediaConnection } from './media-connection.ts';
import { fetchOf, type OwnProviders, ownFirst, type ProviderReach } from './own-providers.ts';
import type { ProviderDefinition } from './provider-definition.ts';
import { hasMedia, mediaFactoriesOf } from './provider-types.ts';

/** Of those that are at hand. */
export type EmbeddingWanted = Omit<EmbeddingChoice, 'providerSettingId'>;

export interface Embeddings {
  /** Throws Problem embedder_unsuited. */
  find(wanted: EmbeddingWanted): EmbeddingModel;
  /** The same with somebody's own before the others. */
  with(own: OwnProviders): Embeddings;
}

export interface EmbeddingsOptions extends MediaConnectionOptions, ProviderReach {
  readonly definitions: readonly ProviderDefinition[];
  /** Told of each call; nobody is if absent. */
  readonly tracing?: Tracing;
}

export function createEmbeddings(options: EmbeddingsOptions): Embeddings {
  const { definitions } = options;
  return {
    find(wanted) {
      const definition = definitions.find(({ id }) => id === wanted.provider);
      if (!definition) throw unknownProvider(wanted.provider, definitions);
      if (!hasMedia(definition.type)) throw withoutVectors(definition);
      const calls = { ...options, fetch: fetchOf(definition, options) };
      return openEmbeddingModel({ definition, wanted, calls });
    },
    with: (own) => createEmbeddings({ ...options, definitions: ownFirst(own, definitions) }),
  };
}

interface Opened {
  readonly definition: ProviderDefinition;
  readonly wanted: EmbeddingWanted;
  readonly calls: EmbeddingsOptions;
}

function openEmbeddingModel({ definition, wanted, calls }: Opened): EmbeddingModel {
  const { model: modelId, dimensions } = wanted;
  const name = `${definition.id}:${modelId}`;
  // In the words of https://opentelemetry.io/docs/specs/semconv/gen-ai/.
  const attributes = {
    'gen_ai.operation.name': 'embeddings',
    'gen_ai.provider.name': definition.type,
    'gen_ai.request.model': modelId,
  };
  const { tracing = noTracing } = calls;
  return {
    name,
    ask: (texts, { signal, spent }) =>
      inSpan(tracing, `embeddings ${modelId}`, { kind: 'client', attributes }, async () => {
        const factories = await mediaFactoriesOf(definition.type);
        return withMediaConnection(
          { definition, modelId, ...calls },
          signal,
          async (connected, abortSignal) => {
            const model = await factories.embedding(connected, modelId);
            const answer = await model.doEmbed({
              values: [...texts],
              abortSignal,
              // By either way: the client for Azure knows only the second.
              ...(dimensions !== null && { dimensions, providerOptions: { openai: { dimensions } } }),
            });
            // Some vendors count no tokens here.
            const input = believedCount(answer.usage?.tokens);
            const cost = await mediaCost(definition, modelId, { input, output: 0, heard: 0, made: 'text' });
            await spent({ model: name, usage: { ...nothing, input_tokens: input }, cost });
            if (answer.embeddings.length !== texts.length)
              throw miscounted(texts.length, answer.embeddings.length);
            return answer.embeddings;
          },
        );
      }),
  };
}

const nothing = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

function miscounted(asked: number, given: number): ModelFailure {
  return new ModelFailure(
    'provider_failed',
    'retry',
    `The model provider answered ${asked} texts with ${given} vectors; try again.`,
  );
}

function unknownProvider(name: string | null, definitions: readonly ProviderDefinition[]): Problem {
  const ids = definitions.map(({ id }) => id).join(', ') || 'none';
  return new Problem(
    'embedder_unsuited',
    `There is no provider ${JSON.stringify(name)}; the providers of the settings are: ${ids}.`,
  );
}

function withoutVectors({ id, type }: ProviderDefinition): Problem {
  return new Problem(
    'embedder_unsuited',
    `The provider ${id} is of the type ${type}, whose vendor has no models that turn texts into vectors; name one of the type openai, openai-compat, gemini, azure or vertexai.`,
  );
}
