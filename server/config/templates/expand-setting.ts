/** Replaces the templates of one entry of the settings at the moment of its use. */
import { homedir } from 'node:os';
import { expandMarked } from './expand.ts';
import { type Environment, expandTemplate } from './variables.ts';

/** What templates are replaced with, and what stops it. */
export interface SettingSurroundings {
  readonly environment: Environment;
  /** Where commands run; the person's home if absent. */
  readonly workingDirectory?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A copy of what stands at the pointer; commands of templates run now. Throws ExpansionError. */
export async function expandSetting<Value>(
  value: Value,
  pointer: string,
  { environment, workingDirectory = homedir(), signal }: SettingSurroundings,
): Promise<Value> {
  return await expandMarked(value, pointer, (template) =>
    expandTemplate(template, environment, { workingDirectory, signal }),
  );
}
