// The tool that stores a plan, which then waits for a person to approve or reject it.
import { z } from 'zod';
import { storableText } from '../../storable.ts';
import { defineTool, failure, success } from './define-tool.ts';
import type { Tool } from './tool.ts';

const input = z.strictObject({
  title: z.string().trim().min(1).max(200).describe('What the plan is for, in a few words'),
  content: z
    .string()
    .trim()
    .min(1)
    .max(200_000)
    .describe(
      'The whole plan in Markdown: what changes, where, in which order as a numbered list, and how to see that it works',
    ),
  draft: z
    .boolean()
    .optional()
    .describe('true while you are not done with it: nobody is asked about it then'),
});

/** Builds the `plan` tool. */
export function planTool(): Tool {
  return defineTool({
    name: 'plan',
    description:
      'Stores your plan, where a person reads it and approves or rejects it. Call it again with the whole text to ' +
      'change the plan: that makes a new version of it.',
    idempotent: false,
    needsNoFiles: true,
    needsPermission: false,
    input,
    prepare: (written, context) => ({
      permission: null,
      run: async () => {
        if (!context.plans) return failure('Plans are not kept here.');
        const { title, content, draft } = written;
        const { id, version } = await context.plans.write({
          title: storableText(title),
          content: storableText(content),
          draft,
        });
        if (draft)
          return success(
            `The draft is stored as ${id}, version ${version}. Call plan again once it is done.`,
            {
              ...{ plan_id: id, version },
            },
          );
        return success(
          `The plan is stored as ${id}, version ${version}, and waits for a person to approve it. ` +
            'Tell in a few sentences what it says, and stop there.',
          { plan_id: id, version },
        );
      },
    }),
  });
}
