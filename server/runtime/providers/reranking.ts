/** Puts texts into order by a model of a provider. */
import { Problem } from '../../problem.ts';
import { inSpan, noTracing, type Tracing } from '../../tracing.ts';
import { noUsage } from '../models/model.ts';
import type { RerankingModel } from '../models/reranking.ts';
import { mediaCost } from './catalogue.ts';
import { type MediaConnectionOptions, withMediaConnection } from './media-connection.ts';
import { fetchOf, type OwnProviders, ownFirst, type ProviderReach } from './own-providers.ts';
import type { ProviderDefinition } from './provider-definition.ts';

export interface Rerankings {
  /** By the full name of a model. Throws Problem reranker_unsuited. */
  find(fullName: string): RerankingModel;
  /** The same with somebody's own before the others. */
  with(own: OwnProviders): Rerankings;
}

export interface RerankingsOptions extends MediaConnectionOptions, ProviderReach {
  readonly definitions: readonly ProviderDefinition[];
  /** Told of each call; nobody is if absent. */
  readonly tracing?: Tracing;
}

export function createRerankings(options: RerankingsOptions): Rerankings {
  const { definitions } = options;
  return {
    find(fullName) {
      const colon = fullName.indexOf(':');
      const definition = definitions.find(({ id }) => id === fullName.slice(0, colon));
      if (definition?.type !== 'openai-compat') throw unsuited(fullName, definition);
      const calls = { ...options, fetch: fetchOf(definition, options) };
      return openRerankingModel(definition, fullName.slice(colon + 1), calls);
    },
    with: (own) => createRerankings({ ...options, definitions: ownFirst(own, definitions) }),
  };
}

function openRerankingModel(
  definition: ProviderDefinition,
  modelId: string,
  calls: RerankingsOptions,
): RerankingModel {
  const name = `${definition.id}:${modelId}`;
  // In the words of https://opentelemetry.io/docs/specs/semconv/gen-ai/, which have none for this operation.
  const attributes = {
    'gen_ai.operation.name': 'rerank',
    'gen_ai.provider.name': definition.type,
    'gen_ai.request.model': modelId,
  };
  const { tracing = noTracing } = calls;
  return {
    name,
    ask: (request, { signal, spent }) =>
      inSpan(tracing, `rerank ${modelId}`, { kind: 'client', attributes }, async () => {
        const { askToRerank, scoresIn, tokensIn } = await import('./rerank-wire.ts');
        return withMediaConnection(
          { definition, modelId, ...calls },
          signal,
          async (connected, abortSignal) => {
            const answer = await askToRerank(connected, modelId, request, abortSignal);
            const input = tokensIn(answer);
            const cost = await mediaCost(definition, modelId, { input, output: 0, heard: 0, made: 'text' });
            await spent({ model: name, usage: { ...noUsage, input_tokens: input }, cost });
            return scoresIn(answer, request.texts.length);
          },
        );
      }),
  };
}

/** The built-in demonstration has no definition. */
function unsuited(fullName: string, definition: ProviderDefinition | undefined): Problem {
  const whose = definition ? `of the type ${definition.type}` : 'the built-in demonstration';
  return new Problem(
    'reranker_unsuited',
    `The provider of ${fullName} is ${whose}, which has no models that rerank here; name one of a provider of the type openai-compat.`,
  );
}
