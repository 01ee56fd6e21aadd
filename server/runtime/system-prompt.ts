/** What a model is told before the conversation: the profile, the place, what extensions add, and the session's own words. */
import type { RunScope } from './run-scope.ts';
import type { Tool } from './tools/tool.ts';

/** Built anew for each step, since what it tells of may change between two. */
export async function systemPrompt(
  { profile, systemPrompt, workspacePath, extensions }: RunScope,
  tools: readonly Tool[],
): Promise<string> {
  const place = tools.length > 0 ? `Your working directory is ${workspacePath}.` : '';
  const added = await Promise.all(extensions.map(({ instructions }) => instructions?.({ workspacePath })));
  return [profile.instructions, place, ...added, systemPrompt].filter(Boolean).join('\n\n');
}
