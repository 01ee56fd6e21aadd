/** What a provider lists of its models when it is asked, by its own endpoint; or the smallest call, where it has none. */
import { type OutboundCall, type OutboundFetch, outboundSentence } from '../../outbound/outbound.ts';
import { ModelFailure } from '../models/model.ts';
import { accountToken, serviceAccountOf } from './google-account.ts';
import { openModel, secretsOf, usable } from './open-model.ts';
import type { ProviderDefinition, ProviderType } from './provider-definition.ts';
import type { ProviderConnection } from './provider-factory.ts';
import { failureOf } from './provider-failures.ts';

/** A model as its provider lists it: nothing of it has been looked at yet. */
export interface ListedModel {
  readonly id: unknown;
  readonly name?: unknown;
  readonly context_window?: unknown;
  readonly default_max_tokens?: unknown;
}

/** Why a provider could not be asked, in words that anybody may read. */
export type AskFailure = Pick<ModelFailure, 'code' | 'message' | 'retryAfterMs'>;

export type ListAnswer =
  | { readonly models: readonly ListedModel[] }
  /** `no_list`: it answers, and has no such endpoint. */
  | { readonly failure: AskFailure | 'no_list' };

export interface AskedProvider {
  readonly definition: ProviderDefinition;
  readonly fetch: OutboundFetch;
  readonly signal: AbortSignal;
}

/** Nobody has more; a list without an end is not followed. */
const mostPages = 20;

/** Never throws for what the provider does. */
export async function listModels(asked: AskedProvider): Promise<ListAnswer> {
  const { definition, signal } = asked;
  let secrets: readonly string[] = [];
  try {
    const connection = await usable(definition.id, () => definition.connect(signal));
    secrets = secretsOf(connection);
    const vendor = vendors[definition.type];
    const headers = { ...(await vendor.headers(connection, asked)), ...connection.headers };
    const models: ListedModel[] = [];
    let url: URL | null = vendor.url(connection.baseUrl ?? '', connection);
    for (let page = 0; url && page < mostPages; page += 1) {
      const answer: Json = await answerOf(url, { ...asked, headers });
      models.push(...vendor.models(answer));
      url = vendor.next(answer, url);
    }
    return { models };
  } catch (error) {
    return { failure: error instanceof NoList ? 'no_list' : meaningOf(error, secrets) };
  }
}

/** The shortest answer that a model gives; null where it answers. */
export async function askShortly(
  { definition, fetch, call, signal }: AskedProvider & { readonly call: OutboundCall },
  modelId: string,
): Promise<AskFailure | null> {
  const messages = [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'Say yes.' }] }];
  // Some models refuse to answer in fewer tokens.
  const request = { system: '', messages, tools: [], maxTokens: 16 };
  try {
    const model = openModel(definition, modelId, { timeouts: { silenceMs: silentMs }, fetch, call });
    for await (const _part of model.stream(request, signal)) if (signal.aborted) break;
    return signal.aborted ? tooSlow : null;
  } catch (error) {
    return meaningOf(error, []);
  }
}

/** Longer than anybody waits here: the signal ends it. */
const silentMs = 120_000;

const tooSlow: AskFailure = {
  code: 'provider_timeout',
  message: 'The model provider took too long to answer; try again later.',
  retryAfterMs: null,
};

/** What is not a provider's answer is said in the words of the guard: whether it was reached at all. */
function meaningOf(error: unknown, secrets: readonly string[]): AskFailure {
  const failure = failureOf(error, secrets);
  const cause = error instanceof ModelFailure ? error.cause : error;
  if (isTimeout(cause)) return tooSlow;
  if (failure.code !== 'provider_failed' || isAnswer(cause)) return failure;
  return { code: failure.code, message: outboundSentence(cause), retryAfterMs: null };
}

function isAnswer(error: unknown): boolean {
  return typeof error === 'object' && error !== null && typeof Reflect.get(error, 'statusCode') === 'number';
}

function isTimeout(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if (
      at.name === 'TimeoutError' ||
      at.name === 'AbortError' ||
      Reflect.get(at, 'code') === 'answer_too_slow'
    )
      return true;
  return false;
}

class NoList extends Error {}

type Json = Readonly<Record<string, unknown>>;
type SentHeaders = Readonly<Record<string, string>>;

/** An answer that is none of the vendor's, with the status by which `failureOf` knows what it means. */
class StrangeAnswer extends Error {
  readonly statusCode: number;
  readonly responseBody: string;
  readonly responseHeaders: Readonly<Record<string, string>>;

  constructor(response: Response, body: string) {
    super(`The provider answered with the status ${response.status}`);
    this.statusCode = response.status;
    this.responseBody = body;
    this.responseHeaders = Object.fromEntries(response.headers);
  }
}

async function answerOf(
  url: URL,
  { fetch, signal, headers }: AskedProvider & { readonly headers: SentHeaders },
): Promise<Json> {
  const response = await fetch(url, { headers, signal });
  const text = await response.text();
  if ([404, 405, 501].includes(response.status) || isUnknownVersion(response, text)) throw new NoList();
  const answer = response.ok ? objectIn(text) : null;
  if (answer === null) throw new StrangeAnswer(response, text);
  return answer;
}

/** An API of versions may have one no more, and says so in its own way. */
function isUnknownVersion({ status }: Response, text: string): boolean {
  return status === 400 && /api[-_ ]?version/i.test(text);
}

function objectIn(text: string): Json | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Json) : null;
  } catch {
    // A page of a proxy, say: what it is not is told by its caller.
    return null;
  }
}

/** How one vendor is asked for its models. */
interface Vendor {
  url(baseUrl: string, connection: ProviderConnection): URL;
  headers(connection: ProviderConnection, asked: AskedProvider): SentHeaders | Promise<SentHeaders>;
  models(answer: Json): ListedModel[];
  /** Where the rest is; null at the end. */
  next(answer: Json, url: URL): URL | null;
}

const openai: Vendor = {
  url: (baseUrl) => below(baseUrl, '/models'),
  headers: ({ apiKey }) => (apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
  // Gateways say more of a model than the vendor whose API they imitate, each in its own word.
  models: (answer) =>
    listIn(answer, 'data').map((model) => ({
      id: model.id,
      name: model.name,
      context_window: model.context_length ?? model.context_window ?? model.max_model_len,
      default_max_tokens: model.max_completion_tokens,
    })),
  next: () => null,
};

const anthropic: Vendor = {
  url: (baseUrl) => below(baseUrl, '/models', { limit: '1000' }),
  headers: ({ apiKey, authToken }) => ({
    'anthropic-version': '2023-06-01',
    ...(authToken ? { authorization: `Bearer ${authToken}` } : { 'x-api-key': apiKey ?? '' }),
  }),
  models: (answer) =>
    listIn(answer, 'data').map((model) => ({
      id: model.id,
      name: model.display_name,
      context_window: model.max_input_tokens,
      default_max_tokens: model.max_tokens,
    })),
  next: ({ has_more, last_id }, url) =>
    has_more === true && typeof last_id === 'string' ? withQuery(url, { after_id: last_id }) : null,
};

const gemini: Vendor = {
  url: (baseUrl) => below(versioned(baseUrl), '/models', { pageSize: '1000' }),
  headers: googleHeaders,
  models: (answer) =>
    listIn(answer, 'models').map((model) => ({
      id: lastPart(model.name),
      name: model.displayName,
      context_window: model.inputTokenLimit,
      default_max_tokens: model.outputTokenLimit,
    })),
  next: nextToken,
};

/** Of its own models; those of other publishers are asked elsewhere. */
const vertexai: Vendor = {
  url: (baseUrl) => {
    const { origin, pathname } = new URL(baseUrl);
    const before = pathname.replace(/\/v1(beta1)?(\/.*)?$/, '').replace(/\/+$/, '');
    return new URL(`${origin}${before}/v1beta1/publishers/google/models?pageSize=100`);
  },
  async headers(connection, { fetch, signal }) {
    const { apiKey = '', baseUrl = '' } = connection;
    const account = connection.authToken ? null : serviceAccountOf(apiKey);
    const authToken = account ? await accountToken({ account, fetch, signal }) : connection.authToken;
    const [, project] = /\/projects\/([^/]+)/.exec(baseUrl) ?? [];
    return {
      ...googleHeaders({ ...connection, ...(authToken && { authToken }) }),
      // The list belongs to no project; somebody's quota has to count for it.
      ...(project && { 'x-goog-user-project': project }),
    };
  },
  models: (answer) => listIn(answer, 'publisherModels').map(({ name }) => ({ id: lastPart(name) })),
  next: nextToken,
};

/**
 * The deployments, by whose names models are asked; the list of models has many that are not deployed. What is documented
 * of them tells those of a project, and takes no key; a key is told them by a version of the API that is documented no more.
 */
const azure: Vendor = {
  url: (baseUrl, { authToken }) => {
    const { origin, pathname } = new URL(baseUrl);
    const [project] = /^.*\/api\/projects\/[^/]+/.exec(pathname) ?? [];
    if (project && authToken) return new URL(`${origin}${project}/deployments?api-version=v1`);
    const before = pathname.replace(/\/(openai|api\/projects)(\/.*)?$/, '').replace(/\/+$/, '');
    return new URL(`${origin}${before}/openai/deployments?api-version=2023-03-15-preview`);
  },
  headers: ({ apiKey, authToken }) =>
    authToken ? { authorization: `Bearer ${authToken}` } : { 'api-key': apiKey ?? '' },
  models: (answer) => [
    ...listIn(answer, 'data')
      .filter(({ status }) => status === undefined || status === 'succeeded')
      .map(({ id }) => ({ id })),
    ...listIn(answer, 'value').map(({ name }) => ({ id: name })),
  ],
  next: ({ nextLink }, url) => (typeof nextLink === 'string' ? sameOrigin(nextLink, url) : null),
};

const vendors: Readonly<Record<ProviderType, Vendor>> = {
  openai,
  'openai-compat': openai,
  anthropic,
  gemini,
  azure,
  vertexai,
};

function googleHeaders({ apiKey, authToken }: ProviderConnection): SentHeaders {
  return authToken ? { authorization: `Bearer ${authToken}` } : { 'x-goog-api-key': apiKey ?? '' };
}

function nextToken({ nextPageToken }: Json, url: URL): URL | null {
  const there = typeof nextPageToken === 'string' && nextPageToken !== '';
  return there ? withQuery(url, { pageToken: nextPageToken }) : null;
}

/** A credential goes nowhere but to its own address. */
function sameOrigin(link: string, url: URL): URL | null {
  const next = URL.parse(link, url.href);
  return next?.origin === url.origin ? next : null;
}

/** The URL may stand with the version or without it. */
function versioned(baseUrl: string): string {
  const bare = baseUrl.replace(/\/+$/, '');
  return /\/v\d+(alpha|beta)?\d*$/.test(bare) ? bare : `${bare}/v1beta`;
}

function below(baseUrl: string, path: string, query: Readonly<Record<string, string>> = {}): URL {
  const url = new URL(baseUrl);
  url.pathname = url.pathname.replace(/\/+$/, '') + path;
  return withQuery(url, query);
}

function withQuery(url: URL, query: Readonly<Record<string, string>>): URL {
  const changed = new URL(url);
  for (const [name, value] of Object.entries(query)) changed.searchParams.set(name, value);
  return changed;
}

function listIn(answer: Json, member: string): Json[] {
  const list = answer[member];
  if (!Array.isArray(list)) return [];
  return list.filter((entry): entry is Json => typeof entry === 'object' && entry !== null);
}

function lastPart(name: unknown): unknown {
  return typeof name === 'string' ? name.slice(name.lastIndexOf('/') + 1) : name;
}
