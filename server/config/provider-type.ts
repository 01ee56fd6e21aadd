/** The names of provider types: the real ones, and the aliases that mean the same. */
import type { Provider } from '../contract/config.ts';

/** A provider type under its real name. */
export type ProviderType = Exclude<NonNullable<Provider['type']>, `vendor-${string}`>;

const realNames: Readonly<Record<NonNullable<Provider['type']>, ProviderType>> = {
  openai: 'openai',
  'openai-compat': 'openai-compat',
  anthropic: 'anthropic',
  gemini: 'gemini',
  azure: 'azure',
  vertexai: 'vertexai',
  'vendor-a': 'openai',
  'vendor-a-compat': 'openai-compat',
  'vendor-b': 'anthropic',
  'vendor-c': 'gemini',
  'vendor-d': 'azure',
  'vendor-e': 'vertexai',
};

/** The real name of a provider type. */
export function realProviderType(type: NonNullable<Provider['type']>): ProviderType {
  return realNames[type];
}
