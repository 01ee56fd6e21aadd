/** OpenAI's own API: answers by either of its two ways, pictures and sound. */
import { createOpenAI } from '@ai-sdk/openai';
import {
  type FactoryCall,
  fetchChanging,
  type MediaFactories,
  type ProviderFactory,
} from './provider-factory.ts';

/** Chat completions are what every server that imitates it speaks too. */
export const openai: ProviderFactory = (call, modelId) =>
  call.responses ? connected(call).responses(modelId) : connected(call).chat(modelId);

export const openaiMedia: MediaFactories = {
  embedding: (call, modelId) => connected(call).embedding(modelId),
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
