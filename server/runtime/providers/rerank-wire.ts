/** Asks for scores by the wire that Jina, Cohere, vLLM, llama.cpp, LiteLLM and others have in common. */
import { callBy, textOf } from '../../outbound/outbound.ts';
import { parseHeld } from '../json-crowd.ts';
import { believedCount } from '../models/believed-counts.ts';
import { ModelFailure } from '../models/model.ts';
import type { RerankRequest } from '../models/reranking.ts';
import { mostHeldBytes } from './answer-bounds.ts';
import { headersOf } from './chat-completions.ts';
import type { FactoryCall } from './provider-factory.ts';
import { refusalOf } from './refusal.ts';

/** As much of an answer as is read; any of it may be missing, or be something else. */
interface RerankAnswer {
  readonly results?: unknown;
  readonly usage?: { readonly total_tokens?: unknown } | null;
}

interface Result {
  readonly index?: unknown;
  readonly relevance_score?: unknown;
  /** As some call it. */
  readonly score?: unknown;
}

export async function askToRerank(
  { baseUrl = '', changeBody, fetch, ...connection }: FactoryCall,
  modelId: string,
  { query, texts }: RerankRequest,
  signal: AbortSignal,
): Promise<RerankAnswer> {
  const body = { model: modelId, query, documents: texts, top_n: texts.length };
  const answer = await callBy(fetch)(`${baseUrl.replace(/\/$/, '')}/rerank`, {
    method: 'POST',
    headers: headersOf(connection),
    body: JSON.stringify(changeBody ? changeBody(body) : body),
    signal,
  });
  if (answer.status < 200 || answer.status > 299) throw await refusalOf(answer);
  const said: unknown = parseHeld(await textOf(answer.body, mostHeldBytes));
  return typeof said === 'object' && said !== null ? said : {};
}

export function tokensIn({ usage }: RerankAnswer): number {
  // Some vendors count searches instead.
  return believedCount(usage?.total_tokens);
}

/** Some sort their results and some do not: it is the index that counts. Throws where a text has not just one score. */
export function scoresIn({ results }: RerankAnswer, count: number): readonly number[] {
  const scores = new Map<number, number>();
  for (const result of Array.isArray(results) ? (results as (Result | null)[]) : []) {
    const score = result?.relevance_score ?? result?.score;
    if (Number.isInteger(result?.index) && Number.isFinite(score))
      scores.set(Number(result?.index), Number(score));
  }
  const all = Array.from({ length: count }, (_, index) => scores.get(index));
  if (Array.isArray(results) && results.length === count && all.every((score) => score !== undefined))
    return all;
  throw new ModelFailure(
    'provider_failed',
    'retry',
    `The model provider answered ${count} texts without one score for each; try again, or choose another model.`,
  );
}
