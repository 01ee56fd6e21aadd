/** What models make and hear besides words: pictures, speech, and the words of a sound. */
import type { SpentByCall } from '../transcript.ts';

export type MediaKind = 'image' | 'speech' | 'transcription';

export interface ImageRequest {
  readonly prompt: string;
  readonly size?: `${number}x${number}` | undefined;
  readonly aspectRatio?: `${number}:${number}` | undefined;
}

export interface SpeechRequest {
  readonly text: string;
  /** How it is to be spoken, in words. */
  readonly instructions?: string | undefined;
  readonly language?: string | undefined;
}

export interface TranscriptionRequest {
  readonly audio: Uint8Array;
}

/** A picture or a sound. */
export interface MediaFile {
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

/** What every answer tells. */
interface Made {
  /** What of the request the model passes over: a sentence each. */
  readonly warnings: readonly string[];
}

export interface MadeImages extends Made {
  readonly images: readonly MediaFile[];
}

export interface MadeSpeech extends Made {
  readonly sound: MediaFile;
}

/** Some words, and when they were said. */
export interface SpokenSegment {
  readonly text: string;
  readonly startSeconds: number;
  readonly endSeconds: number;
}

export interface HeardWords extends Made {
  readonly text: string;
  /** Null where the model does not tell. */
  readonly language: string | null;
  readonly durationSeconds: number | null;
  readonly segments: readonly SpokenSegment[];
}

/** One model of one provider, as the settings and the caller want it asked. */
export interface MediaModel<Request, Answer> {
  /** `<provider>:<model_id>` */
  readonly name: string;
  /** Throws Problem, above all the `provider_` ones. */
  ask(request: Request, call: MediaCall): Promise<Answer>;
}

/** For whom a model is asked. */
export interface MediaCall {
  /** Aborts when nobody waits any more. */
  readonly signal: AbortSignal;
  /** Told what the call has used as soon as that is known, also where the answer is of no use. */
  readonly spent: (spending: SpentByCall) => Promise<void>;
}

export interface MediaModels {
  readonly image: MediaModel<ImageRequest, MadeImages>;
  readonly speech: MediaModel<SpeechRequest, MadeSpeech>;
  readonly transcription: MediaModel<TranscriptionRequest, HeardWords>;
}

/** What a caller wants instead of what the settings say. */
export interface MediaChoice {
  readonly provider?: string | undefined;
  readonly model?: string | undefined;
  readonly voice?: string | undefined;
  readonly format?: string | undefined;
  /** The language that is probably spoken. */
  readonly language?: string | undefined;
}
