/** OpenAI's models on Azure: a model's id is the name of its deployment. */
import { createAzure } from '@ai-sdk/azure';
import { fetchChanging, type ProviderFactory } from './provider-factory.ts';

export const azure: ProviderFactory = (
  { baseUrl, apiKey, authToken, headers, changeBody, fetch },
  modelId,
) => {
  const { url, apiVersion } = azurePlace(baseUrl ?? '');
  const provider = createAzure({
    ...(apiVersion ? { baseURL: url, apiVersion, useDeploymentBasedUrls: true } : { baseURL: `${url}/v1` }),
    ...(authToken ? { tokenProvider: async () => authToken } : { apiKey: apiKey ?? '' }),
    headers: { ...headers },
    fetch: fetchChanging(changeBody, fetch),
  });
  return provider.chat(modelId);
};

/**
 * With `?api-version=` a deployment is asked by its path, without it by the v1 paths, which have no version. The portal
 * shows the whole address of a deployment, the documentation only that of the resource: any part of it will do.
 */
function azurePlace(baseUrl: string): { url: string; apiVersion: string | null } {
  const { origin, pathname, searchParams } = new URL(baseUrl);
  const before = pathname.replace(/\/openai(\/.*)?$/, '').replace(/\/+$/, '');
  return { url: `${origin}${before}/openai`, apiVersion: searchParams.get('api-version') };
}
