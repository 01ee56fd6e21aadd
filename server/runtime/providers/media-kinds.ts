/** Which provider types make pictures, speak and transcribe, and which of their models is meant where none is named. */
import type { MediaKind } from '../models/media.ts';
import type { ProviderType } from './provider-definition.ts';

/** A type that is not named has none of the kind; null stands where only the settings can know a model. */
const usualModels: Readonly<Record<ProviderType, Readonly<Partial<Record<MediaKind, string | null>>>>> = {
  openai: {
    image: 'gpt-image-1',
    speech: 'gpt-4o-mini-tts',
    transcription: 'gpt-4o-mini-transcribe',
  },
  'openai-compat': { image: null, speech: null, transcription: null },
  azure: { image: null, speech: null, transcription: null },
  gemini: {
    image: 'gemini-2.5-flash-image',
    speech: 'gemini-2.5-flash-preview-tts',
    transcription: 'gemini-3.5-transcribe',
  },
  vertexai: {
    image: 'gemini-2.5-flash-image',
    speech: 'gemini-2.5-flash-tts',
    transcription: 'gemini-3.5-transcribe',
  },
  anthropic: {},
};

/** Undefined where providers of the type have nothing of the kind. */
export function usualModelOf(type: ProviderType, kind: MediaKind): string | null | undefined {
  return usualModels[type][kind];
}
