/** OpenAI's own API, over its chat completions, which every server that imitates it speaks too. */
import { createOpenAI } from '@ai-sdk/openai';
import { fetchChanging, type ProviderFactory } from './provider-factory.ts';

export const openai: ProviderFactory = ({ baseUrl, apiKey, headers, changeBody, fetch }, modelId) => {
  const provider = createOpenAI({
    ...(baseUrl && { baseURL: baseUrl }),
    apiKey: apiKey ?? '',
    headers: { ...headers },
    fetch: fetchChanging(changeBody, fetch),
  });
  return provider.chat(modelId);
};
