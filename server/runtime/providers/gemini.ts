/** Google's Gemini API. */
import { createGoogle } from '@ai-sdk/google';
import {
  type FactoryCall,
  fetchChanging,
  type MediaFactories,
  type ProviderFactory,
} from './provider-factory.ts';

export const gemini: ProviderFactory = (call, modelId) => connected(call)(modelId);

export const geminiMedia: MediaFactories = {
  embedding: (call, modelId) => connected(call).embedding(modelId),
  image: (call, modelId) => connected(call).image(modelId),
  speech: (call, modelId) => connected(call).speech(modelId),
  transcription: (call, modelId) => connected(call).transcription(modelId),
  hearing: (language) => (language === undefined ? {} : { google: { languageCodes: [language] } }),
};

function connected({ baseUrl, apiKey, authToken, headers, changeBody, fetch }: FactoryCall) {
  return createGoogle({
    ...(baseUrl && { baseURL: versioned(baseUrl) }),
    // Never left to the environment: what counts are the settings.
    apiKey: apiKey ?? '',
    headers: {
      ...(authToken && { authorization: `Bearer ${authToken}`, 'x-goog-api-key': undefined }),
      ...headers,
    },
    fetch: fetchChanging(changeBody, fetch),
  });
}

/** The vendor's own client wants the URL without the version, others with it: both are meant. */
function versioned(baseUrl: string): string {
  const bare = baseUrl.replace(/\/+$/, '');
  return /\/v\d+(alpha|beta)?\d*$/.test(bare) ? bare : `${bare}/v1beta`;
}
