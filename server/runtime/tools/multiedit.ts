// The tool that makes several exact replacements in one file, all of them or none.
import { setImmediate as letOthersWork } from 'node:timers/promises';
import { z } from 'zod';
import { defineTool } from './define-tool.ts';
import { applyEdits, fileToEdit, type PlannedEdits, writeNeed } from './edit.ts';
import { type Replacement, replaceIn, replacement } from './text-edit.ts';
import { type Tool, type ToolContext, ToolInputError } from './tool.ts';
import { unifiedDiff } from './unified-diff.ts';
import { assertWritable, type PathRules, type ResolvedPath, resolvePath } from './workspace-path.ts';

const MAX_EDITS = 100;

const input = z.strictObject({
  file_path: z.string().min(1).describe('The file, relative to the workspace or absolute'),
  edits: z.array(replacement).min(1).max(MAX_EDITS).describe('The replacements, in the order they are made'),
});

type Edits = readonly Replacement[];

/** Builds the `multiedit` tool. */
export function multieditTool(rules: PathRules): Tool {
  return defineTool({
    name: 'multiedit',
    description:
      'Makes several replacements in one existing file, one after the other, each as edit does: later ones see what ' +
      'earlier ones changed. If one cannot be made, none is. View the file first.',
    idempotent: false,
    needsPermission: true,
    input,
    async prepare({ file_path, edits }, context) {
      const path = await resolvePath(file_path, context.workspacePath);
      assertWritable(rules, path);
      const { before, after } = await plan(path, edits, context);
      const diff = unifiedDiff(path, before.text, after);
      const description = `Make ${edits.length} changes in ${path.shown}`;
      return {
        permission: writeNeed(description, path, { file_path, edits }, diff),
        run: () => applyEdits(path, context, () => plan(path, edits, context)),
      };
    },
  });
}

async function plan(path: ResolvedPath, edits: Edits, context: ToolContext): Promise<PlannedEdits> {
  const before = await fileToEdit(path, context);
  let after = before.text;
  let count = 0;
  for (const [index, edit] of edits.entries()) {
    // A hundred of them in a large file take seconds, in which nobody else would be served.
    if (index > 0) await letOthersWork();
    context.signal.throwIfAborted();
    const made = replaceIn(
      after,
      edit,
      `${path.shown} (edit ${index + 1} of ${edits.length}; none was made)`,
    );
    after = made.text;
    count += made.count;
  }
  if (after === before.text) throw new ToolInputError(`The edits leave ${path.shown} as it is.`);
  return { before, after, count };
}
