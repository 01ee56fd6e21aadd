/** Asks a model for a picture, for speech, or for the words of a sound, through its vendor's client. */
import type { JSONObject, SharedV4Warning } from '@ai-sdk/provider';
import type { Usage } from '../../contract/api.ts';
import { inSpan, noTracing, type Tracing } from '../../tracing.ts';
import { believedCount } from '../models/believed-counts.ts';
import type { MediaCall, MediaKind, MediaModels } from '../models/media.ts';
import { imageTypeOf, soundTypeOf } from '../models/media-type.ts';
import { ModelFailure } from '../models/model.ts';
import type { SpentByCall } from '../transcript.ts';
import { type MediaTokens, mediaCost } from './catalogue.ts';
import { type MediaConnectionOptions, withMediaConnection } from './media-connection.ts';
import type { ProviderDefinition } from './provider-definition.ts';
import type { FactoryCall, MediaFactories } from './provider-factory.ts';
import { mediaFactoriesOf } from './provider-types.ts';

export interface MediaCalls extends MediaConnectionOptions {
  /** Told of each call; nobody is if absent. */
  readonly tracing?: Tracing;
}

/** A model, and how it is asked. */
export interface ChosenMedia {
  readonly definition: ProviderDefinition;
  readonly modelId: string;
  readonly voice: string | undefined;
  readonly format: string | undefined;
  readonly language: string | undefined;
}

/** Nothing is resolved yet: that may run commands of the settings, and happens when the model is asked. */
export function openMediaModel<Kind extends MediaKind>(
  kind: Kind,
  chosen: ChosenMedia,
  calls: MediaCalls,
): MediaModels[Kind] {
  return openers[kind](chosen, calls);
}

const openers: {
  readonly [Kind in MediaKind]: (chosen: ChosenMedia, calls: MediaCalls) => MediaModels[Kind];
} = {
  image: (chosen, calls) => ({
    name: nameOf(chosen),
    ask: ({ prompt, size, aspectRatio }, call) =>
      asked({ kind: 'image', chosen, calls, call }, async (factories, connected, abortSignal) => {
        const model = await factories.image(connected, chosen.modelId);
        const answer = await model.doGenerate({
          ...{ prompt, size, aspectRatio, abortSignal, n: 1, providerOptions: {} },
          ...{ seed: undefined, files: undefined, mask: undefined },
        });
        const input = believedCount(answer.usage?.inputTokens);
        const output = believedCount(answer.usage?.outputTokens);
        await call.spent(await spentOn(chosen, { input, output, heard: 0, made: 'image' }));
        if (answer.images.length === 0) throw noPicture();
        return { images: answer.images.map(imageOf), warnings: answer.warnings.map(warningText) };
      }),
  }),
  speech: (chosen, calls) => ({
    name: nameOf(chosen),
    ask: ({ text, instructions, language }, call) =>
      asked({ kind: 'speech', chosen, calls, call }, async (factories, connected, abortSignal) => {
        const { voice, format, modelId } = chosen;
        const model = await factories.speech(connected, modelId);
        const answer = await model.doGenerate({
          text,
          abortSignal,
          ...(voice !== undefined && { voice }),
          ...(format !== undefined && { outputFormat: format }),
          ...(instructions !== undefined && { instructions }),
          ...(language !== undefined && { language }),
        });
        const { input, output } = tokensIn(answer.usage);
        await call.spent(await spentOn(chosen, { input, output, heard: 0, made: 'audio' }));
        const bytes = bytesOf(answer.audio);
        if (bytes.length === 0) throw noSound();
        const mediaType = soundTypeOf(bytes) ?? `audio/${format ?? 'pcm'}`;
        return { sound: { bytes, mediaType }, warnings: answer.warnings.map(warningText) };
      }),
  }),
  transcription: (chosen, calls) => ({
    name: nameOf(chosen),
    ask: ({ audio }, call) =>
      asked({ kind: 'transcription', chosen, calls, call }, async (factories, connected, abortSignal) => {
        const { language, modelId } = chosen;
        const model = await factories.transcription(connected, modelId);
        const answer = await model.doGenerate({
          ...{ audio, mediaType: soundTypeOf(audio) ?? 'audio/wav', abortSignal },
          providerOptions: factories.hearing(language),
        });
        await call.spent(await spentOn(chosen, { ...tokensIn(answer.usage), made: 'text' }));
        return {
          text: answer.text,
          language: answer.language ?? null,
          durationSeconds: answer.durationInSeconds ?? null,
          segments: answer.segments.map(({ text, startSecond, endSecond }) => ({
            text,
            startSeconds: startSecond,
            endSeconds: endSecond,
          })),
          warnings: answer.warnings.map(warningText),
        };
      }),
  }),
};

function nameOf({ definition, modelId }: ChosenMedia): string {
  return `${definition.id}:${modelId}`;
}

interface Asking {
  readonly kind: MediaKind;
  readonly chosen: ChosenMedia;
  readonly calls: MediaCalls;
  readonly call: MediaCall;
}

/** In the words of https://opentelemetry.io/docs/specs/semconv/gen-ai/. */
function asked<Answer>(
  { kind, chosen, calls, call }: Asking,
  ask: (factories: MediaFactories, connected: FactoryCall, abortSignal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const { definition, modelId } = chosen;
  const attributes = {
    'gen_ai.operation.name': 'generate_content',
    'gen_ai.provider.name': definition.type,
    'gen_ai.request.model': modelId,
    'gen_ai.output.type': kind === 'transcription' ? 'text' : kind,
  };
  const { tracing = noTracing } = calls;
  return inSpan(tracing, `generate_content ${modelId}`, { kind: 'client', attributes }, async () => {
    const factories = await mediaFactoriesOf(definition.type);
    return withMediaConnection({ definition, modelId, ...calls }, call.signal, (connected, abortSignal) =>
      ask(factories, connected, abortSignal),
    );
  });
}

function imageOf(image: string | Uint8Array) {
  const bytes = bytesOf(image);
  return { bytes, mediaType: imageTypeOf(bytes) ?? 'application/octet-stream' };
}

function bytesOf(content: string | Uint8Array): Uint8Array {
  return typeof content === 'string' ? Buffer.from(content, 'base64') : content;
}

async function spentOn({ definition, modelId }: ChosenMedia, tokens: MediaTokens): Promise<SpentByCall> {
  const usage: Usage = {
    input_tokens: tokens.input,
    output_tokens: tokens.output,
    cached_input_tokens: 0,
  };
  return { model: `${definition.id}:${modelId}`, usage, cost: await mediaCost(definition, modelId, tokens) };
}

/** Each vendor counts under names of its own, and some count none. */
function tokensIn(usage: JSONObject | undefined): Omit<MediaTokens, 'made'> {
  const first = (...names: string[]) => {
    const found = names.map((name) => usage?.[name]).find((value) => typeof value === 'number');
    return believedCount(found);
  };
  const details = usage?.input_token_details;
  const heard = typeof details === 'object' && details !== null ? Reflect.get(details, 'audio_tokens') : 0;
  return {
    input: first('input_tokens', 'promptTokenCount', 'total_input_tokens'),
    output: first('output_tokens', 'candidatesTokenCount', 'total_output_tokens'),
    heard: believedCount(heard),
  };
}

function warningText(warning: SharedV4Warning): string {
  if ('message' in warning) return warning.message;
  const { feature, details } = warning as { feature: string; details?: string }; // every other kind names a feature
  return details ?? `The model passes over ${feature}.`;
}

/** A picture that its maker holds back comes as none. */
function noPicture(): ModelFailure {
  return new ModelFailure(
    'provider_request_refused',
    'reword',
    'The model made no picture of this; say it in other words, or choose another model.',
  );
}

function noSound(): ModelFailure {
  return new ModelFailure('provider_failed', 'retry', 'The model provider gave no sound; try again.');
}
