// The tool by which a run that carries out a plan tells how far it is.
import { z } from 'zod';
import type { Tool as ToolListing } from '../../contract/api.ts';
import { defineTool, failure, success } from './define-tool.ts';
import type { Tool } from './tool.ts';

export const planStepName = 'plan_step';

const input = z.strictObject({
  step: z.string().trim().min(1).max(3).describe('The number of the step, as 2'),
  status: z
    .enum(['pending', 'in_progress', 'completed', 'skipped'])
    .describe(
      'in_progress when you begin with it, completed once it is done and checked, skipped if it is not needed',
    ),
});

/** Builds the `plan_step` tool. */
export function planStepTool(): Tool {
  return defineTool({
    name: planStepName,
    description: 'Tells people how far a step of the plan is that you carry out.',
    idempotent: true,
    needsNoFiles: true,
    needsPermission: false,
    input,
    prepare: ({ step, status }, { plans }) => ({
      permission: null,
      run: async () => {
        const plan = await plans?.mark(step, status);
        if (!plan) return failure(`The plan that you carry out has no step ${step}.`);
        const left = plan.steps.filter((one) => one.status === 'pending' || one.status === 'in_progress');
        return success(`Step ${step} is ${status}; ${left.length} of ${plan.steps.length} are left.`, {
          plan_id: plan.id,
          step,
          status,
        });
      },
    }),
  });
}

/** As a list of tools shows it, where no run is that carries out a plan. */
export function planStepListing(disabled: readonly string[]): ToolListing {
  const { name, description, inputSchema, needsPermission } = planStepTool();
  return {
    ...{ name, source: 'builtin', description, input_schema: inputSchema, needs_permission: needsPermission },
    disabled_by: disabled.includes(name)
      ? 'options.disabled_tools'
      : 'it is there for runs that carry out a plan',
  };
}
