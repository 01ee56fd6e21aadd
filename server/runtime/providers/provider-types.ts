/** The provider types, each loaded when a model of it is first asked: a vendor's client takes long to load. */
import { loadedOnce } from '../../loaded-once.ts';
import type { ProviderType } from './provider-definition.ts';
import type { MediaFactories, ProviderFactory } from './provider-factory.ts';

/** To resolve an import takes as long each time as all else that precedes a call. */
const loaders: Readonly<Record<ProviderType, () => Promise<ProviderFactory>>> = {
  openai: loadedOnce(async () => (await import('./openai.ts')).openai),
  'openai-compat': loadedOnce(async () => (await import('./openai-compat.ts')).openaiCompat),
  anthropic: loadedOnce(async () => (await import('./anthropic.ts')).anthropic),
  gemini: loadedOnce(async () => (await import('./gemini.ts')).gemini),
  azure: loadedOnce(async () => (await import('./azure.ts')).azure),
  vertexai: loadedOnce(async () => (await import('./vertexai.ts')).vertexai),
};

/** What opens models of the type. */
export function factoryOf(type: ProviderType): Promise<ProviderFactory> {
  return loaders[type]();
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
