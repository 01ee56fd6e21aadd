/** The names of provider types: the real ones, and the aliases that mean the same. */
import type { Provider } from '../../contract/config.ts';
import schema from '../../contract/service.schema.json' with { type: 'json' };

/** A provider type under its real name. */
export type ProviderType = Exclude<NonNullable<Provider['type']>, `vendor-${string}`>;

const aliases = new Map(Object.entries(schema.definitions.Provider.properties.type['x-aliases']));

/** The real name of a provider type. */
export function realProviderType(type: NonNullable<Provider['type']>): ProviderType {
  return (aliases.get(type) ?? type) as ProviderType; // the schema has an alias for every name but the real ones
}
