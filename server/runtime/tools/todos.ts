// The tool that keeps the session's task list.
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import type { Todo, Tool } from './tool.ts';

const todo = z.strictObject({
  content: z.string().min(1).max(500).describe('The task, as an order: "Run the tests"'),
  status: z.enum(['pending', 'in_progress', 'completed']),
  active_form: z.string().min(1).max(500).describe('The same while it is being done: "Running the tests"'),
});

const input = z.strictObject({
  todos: z
    .array(todo)
    .max(100)
    .refine((todos) => countOf(todos, 'in_progress') <= 1, 'at most one task can be in progress')
    .describe('The whole list; it replaces the former one'),
});

/** Builds the `todos` tool. */
export function todosTool(): Tool {
  return defineTool({
    name: 'todos',
    description:
      'Replaces the task list of the session, which people see. Use it for work of several steps: exactly one task ' +
      'in progress while you work, each marked completed as soon as it is done.',
    idempotent: true,
    needsNoFiles: true,
    needsPermission: false,
    input,
    prepare: ({ todos }, context) => ({
      permission: null,
      run: async () => {
        await context.todos.set(todos);
        return success(`The list has ${summaryOf(todos)}.`, { todos });
      },
    }),
  });
}

/** The list that the input of a call gives; null where it is none that the tool takes. */
export function todosIn(given: unknown): readonly Todo[] | null {
  const { success: fits, data } = input.safeParse(given);
  return fits ? data.todos : null;
}

function summaryOf(todos: readonly Todo[]): string {
  const counts = (['completed', 'in_progress', 'pending'] as const).map(
    (status) => `${countOf(todos, status)} ${status}`,
  );
  return counts.join(', ').replace('in_progress', 'in progress');
}

function countOf(todos: readonly Todo[], status: Todo['status']): number {
  return todos.filter((item) => item.status === status).length;
}
