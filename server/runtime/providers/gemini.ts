/** Google's Gemini API. */
import { createGoogle } from '@ai-sdk/google';
import { fetchChanging, type ProviderFactory } from './provider-factory.ts';

export const gemini: ProviderFactory = (
  { baseUrl, apiKey, authToken, headers, changeBody, fetch },
  modelId,
) => {
  const provider = createGoogle({
    ...(baseUrl && { baseURL: versioned(baseUrl) }),
    // Never left to the environment: what counts are the settings.
    apiKey: apiKey ?? '',
    headers: {
      ...(authToken && { authorization: `Bearer ${authToken}`, 'x-goog-api-key': undefined }),
      ...headers,
    },
    fetch: fetchChanging(changeBody, fetch),
  });
  return provider(modelId);
};

/** The vendor's own client wants the URL without the version, others with it: both are meant. */
function versioned(baseUrl: string): string {
  const bare = baseUrl.replace(/\/+$/, '');
  return /\/v\d+(alpha|beta)?\d*$/.test(bare) ? bare : `${bare}/v1beta`;
}
