/** Servers that imitate OpenAI's chat completions: Ollama, LM Studio, gateways. They need a base URL and may need no key. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { fetchChanging, type ProviderFactory } from './provider-factory.ts';

export const openaiCompat: ProviderFactory = (
  { id, baseUrl, apiKey, headers, extraBody, changeBody, fetch },
  modelId,
) => {
  const provider = createOpenAICompatible({
    name: id,
    baseURL: baseUrl ?? '',
    ...(apiKey && { apiKey }),
    headers: { ...headers },
    // Without this a streamed answer carries no usage.
    includeUsage: true,
    // An answer that has to match a schema is asked for by it, which those that imitate OpenAI know by now.
    supportsStructuredOutputs: true,
    ...(extraBody && {
      transformRequestBody: (body: Record<string, unknown>) => ({ ...body, ...extraBody }),
    }),
    fetch: fetchChanging(changeBody, fetch),
  });
  return provider.chatModel(modelId);
};
