// The tool that makes several exact replacements in one file, all of them or none.
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { fileToEdit, withNote, writeNeed } from './edit.ts';
import { replaceTextFile, type TextFile, unifiedDiff, withFileLock } from './file-content.ts';
import { type Replacement, replaceIn, replacement } from './text-edit.ts';
import { type Tool, type ToolContext, ToolInputError, type ToolOutput } from './tool.ts';
import {
  assertWritable,
  type PathRules,
  type ResolvedPath,
  resolveAgain,
  resolvePath,
} from './workspace-path.ts';

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
        run: () => apply(path, edits, context),
      };
    },
  });
}

async function apply(path: ResolvedPath, edits: Edits, context: ToolContext): Promise<ToolOutput> {
  await resolveAgain(path);
  return withFileLock(path, async () => {
    // Planned anew: an earlier call of the same step may have changed another part of the file.
    const { before, after, count } = await plan(path, edits, context);
    context.signal.throwIfAborted();
    const { note } = await replaceTextFile(path, after, before, context);
    const times = count === 1 ? '1 replacement' : `${count} replacements`;
    return success(withNote(`Edited ${path.shown}: ${times}.`, note), {
      path: path.shown,
      replacements: count,
    });
  });
}

interface PlannedEdits {
  readonly before: TextFile;
  readonly after: string;
  readonly count: number;
}

async function plan(path: ResolvedPath, edits: Edits, context: ToolContext): Promise<PlannedEdits> {
  const before = await fileToEdit(path, context);
  let after = before.text;
  let count = 0;
  for (const [index, edit] of edits.entries()) {
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
