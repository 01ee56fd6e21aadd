/** OpenAI's own API: chat completions, which every server that imitates it speaks too, pictures and sound. */
import { createOpenAI } from '@ai-sdk/openai';
import {
  type FactoryCall,
  fetchChanging,
  type MediaFactories,
  type ProviderFactory,
} from './provider-factory.ts';

export const openai: ProviderFactory = (call, modelId) => connected(call).chat(modelId);

export const openaiMedia: MediaFactories = {
  image: (call, modelId) => connected(call).image(modelId),
  speech: (call, modelId) => connected(call).speech(modelId),
  transcription: (call, modelId) => connected(call).transcription(modelId),
  hearing: (language) => (language === undefined ? {} : { openai: { language } }),
};

function connected({ baseUrl, apiKey, headers, changeBody, fetch }: FactoryCall) {
  return createOpenAI({
    ...(baseUrl && { baseURL: baseUrl }),
    apiKey: apiKey ?? '',
    headers: { ...headers },
    fetch: fetchChanging(changeBody, fetch),
  });
}
