/** What the tools for pictures and sound have in common: for whom a model is asked, and what its refusals become. */
import type { ClientConfig } from '../../contract/config.ts';
import { Problem } from '../../problem.ts';
import type { MediaCall } from '../models/media.ts';
import type { Media } from '../providers/media.ts';
import { type ToolContext, ToolInputError } from './tool.ts';
import type { PathRules } from './workspace-path.ts';

export interface MediaToolOptions {
  readonly media: Media;
  /** The settings that count in the workspace. */
  readonly config: ClientConfig;
  readonly rules: PathRules;
}

/** What a provider refuses is for the model to act on, like all that a tool refuses. */
export async function askMedia<Answer>(
  { signal, spent }: ToolContext,
  ask: (call: MediaCall) => Promise<Answer>,
): Promise<Answer> {
  try {
    return await ask({ signal, spent: async (spending) => spent?.(spending) });
  } catch (error) {
    if (error instanceof Problem && error.code.startsWith('provider_'))
      throw new ToolInputError(error.message);
    throw error;
  }
}

/** What of the call the model passed over, behind what there is to say. */
export function withWarnings(said: string, warnings: readonly string[]): string {
  return [said, ...warnings].join('\n');
}
