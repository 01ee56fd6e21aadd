/** The provider types, each loaded when a model of it is first asked: a vendor's client takes long to load. */
import type { ProviderType } from './provider-definition.ts';
import type { ProviderFactory } from './provider-factory.ts';

const loaders: Readonly<Record<ProviderType, () => Promise<ProviderFactory>>> = {
  openai: async () => (await import('./openai.ts')).openai,
  'openai-compat': async () => (await import('./openai-compat.ts')).openaiCompat,
  anthropic: async () => (await import('./anthropic.ts')).anthropic,
  gemini: async () => (await import('./gemini.ts')).gemini,
  azure: async () => (await import('./azure.ts')).azure,
  vertexai: async () => (await import('./vertexai.ts')).vertexai,
};

/** What opens models of the type. */
export function factoryOf(type: ProviderType): Promise<ProviderFactory> {
  return loaders[type]();
}

/** Whether this version can speak to providers of the type. */
export function isProviderType(type: string): type is ProviderType {
  return Object.hasOwn(loaders, type);
}
