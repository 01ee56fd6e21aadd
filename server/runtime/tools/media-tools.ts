/** The tools that make pictures and speech, and hear what was said: each where the settings name who can. */
import type { MediaKind } from '../models/media.ts';
import { generateImageTool } from './generate-image.ts';
import type { MediaToolOptions } from './media-call.ts';
import { speakTool } from './speak.ts';
import type { Tool } from './tool.ts';
import { transcribeTool } from './transcribe.ts';

export type { MediaToolOptions } from './media-call.ts';

/** A tool, and why there is none of it; null where there is. */
export interface MediaTool {
  readonly tool: Tool;
  readonly absence: string | null;
}

export function mediaTools(options: MediaToolOptions): readonly MediaTool[] {
  const { media, config } = options;
  const of = (kind: MediaKind, tool: Tool): MediaTool => ({ tool, absence: media.absence(kind, config) });
  return [
    of('image', generateImageTool(options)),
    of('speech', speakTool(options)),
    of('transcription', transcribeTool(options)),
  ];
}
