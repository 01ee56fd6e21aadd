/** What a model is told before the conversation: the profile, the place, what extensions add, and the session's own words. */
import { attributionInstructions } from './attribution.ts';
import type { RunScope } from './run-scope.ts';
import type { Tool } from './tools/tool.ts';

/** Built anew for each step, since what it tells of may change between two. */
export async function systemPrompt(
  { profile, systemPrompt, workspacePath, extensions, model, settings }: RunScope,
  tools: readonly Tool[],
): Promise<string> {
  const place = tools.length > 0 ? `Your working directory is ${workspacePath}.` : '';
  const added = await Promise.all(extensions.map(({ instructions }) => instructions?.({ workspacePath })));
  const attribution = tools.some(({ name }) => name === 'bash')
    ? attributionInstructions(await settings(), model.name)
    : '';
  return [profile.instructions, place, attribution, ...added, systemPrompt].filter(Boolean).join('\n\n');
}
