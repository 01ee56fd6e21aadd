/** The providers of a ClientConfig that a program hands in: every value as it stands, nothing expanded. */
import type { ClientConfig, Provider } from '../../contract/config.ts';
import type { ProviderDefinition } from './providers.ts';

const types: Readonly<Partial<Record<NonNullable<Provider['type']>, ProviderDefinition['type']>>> = {
  openai: 'openai',
  'vendor-a': 'openai',
  'openai-compat': 'openai-compat',
  'vendor-a-compat': 'openai-compat',
  anthropic: 'anthropic',
  'vendor-b': 'anthropic',
};

/** Throws for a type that this version cannot speak to: a program should not find out at its first query. */
export function literalProviders({ providers }: ClientConfig): ProviderDefinition[] {
  return Object.entries(providers ?? {}).flatMap(([id, provider]) =>
    provider.disable ? [] : [definition(id, provider)],
  );
}

function definition(id: string, provider: Provider): ProviderDefinition {
  const type = types[provider.type ?? 'openai'];
  if (!type) throw new Error(`providers.${id}: the type ${provider.type} is not available in this version`);
  return {
    id,
    type,
    models: (provider.models ?? []).map((model) => ({ id: model.id })),
    connect: () => ({
      ...(provider.base_url && { baseUrl: provider.base_url }),
      ...(provider.api_key && { apiKey: provider.api_key }),
      ...(provider.extra_headers && { headers: provider.extra_headers }),
      ...(provider.extra_body && { extraBody: provider.extra_body }),
    }),
    ...(provider.provider_options && { providerOptions: provider.provider_options }),
    ...(provider.system_prompt_prefix && { systemPromptPrefix: provider.system_prompt_prefix }),
  };
}
