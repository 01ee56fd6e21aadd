// Which vendor a request is for and what it asks there, told by its path and, where two share one, by its headers.
import type { IncomingHttpHeaders } from 'node:http';
import { anthropicMessages } from './anthropic-messages.ts';
import { azure, azureDeployments, projectDeployments } from './azure.ts';
import { chatCompletions } from './chat-completions.ts';
import { type Dialect, type Place, Refusal } from './dialect.ts';
import {
  azureEmbeddings,
  type EmbeddingMethod,
  embeddingMethods,
  geminiEmbeddings,
  openAiEmbeddings,
  vertexEmbeddings,
} from './embeddings.ts';
import { gemini, vertexGemini } from './gemini.ts';
import { geminiInteractions } from './gemini-interactions.ts';
import { azureMedia, openAiMedia, openAiTask } from './openai-media.ts';
import { rerank } from './rerank.ts';

/** `models` is asked for all of them where `id` is empty. */
export type Ask =
  | { readonly kind: 'answer' | 'count_tokens'; readonly place: Place | null }
  | { readonly kind: 'models'; readonly id: string }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

export interface Route {
  readonly dialect: Dialect;
  readonly ask: Ask;
}

/** `responses` remembers earlier answers, so that it belongs to one running upstream. */
export function routeOf(url: URL, headers: IncomingHttpHeaders, responses: Dialect): Route {
  const path = url.pathname;
  const task = openAiTask(path);
  if (/^\/api\/projects\/[^/]+\/deployments$/.test(path))
    return { dialect: projectDeployments(url), ask: projectAsk(url) };
  if (path === '/openai/deployments') return { dialect: azureDeployments, ask: deploymentsAsk(url) };
  if (path.startsWith('/openai/') && path.endsWith('/embeddings'))
    return { dialect: azureEmbeddings, ask: azureAsk(url) };
  if (path === '/v1/embeddings') return { dialect: openAiEmbeddings, ask: { kind: 'answer', place: null } };
  if (path === '/v1/rerank') return { dialect: rerank, ask: { kind: 'answer', place: null } };
  const embedding = embeddingMethods.find((method) => path.endsWith(`:${method}`));
  if (embedding) return googleEmbedding(url, embedding);
  if (path.startsWith('/openai/'))
    return { dialect: task === undefined ? azure : azureMedia(task), ask: azureAsk(url) };
  if (task !== undefined && path.startsWith('/v1/'))
    return { dialect: openAiMedia(task), ask: { kind: 'answer', place: null } };
  if (/^\/v1(beta)?\/interactions$/.test(path))
    return { dialect: geminiInteractions, ask: { kind: 'answer', place: null } };
  if (isGeminis(path, headers)) return { dialect: gemini, ask: googleAsk(url, geminiModels) };
  if (vertexModels.test(path)) return { dialect: vertexGemini, ask: googleAsk(url, vertexModels) };
  const dialect = firstDialect(path, headers, responses);
  const model = /^\/v1\/models(?:\/(.*))?$/.exec(path);
  if (model) return { dialect, ask: { kind: 'models', id: decodeURIComponent(model[1] ?? '') } };
  if (path === '/v1/messages/count_tokens') return { dialect, ask: { kind: 'count_tokens', place: null } };
  const known = ['/v1/chat/completions', '/v1/responses', '/v1/messages'].includes(path);
  return { dialect, ask: known ? { kind: 'answer', place: null } : notFound(`Not found: ${path}`) };
}

/** The path settles the dialect, except that of the model list, where Anthropic's headers do. */
function firstDialect(path: string, headers: IncomingHttpHeaders, responses: Dialect): Dialect {
  if (path.startsWith('/v1/messages')) return anthropicMessages;
  if (path.startsWith('/v1/responses')) return responses;
  const anthropic = headers['anthropic-version'] !== undefined || headers['x-api-key'] !== undefined;
  return anthropic && !path.startsWith('/v1/chat') ? anthropicMessages : chatCompletions;
}

const azureMethods = '/(?:chat/completions|embeddings|images/generations|audio/speech|audio/transcriptions)$';

/** The paths of deployments want to know the version; the newer ones have it in themselves. */
function azureAsk({ pathname, searchParams }: URL): Ask {
  const version = /^\d{4}-\d{2}-\d{2}(-preview)?$/.test(searchParams.get('api-version') ?? '');
  const deployment = new RegExp(`^/openai/deployments/([^/]+)${azureMethods}`).exec(pathname)?.[1];
  if (deployment !== undefined && version)
    return { kind: 'answer', place: { model: decodeURIComponent(deployment), stream: false } };
  if (new RegExp(`^/openai/v1${azureMethods}`).test(pathname)) return { kind: 'answer', place: null };
  if (pathname === '/openai/v1/models' || (pathname === '/openai/models' && version))
    return { kind: 'models', id: '' };
  return notFound('Resource not found', '404');
}

/** Later versions leave it to those who manage the subscription. */
function deploymentsAsk({ searchParams }: URL): Ask {
  const known = ['2022-12-01', '2023-03-15-preview'].includes(searchParams.get('api-version') ?? '');
  return known ? { kind: 'models', id: '' } : notFound('Resource not found', '404');
}

function projectAsk({ searchParams }: URL): Ask {
  const known = /^(v1|\d{4}-\d{2}-\d{2})$/.test(searchParams.get('api-version') ?? '');
  return known ? { kind: 'models', id: '' } : notFound('Resource not found', '404');
}

/** Its stable paths begin as those of OpenAI do. */
function isGeminis(path: string, headers: IncomingHttpHeaders): boolean {
  if (path.startsWith('/v1beta/')) return true;
  const ownKey = headers['x-goog-api-key'] !== undefined;
  return geminiModels.test(path) && (ownKey || /:(streamG|g)enerateContent$|:countTokens$/.test(path));
}

const verb = '(?:/([^/:]+)(?::([A-Za-z]+))?)?$';
const geminiModels = new RegExp(`^/v1(?:beta)?/models${verb}`);
const vertexModels = new RegExp(
  `^/v1(?:beta1)?/(?:projects/[^/]+/locations/[^/]+/)?publishers/google/models${verb}`,
);

function googleAsk(url: URL, pattern: RegExp): Ask {
  const [whole, model = '', method] = pattern.exec(url.pathname) ?? [];
  const id = decodeURIComponent(model);
  if (whole === undefined) return notFound(`The requested URL ${url.pathname} was not found on this server.`);
  if (method === undefined) return { kind: 'models', id };
  if (method === 'countTokens') return { kind: 'count_tokens', place: { model: id, stream: false } };
  if (method === 'generateContent') return { kind: 'answer', place: { model: id, stream: false } };
  // Without it the vendor streams one long array, which this program does not play.
  if (method === 'streamGenerateContent' && url.searchParams.get('alt') === 'sse')
    return { kind: 'answer', place: { model: id, stream: true } };
  return notFound(`models/${id} has no method ${method} here.`);
}

function googleEmbedding(url: URL, method: EmbeddingMethod): Route {
  const isVertex = vertexModels.test(url.pathname);
  const [, model = ''] = (isVertex ? vertexModels : geminiModels).exec(url.pathname) ?? [];
  const dialect = isVertex ? vertexEmbeddings(method) : geminiEmbeddings(method);
  return { dialect, ask: { kind: 'answer', place: { model: decodeURIComponent(model), stream: false } } };
}

function notFound(message: string, code: string | null = null): Ask {
  return { kind: 'refused', refusal: new Refusal(404, message, { code }) };
}
