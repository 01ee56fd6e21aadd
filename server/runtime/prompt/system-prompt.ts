/** What a model is told before the conversation: the profile, the place, what extensions add, and the session's own words. */

import type { Extension, ExtensionPlace } from '../extension.ts';
import type { RunScope } from '../runs/run-scope.ts';
import type { Tool } from '../tools/tool.ts';
import { attributionInstructions } from './attribution.ts';
import { memoryPart } from './memory-part.ts';

/** A part of it, and whose it is; null for the service's own and the session's. */
export interface PromptPart {
  readonly from: Extension['name'] | 'memories' | null;
  readonly text: string;
}

export type PromptScope = Pick<
  RunScope,
  | 'profile'
  | 'systemPrompt'
  | 'workspacePath'
  | 'extensions'
  | 'extensionPlace'
  | 'model'
  | 'settings'
  | 'transcript'
  | 'sessionId'
  | 'memories'
>;

/** Built anew for each step, since what it tells of may change between two. */
export async function systemPrompt(scope: PromptScope, tools: readonly Tool[]): Promise<string> {
  return (await systemPromptParts(scope, tools)).map(({ text }) => text).join('\n\n');
}

/** The same, part by part; none is empty. */
export async function systemPromptParts(
  scope: PromptScope,
  tools: readonly Tool[],
): Promise<readonly PromptPart[]> {
  const { profile, workspacePath, extensions, model, settings } = scope;
  const place = tools.length > 0 ? `Your working directory is ${workspacePath}.` : '';
  const loads = tools.some(({ name }) => name === 'skill');
  // What nobody can load is better not named: a profile may leave the tool out.
  const added = (await addedBy(extensions, scope.extensionPlace())).filter(
    ({ from }) => from !== 'skills' || loads,
  );
  const attribution = tools.some(({ name }) => name === 'bash')
    ? attributionInstructions(await settings(), model.name)
    : '';
  const plan = tools.some(({ name }) => name === 'plan') ? await planNote(scope) : '';
  const memories = { from: 'memories' as const, text: memoryPart((await scope.memories?.recalled()) ?? []) };
  const own = (text: string | null) => ({ from: null, text: text ?? '' });
  return [
    ...[profile.instructions, place, attribution].map(own),
    ...added,
    memories,
    ...[plan, scope.systemPrompt].map(own),
  ].filter(({ text }) => text !== '');
}

/** What the extensions have to say before the conversation in this workspace. */
export function addedBy(extensions: readonly Extension[], place: ExtensionPlace): Promise<PromptPart[]> {
  return Promise.all(
    extensions.map(async ({ name, instructions }) => ({
      from: name,
      text: (await instructions?.(place)) ?? '',
    })),
  );
}

/** What a person has done about the plan since the agent wrote it: the conversation does not say it. */
async function planNote({ transcript, sessionId }: PromptScope): Promise<string> {
  const plan = await transcript.readPlan(sessionId);
  if (!plan) return '';
  const name = `The plan ${plan.id}, version ${plan.version},`;
  const changed =
    plan.run_id === null
      ? ` was changed by the person, and now reads:\n\n# ${plan.title}\n\n${plan.content}`
      : '';
  if (plan.status === 'proposed' && changed) return `${name}${changed}`;
  if (plan.status !== 'rejected') return '';
  const refused = `${name} was rejected by the person.${plan.comment ? ` They say: ${plan.comment}` : ''}`;
  return changed ? `${refused}\n\nBefore that it${changed}` : refused;
}
