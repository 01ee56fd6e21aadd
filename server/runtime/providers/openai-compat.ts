/** Servers that imitate OpenAI's API: Ollama, LM Studio, gateways. They need a base URL and may need no key. */
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible, OpenAICompatibleChatLanguageModel } from '@ai-sdk/openai-compatible';
import { chatCompletions } from './chat-completions.ts';
import {
  type FactoryCall,
  fetchChanging,
  type MediaFactories,
  type ProviderFactory,
  type RequestBody,
} from './provider-factory.ts';

export const openaiCompat: ProviderFactory = (call, modelId) =>
  chatCompletions(call, async (options) => {
    const { body } = await writer.prepareRequest(options);
    return { ...said(body), model: modelId, ...call.extraBody };
  });

/** The writer names what it leaves out too, which would go before what settings add under the same name. */
function said(body: RequestBody): RequestBody {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}

/** Writes the bodies of all of them, which differ in their model alone. */
const writer = new OpenAICompatibleChatLanguageModel('', {
  provider: 'openaiCompatible.chat',
  url: () => '',
  // An answer that has to match a schema is asked for by it, which those that imitate OpenAI know by now.
  supportsStructuredOutputs: true,
});

export const openaiCompatMedia: MediaFactories = {
  embedding: (call, modelId) => connected(call).embeddingModel(modelId),
  image: (call, modelId) => connected(call).imageModel(modelId),
  speech: (call, modelId) => imitated(call).speech(modelId),
  transcription: (call, modelId) => imitated(call).transcription(modelId),
  hearing: (language) => (language === undefined ? {} : { openai: { language } }),
};

function connected({ id, baseUrl, apiKey, headers, changeBody, fetch }: FactoryCall) {
  return createOpenAICompatible({
    name: id,
    baseURL: baseUrl ?? '',
    ...(apiKey && { apiKey }),
    headers: { ...headers },
    fetch: fetchChanging(changeBody, fetch),
  });
}

/** The package for those that imitate has nothing for sound; that for what they imitate has. */
function imitated({ baseUrl, apiKey, headers, changeBody, fetch }: FactoryCall) {
  return createOpenAI({
    baseURL: baseUrl ?? '',
    apiKey: apiKey ?? '',
    headers: { ...headers },
    fetch: fetchChanging(changeBody, apiKey ? fetch : withoutKey(fetch)),
  });
}

/** An empty key is worse than none: some servers refuse it. */
function withoutKey(fetch: FactoryCall['fetch']): FactoryCall['fetch'] {
  return (input, init) => {
    const headers = new Headers(init?.headers);
    if (headers.get('authorization')?.trim() === 'Bearer') headers.delete('authorization');
    return fetch(input, { ...init, headers: Object.fromEntries(headers) });
  };
}
