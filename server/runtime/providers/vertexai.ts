/** Gemini models on Google Vertex AI: with a service account's key file, an access token, or an API key. */
import { createGoogleVertex } from '@ai-sdk/google-vertex';
import { OAuth2Client } from 'google-auth-library';
import type { OutboundFetch } from '../../outbound/outbound.ts';
import { accountToken, serviceAccountOf, type TokenCall } from './google-account.ts';
import {
  type FactoryCall,
  fetchChanging,
  type MediaFactories,
  type ProviderFactory,
} from './provider-factory.ts';

export const vertexai: ProviderFactory = async (call, modelId) => (await connected(call))(modelId);

export const vertexaiMedia: MediaFactories = {
  embedding: async (call, modelId) => (await connected(call)).embeddingModel(modelId),
  image: async (call, modelId) => (await connected(call)).image(modelId),
  speech: async (call, modelId) => (await connected(call)).speech(modelId),
  transcription: async (call, modelId) => (await connected(call)).transcription(modelId),
  hearing: (language) => (language === undefined ? {} : { google: { languageCodes: [language] } }),
};

async function connected(call: FactoryCall) {
  const { baseUrl, apiKey, authToken, headers, changeBody, fetch, signal } = call;
  const account = authToken ? null : serviceAccountOf(apiKey ?? '');
  const token = account ? await accountToken({ account, fetch, signal }) : authToken;
  return createGoogleVertex({
    ...projectOf(baseUrl ?? ''),
    baseURL: publisherUrl(baseUrl ?? ''),
    // Never left to the environment, as it would be if it were absent.
    apiKey: token ? '' : (apiKey ?? ''),
    ...(token && { googleAuthOptions: { authClient: holding(token) } }),
    headers: { ...headers },
    fetch: fetchChanging(changeBody, account && token ? renewing({ account, fetch, signal }, token) : fetch),
  });
}

/** A token may be taken back before it ends; the account may have another. */
function renewing(call: TokenCall, token: string): OutboundFetch {
  return async (input, init) => {
    const answer = await call.fetch(input, init);
    if (answer.status !== 401) return answer;
    const fresh = await accountToken({ ...call, refused: token });
    await answer.body?.cancel();
    const headers = new Headers(init?.headers);
    headers.set('authorization', `Bearer ${fresh}`);
    return call.fetch(input, { ...init, headers: Object.fromEntries(headers) });
  };
}

/** The vendor's library would fetch tokens past our guard of outbound requests, and only from one address. */
function holding(token: string): OAuth2Client {
  const client = new OAuth2Client();
  client.setCredentials({ access_token: token });
  return client;
}

/** The address names the project and the place, or neither of them for an API key; models of others are not asked. */
function publisherUrl(baseUrl: string): string {
  const bare = baseUrl.replace(/\/+$/, '');
  return bare.endsWith('/publishers/google') ? bare : `${bare}/publishers/google`;
}

/** Of models that transcribe, the vendor's client wants to know them besides the address. */
function projectOf(baseUrl: string) {
  const [, project, location] = /\/projects\/([^/]+)\/locations\/([^/]+)/.exec(baseUrl) ?? [];
  // Never left to the environment.
  return { project: project ?? 'none', location: location ?? 'global' };
}
