// Azure's OpenAI service: chat completions by deployment and API version, or by its v1 paths.
import { randomUUID } from 'node:crypto';
import { readChat } from './chat-completions.ts';
import { bearer, type Dialect, type Refusal, sse } from './dialect.ts';
import { openAi, openAiErrorBody } from './openai.ts';

export const azure: Dialect = {
  ...openAi,
  name: 'azure_chat_completions',
  apiKey(headers) {
    const key = headers['api-key'];
    return typeof key === 'string' && key !== '' ? key : bearer(headers);
  },
  headers: (requestId) => ({
    'apim-request-id': requestId,
    'x-ms-region': 'Sweden Central',
    'x-ms-client-request-id': requestId,
  }),
  newRequestId: randomUUID,
  errorBody,
  errorFrame: (refusal) => sse(errorBody(refusal)),
  read(body, _headers, place) {
    const named = place === null ? body : withModel(body, place.model);
    const call = readChat(named, 'azure_chat_completions');
    return { ...call, frames: (answer) => frames(call.frames(answer)) };
  },
};

/** The deployments, which an older version of the API tells to whoever has a key. */
export const azureDeployments: Dialect = {
  ...azure,
  modelList: (ids) => ({ object: 'list', data: ids.map(deployment) }),
};

/** The deployments of a Foundry project, which are told to tokens of Entra ID; `at` is where the list is. */
export function projectDeployments(at: URL): Dialect {
  return {
    ...azure,
    apiKey: bearer,
    pagesUnasked: true,
    modelList: (ids, next) => ({
      value: ids.map(projectDeployment),
      ...(next !== null && { nextLink: nextPage(at, next) }),
    }),
  };
}

function nextPage(at: URL, after: string): string {
  const next = new URL(at);
  next.searchParams.set('pageToken', after);
  return next.href;
}

function projectDeployment(name: string) {
  const of = { modelName: `model-of-${name}`, modelVersion: '2026-08-07', modelPublisher: 'OpenAI' };
  const sku = { capacity: 100, family: '', name: 'GlobalStandard', size: '', tier: '' };
  return { type: 'ModelDeployment', name, ...of, capabilities: { chat_completion: 'true' }, sku };
}

function deployment(id: string) {
  const times = { created_at: 1767225600, updated_at: 1767225600 };
  const rest = { scale_settings: { scale_type: 'standard' }, owner: 'organization-owner' };
  return { object: 'deployment', id, model: `model-of-${id}`, status: 'succeeded', ...rest, ...times };
}

/** A deployment is of one model, whatever the body says. */
function withModel(body: unknown, deployment: string): unknown {
  return typeof body === 'object' && body !== null ? { ...body, model: deployment } : body;
}

/** Errors of the gateway have its own codes and nothing else; those of the models are OpenAI's. */
function errorBody(refusal: Refusal): unknown {
  const code = refusal.code ?? gatewayCodes[refusal.status];
  if (code === 'content_filter') return { error: { ...contentFiltered, message: refusal.message } };
  return code === undefined ? openAiErrorBody(refusal) : { error: { code, message: refusal.message } };
}

const gatewayCodes: Record<number, string> = {
  401: '401',
  403: '403',
  404: 'DeploymentNotFound',
  408: 'Timeout',
  429: '429',
  500: 'InternalServerError',
  503: 'ServiceUnavailable',
};

const harmless = { filtered: false, severity: 'safe' };
const filterResults = { hate: harmless, self_harm: harmless, sexual: harmless, violence: harmless };
const contentFiltered = {
  type: null,
  param: 'prompt',
  code: 'content_filter',
  status: 400,
  innererror: {
    code: 'ResponsibleAIPolicyViolation',
    content_filter_result: { ...filterResults, violence: { filtered: true, severity: 'medium' } },
  },
};

/** This vendor says first what its filter thinks of the prompt, in a frame without choices. */
function* frames(rest: Iterable<string>): Generator<string> {
  const prompt_filter_results = [{ prompt_index: 0, content_filter_results: filterResults }];
  yield sse({ choices: [], created: 0, id: '', model: '', object: '', prompt_filter_results });
  yield* rest;
}
