/** Every provider type as the scripted upstream plays it: where it is reached, and in which words it speaks. */
import { generateKeyPairSync } from 'node:crypto';
import type { Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { createOutbound } from '../../outbound/outbound.ts';
import type { Model, ModelPart, ModelRequest } from '../models/model.ts';
import { createProviders, type ProviderDefinition } from './providers.ts';

export const providerTypes = ['openai', 'openai-compat', 'anthropic', 'gemini', 'azure', 'vertexai'] as const;
export type TestedType = (typeof providerTypes)[number];

/** Those that speak in Google's words. */
export const googleTypes = ['gemini', 'vertexai'] as const;

export function isGoogles(type: string): boolean {
  return type === 'gemini' || type === 'vertexai';
}

/** As the settings name them. The model is one whose vendor’s client holds back none of the settings. */
export function placeOf(type: TestedType, url: string): { base_url: string; api_key: string } {
  const places = {
    openai: { base_url: `${url}/v1`, api_key: 'test-key' },
    'openai-compat': { base_url: `${url}/v1`, api_key: 'test-key' },
    anthropic: { base_url: `${url}/v1`, api_key: 'test-key' },
    gemini: { base_url: `${url}/v1beta`, api_key: 'test-key' },
    azure: { base_url: `${url}/openai?api-version=2024-10-21`, api_key: 'test-key' },
    vertexai: {
      base_url: `${url}/v1/projects/our-project/locations/europe-west4`,
      api_key: keyFile(`${url}/token`),
    },
  };
  return places[type];
}

const { privateKey, publicKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

/** What verifies the assertions of the key file. */
export const accountPublicKey = publicKey;

/** The key file of a service account; those of different names share no token. */
export function keyFile(tokenUrl: string, name = 'robot'): string {
  return JSON.stringify({
    type: 'service_account',
    project_id: 'our-project',
    private_key_id: 'the-key-id',
    private_key: privateKey,
    client_email: `${name}@our-project.iam.gserviceaccount.com`,
    token_uri: tokenUrl,
  });
}

// As the server reaches them.
const outbound = createOutbound({ shared: () => true });
export const operatorFetch = outbound.fetchFor('operator');

/** A provider that is reached as the settings say, without the settings. */
export function definitionOf(
  type: TestedType,
  upstream: Upstream,
  more: Partial<ProviderDefinition> = {},
): ProviderDefinition {
  const { base_url, api_key } = placeOf(type, upstream.url);
  return {
    id: type,
    type,
    models: [{ id: 'scripted-1' }],
    connect: async () => ({ baseUrl: base_url, apiKey: api_key, headers: { 'x-team': 'blue' } }),
    ...more,
  };
}

export function openDefined(
  definition: ProviderDefinition,
  silenceMs = 5000,
  modelId = 'scripted-1',
  fetch = operatorFetch,
): Model {
  const providers = createProviders({
    definitions: [definition],
    defaultModel: null,
    demo: false,
    timeouts: { silenceMs },
    fetch,
    ...(fetch === operatorFetch && { call: outbound.callFor('operator') }),
  });
  return providers.open(`${definition.id}:${modelId}`);
}

/** OpenAI at its own address, which leads to the upstream here, with a model that reasons. */
export function openResponses(
  upstream: Upstream,
  more: Partial<ProviderDefinition> = {},
  silenceMs?: number,
): Model {
  const settings = { id: 'scripted-1', can_reason: true };
  const definition = definitionOf('openai', upstream, {
    models: [{ id: 'scripted-1', settings }],
    connect: async () => ({ apiKey: 'test-key', headers: { 'x-team': 'blue' } }),
    ...more,
  });
  return openDefined(definition, silenceMs, 'scripted-1', instead('https://api.openai.com', upstream));
}

/** Anthropic at its own address, which leads to the upstream here. */
export function openOwnAnthropic(upstream: Upstream, modelId: string): Model {
  const definition = definitionOf('anthropic', upstream, { connect: async () => ({ apiKey: 'test-key' }) });
  return openDefined(definition, 5000, modelId, instead('https://api.anthropic.com', upstream));
}

function instead(address: string, upstream: Upstream): typeof operatorFetch {
  return (input, init) => operatorFetch(String(input).replace(address, upstream.url), init);
}

export function request(text: string, more: Partial<ModelRequest> = {}): ModelRequest {
  return {
    system: 'Be brief.',
    messages: [{ role: 'user', parts: [{ type: 'text', text }] }],
    tools: [],
    maxTokens: 500,
    ...more,
  };
}

/** What the model answers, to its end. */
export async function answerOf(
  model: Model,
  asked: ModelRequest,
  signal = AbortSignal.timeout(50_000),
): Promise<ModelPart[]> {
  return Array.fromAsync(model.stream(asked, signal));
}

export function textOf(parts: readonly ModelPart[]): string {
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** The requests for answers; those for tokens are left out. */
export async function asked(upstream: Upstream) {
  return (await upstream.requests()).filter(({ path }) => path !== '/token');
}

/** The body of the newest request, which the upstream has checked to be an object. */
export async function latestBody(upstream: Upstream): Promise<Record<string, unknown>> {
  const { body } = await upstream.latest(({ path }) => path !== '/token');
  return body as Record<string, unknown>; // The upstream has answered it.
}
