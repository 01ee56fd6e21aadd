/** Gemini models on Google Vertex AI: with a service account's key file, an access token, or an API key. */
import { createGoogleVertex } from '@ai-sdk/google-vertex';
import { OAuth2Client } from 'google-auth-library';
import { accountToken, serviceAccountOf } from './google-account.ts';
import { type FactoryCall, fetchChanging, type ProviderFactory } from './provider-factory.ts';

export const vertexai: ProviderFactory = async (call, modelId) => {
  const { baseUrl, apiKey, headers, changeBody, fetch } = call;
  const token = await tokenOf(call);
  const provider = createGoogleVertex({
    baseURL: publisherUrl(baseUrl ?? ''),
    // Never left to the environment, as it would be if it were absent.
    apiKey: token === null ? (apiKey ?? '') : '',
    ...(token !== null && { googleAuthOptions: { authClient: holding(token) } }),
    headers: { ...headers },
    fetch: fetchChanging(changeBody, fetch),
  });
  return provider(modelId);
};

/** Null where the key is one that is sent as it is. */
async function tokenOf({ apiKey = '', authToken, fetch, signal }: FactoryCall): Promise<string | null> {
  if (authToken) return authToken;
  const account = serviceAccountOf(apiKey);
  return account && accountToken(account, fetch, signal);
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
