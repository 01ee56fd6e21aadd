/** Anthropic's Messages API. */
import { createAnthropic } from '@ai-sdk/anthropic';
import type { ProviderFactory } from './provider-factory.ts';

export const anthropic: ProviderFactory = ({ baseUrl, apiKey, headers }) => {
  const provider = createAnthropic({
    ...(baseUrl && { baseURL: baseUrl }),
    apiKey: apiKey ?? '',
    headers: { ...headers },
  });
  return (modelId) => provider(modelId);
};
