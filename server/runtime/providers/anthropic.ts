/** Anthropic's Messages API. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { fetchChanging, type ProviderFactory } from './provider-factory.ts';

export const anthropic: ProviderFactory = (
  { baseUrl, apiKey, authToken, headers, changeBody, fetch },
  modelId,
) => {
  const provider = createAnthropic({
    ...(baseUrl && { baseURL: baseUrl }),
    ...(authToken ? { authToken } : { apiKey: apiKey ?? '' }),
    headers: { ...headers },
    fetch: fetchChanging(changeBody, fetch),
  });
  return provider(modelId);
};
