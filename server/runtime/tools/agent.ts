// The tool that has another agent do an errand: in a session of its own, with no more rights than this one has.
import { z } from 'zod';
import { defineTool, failure } from './define-tool.ts';
import type { Tool } from './tool.ts';

const input = z.strictObject({
  description: z.string().trim().min(1).max(200).describe('The errand in three to six words, for people'),
  prompt: z
    .string()
    .trim()
    .min(1)
    .max(100_000)
    .describe('All that the agent needs to know: it sees nothing of this conversation'),
  agent_slug: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/)
    .optional()
    .describe('Which agent; `task` if absent'),
});

/** What a model may choose from. */
export interface OfferedAgent {
  readonly slug: string;
  readonly description: string;
}

/** Builds the `agent` tool for the agents that there are. */
export function agentTool(agents: readonly OfferedAgent[]): Tool {
  const offered = agents.map(({ slug, description }) => `- ${slug}: ${description}`);
  return defineTool({
    name: 'agent',
    description: [
      'Has another agent do an errand and gives you its last answer, which the person does not see. It has its own ' +
        'context, so that what it reads does not fill yours: use it to look for something in many places, or for a part ' +
        'that stands by itself. Several in one step work at the same time; do not let two change the same files. What one ' +
        'has left running in the background ends with it.',
      'The agents:',
      ...offered,
    ].join('\n'),
    // A call that is made again finds the agent that it started.
    idempotent: true,
    runsBeside: true,
    needsNoFiles: true,
    needsPermission: false,
    input,
    prepare: ({ description, prompt, agent_slug = 'task' }, context) => ({
      permission: null,
      run: async () =>
        context.agents
          ? context.agents.run({ description, prompt, agentSlug: agent_slug })
          : failure('No agents can be started here.'),
    }),
  });
}
