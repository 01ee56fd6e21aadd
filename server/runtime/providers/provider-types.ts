/** The provider types, each loaded when a model of it is first asked: a vendor's client takes long to load. */
import type { ProviderType } from './provider-definition.ts';
import type { MediaFactories, ProviderFactory } from './provider-factory.ts';

const loaders: Readonly<Record<ProviderType, () => Promise<ProviderFactory>>> = {
  openai: async () => (await import('./openai.ts')).openai,
  'openai-compat': async () => (await import('./openai-compat.ts')).openaiCompat,
  anthropic: async () => (await import('./anthropic.ts')).anthropic,
  gemini: async () => (await import('./gemini.ts')).gemini,
  azure: async () => (await import('./azure.ts')).azure,
  vertexai: async () => (await import('./vertexai.ts')).vertexai,
};

/** To resolve an import takes as long each time as all else that precedes a call. */
const loaded = new Map<ProviderType, Promise<ProviderFactory>>();

/** What opens models of the type. */
export function factoryOf(type: ProviderType): Promise<ProviderFactory> {
  const factory = loaded.get(type) ?? loaders[type]();
  loaded.set(type, factory);
  return factory;
}

const mediaLoaders: Readonly<Record<ProviderType, (() => Promise<MediaFactories>) | null>> = {
  openai: async () => (await import('./openai.ts')).openaiMedia,
  'openai-compat': async () => (await import('./openai-compat.ts')).openaiCompatMedia,
  anthropic: null,
  gemini: async () => (await import('./gemini.ts')).geminiMedia,
  azure: async () => (await import('./azure.ts')).azureMedia,
  vertexai: async () => (await import('./vertexai.ts')).vertexaiMedia,
};

/** Whether providers of the type turn texts into vectors, and have pictures and sound. */
export function hasMedia(type: ProviderType): boolean {
  return mediaLoaders[type] !== null;
}

/** What opens its models for vectors, pictures and sound. */
export async function mediaFactoriesOf(type: ProviderType): Promise<MediaFactories> {
  const load = mediaLoaders[type];
  if (!load) throw new Error(`Providers of the type ${type} have nothing but language models`);
  return load();
}

/** Whether this version can speak to providers of the type. */
export function isProviderType(type: string): type is ProviderType {
  return Object.hasOwn(loaders, type);
}
