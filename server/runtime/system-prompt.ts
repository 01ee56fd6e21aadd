/** What a model is told before the conversation: the profile, the place, what extensions add, and the session's own words. */
import { attributionInstructions } from './attribution.ts';
import type { RunScope } from './run-scope.ts';
import type { Tool } from './tools/tool.ts';

/** Built anew for each step, since what it tells of may change between two. */
export async function systemPrompt(scope: RunScope, tools: readonly Tool[]): Promise<string> {
  const { profile, systemPrompt, workspacePath, extensions, model, settings } = scope;
  const place = tools.length > 0 ? `Your working directory is ${workspacePath}.` : '';
  const added = await Promise.all(extensions.map(({ instructions }) => instructions?.({ workspacePath })));
  const attribution = tools.some(({ name }) => name === 'bash')
    ? attributionInstructions(await settings(), model.name)
    : '';
  const plan = tools.some(({ name }) => name === 'plan') ? await planNote(scope) : '';
  return [profile.instructions, place, attribution, ...added, plan, systemPrompt]
    .filter(Boolean)
    .join('\n\n');
}

/** What a person has done about the plan since the agent wrote it: the conversation does not say it. */
async function planNote({ transcript, sessionId }: RunScope): Promise<string> {
  const plan = await transcript.readPlan(sessionId);
  if (!plan) return '';
  const name = `The plan ${plan.id}, version ${plan.version},`;
  if (plan.status === 'rejected')
    return `${name} was rejected by the person.${plan.comment ? ` They say: ${plan.comment}` : ''}`;
  return plan.status === 'proposed' && plan.run_id === null
    ? `${name} was changed by the person, and now reads:\n\n# ${plan.title}\n\n${plan.content}`
    : '';
}
