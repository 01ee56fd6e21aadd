/** Finds what makes pictures, speaks or transcribes: as the settings say, unless the caller wants another. */
import type { ClientConfig } from '../../contract/config.ts';
import { Problem } from '../../problem.ts';
import type { MediaChoice, MediaKind, MediaModels } from '../models/media.ts';
import { usualModelOf } from './media-kinds.ts';
import { type ChosenMedia, type MediaCalls, openMediaModel } from './media-model.ts';
import { fetchOf, type OwnProviders, ownFirst, type ProviderReach } from './own-providers.ts';
import type { ProviderDefinition } from './provider-definition.ts';

export interface Media {
  /** Throws Problem media_not_configured or model_not_found. */
  find<Kind extends MediaKind>(kind: Kind, config: ClientConfig, choice: MediaChoice): MediaModels[Kind];
  /** Why such settings give none, in a few words; null where they do. */
  absence(kind: MediaKind, config: ClientConfig): string | null;
  /** The same with somebody's own before the others. */
  with(own: OwnProviders): Media;
}

export interface MediaOptions extends MediaCalls, ProviderReach {
  readonly definitions: readonly ProviderDefinition[];
}

export function createMedia(options: MediaOptions): Media {
  const { definitions } = options;
  return {
    find(kind, config, choice) {
      const found = choose(kind, definitions, config, choice);
      if ('absent' in found) throw new Problem('media_not_configured', sentence(kind, found.absent));
      return openMediaModel(kind, found, { ...options, fetch: fetchOf(found.definition, options) });
    },
    absence(kind, config) {
      const found = choose(kind, definitions, config, {});
      return 'absent' in found ? found.absent : null;
    },
    with: (own) => createMedia({ ...options, definitions: ownFirst(own, definitions) }),
  };
}

const sections = {
  image: 'image_generation',
  speech: 'text_to_speech',
  transcription: 'speech_to_text',
} as const;

const acts: Readonly<Record<MediaKind, string>> = {
  image: 'make no images',
  speech: 'do not speak',
  transcription: 'do not transcribe',
};

interface Section {
  readonly provider?: string;
  readonly model?: string;
  readonly voice?: string;
  readonly format?: string;
  readonly language?: string;
}

function choose(
  kind: MediaKind,
  definitions: readonly ProviderDefinition[],
  config: ClientConfig,
  choice: MediaChoice,
): ChosenMedia | { readonly absent: string } {
  const name = sections[kind];
  const section: Section = config[name] ?? {};
  const providerId = choice.provider ?? section.provider;
  if (providerId === undefined) return { absent: `${name}.provider is not set` };
  const definition = definitions.find(({ id }) => id === providerId);
  if (!definition) {
    if (choice.provider !== undefined) throw unknownProvider(choice.provider, definitions);
    return { absent: `${name}.provider is ${providerId}, which is no provider here` };
  }
  const usual = usualModelOf(definition.type, kind);
  if (usual === undefined) return { absent: `providers of the type ${definition.type} ${acts[kind]}` };
  // What is set for one provider means nothing to another.
  const own: Section = providerId === section.provider ? section : {};
  const modelId = choice.model ?? own.model ?? usual;
  if (modelId === null)
    return { absent: `${name}.model is not set, and ${providerId} has no usual model for it` };
  return {
    definition,
    modelId,
    voice: choice.voice ?? own.voice,
    format: choice.format ?? own.format,
    language: choice.language ?? section.language,
  };
}

function sentence(kind: MediaKind, absent: string): string {
  const name = sections[kind];
  return `Nothing is configured for this: ${absent}. Set ${name}.provider, and where it needs one ${name}.model, in the global service.json to a provider that can, or name them in the request.`;
}

function unknownProvider(name: string, definitions: readonly ProviderDefinition[]): Problem {
  const ids = definitions.map(({ id }) => id).join(', ') || 'none';
  return new Problem(
    'model_not_found',
    `There is no provider ${JSON.stringify(name)}; the providers here are: ${ids}.`,
  );
}
