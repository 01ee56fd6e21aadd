/** The providers of a ClientConfig that a program hands in: every value as it stands, nothing expanded. */
import type { ClientConfig, Provider } from '../../contract/config.ts';
import schema from '../../contract/service.schema.json' with { type: 'json' };
import type { ProviderDefinition, ProviderType } from './provider-definition.ts';
import type { ProviderConnection } from './provider-factory.ts';
import { isProviderType } from './provider-types.ts';

/** Where these are reached depends on whose they are. */
const hasNoUsualPlace: readonly string[] = ['azure', 'vertexai'];

const aliases = new Map(Object.entries(schema.definitions.Provider.properties.type['x-aliases']));

/** Throws for a type that this version cannot speak to: a program should not find out at its first query. */
export function literalProviders({ providers }: ClientConfig): ProviderDefinition[] {
  return Object.entries(providers ?? {}).flatMap(([id, provider]) =>
    provider.disable ? [] : [definition(id, provider)],
  );
}

function definition(id: string, provider: Provider): ProviderDefinition {
  const named = provider.type ?? 'openai';
  const type = aliases.get(named) ?? named;
  if (!isProviderType(type))
    throw new Error(`providers.${id}: the type ${provider.type} is not available in this version`);
  if (!provider.base_url && hasNoUsualPlace.includes(type))
    throw new Error(`providers.${id}: a provider of the type ${type} needs a base_url`);
  return {
    id,
    type,
    models: (provider.models ?? []).map((settings) => ({ id: settings.id, settings })),
    connect: async () => ({
      ...(provider.base_url && { baseUrl: provider.base_url }),
      ...credentialOf(provider, type),
      ...(provider.extra_headers && { headers: provider.extra_headers }),
      ...(provider.extra_body && { extraBody: provider.extra_body }),
    }),
    ...(provider.flat_rate && { flatRate: true }),
    ...(provider.provider_options && { providerOptions: provider.provider_options }),
    ...(provider.system_prompt_prefix && { systemPromptPrefix: provider.system_prompt_prefix }),
  };
}

/** Whoever embeds a runtime renews its tokens, and hands in the new ones. */
function credentialOf(
  { api_key, oauth }: Provider,
  type: ProviderType,
): Pick<ProviderConnection, 'apiKey' | 'authToken'> {
  if (api_key || !oauth) return api_key ? { apiKey: api_key } : {};
  if (oauth.expires_at * 1000 <= Date.now()) throw new Error('The oauth token has ended.');
  // These take keys in the Authorization header too.
  const isKey = type === 'openai' || type === 'openai-compat';
  return isKey ? { apiKey: oauth.access_token } : { authToken: oauth.access_token };
}
