/** OpenAI's models on Azure: a model's id is the name of its deployment. */
import { createAzure } from '@ai-sdk/azure';
import {
  type FactoryCall,
  fetchChanging,
  type MediaFactories,
  type ProviderFactory,
} from './provider-factory.ts';

export const azure: ProviderFactory = (call, modelId) => connected(call).chat(modelId);

export const azureMedia: MediaFactories = {
  embedding: (call, modelId) => connected(call).embedding(modelId),
  image: (call, modelId) => connected(call).image(modelId),
  speech: (call, modelId) => connected(call).speech(modelId),
  transcription: (call, modelId) => connected(call).transcription(modelId),
  // The name of a deployment does not tell its model, and every model knows this form.
  hearing: (language) => ({
    openai: { responseFormat: 'json', ...(language !== undefined && { language }) },
  }),
};

function connected({ baseUrl, apiKey, authToken, headers, changeBody, fetch }: FactoryCall) {
  const { url, apiVersion } = azurePlace(baseUrl ?? '');
  return createAzure({
    ...(apiVersion ? { baseURL: url, apiVersion, useDeploymentBasedUrls: true } : { baseURL: `${url}/v1` }),
    ...(authToken ? { tokenProvider: async () => authToken } : { apiKey: apiKey ?? '' }),
    headers: { ...headers },
    fetch: fetchChanging(changeBody, fetch),
  });
}

/**
 * With `?api-version=` a deployment is asked by its path, without it by the v1 paths, which have no version. The portal
 * shows the whole address of a deployment, the documentation only that of the resource: any part of it will do.
 */
function azurePlace(baseUrl: string): { url: string; apiVersion: string | null } {
  const { origin, pathname, searchParams } = new URL(baseUrl);
  const before = pathname.replace(/\/openai(\/.*)?$/, '').replace(/\/+$/, '');
  return { url: `${origin}${before}/openai`, apiVersion: searchParams.get('api-version') };
}
