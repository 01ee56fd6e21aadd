// The tool that replaces an exact piece of text in a file.
import { dirname } from 'node:path';
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { assertSeen, readTextFile, replaceTextFile, type TextFile, withFileLock } from './file-content.ts';
import { missingError } from './missing-path.ts';
import { replaceIn, replacement } from './text-edit.ts';
import { type PermissionNeed, type Tool, type ToolContext, ToolInputError, type ToolOutput } from './tool.ts';
import { unifiedDiff } from './unified-diff.ts';
import {
  assertWritable,
  type PathRules,
  type ResolvedPath,
  resolveAgain,
  resolvePath,
} from './workspace-path.ts';

const input = z.strictObject({
  file_path: z.string().min(1).describe('The file, relative to the workspace or absolute'),
  ...replacement.shape,
});

type Edit = z.output<typeof input>;

/** Builds the `edit` tool. */
export function editTool(rules: PathRules): Tool {
  return defineTool({
    name: 'edit',
    description:
      'Replaces an exact piece of text in an existing file. View the file first. old_string has to match exactly ' +
      'and to occur once (add surrounding lines until it does), unless replace_all is set. Use write for new files.',
    idempotent: false,
    needsPermission: true,
    input,
    async prepare(edit, context) {
      const path = await resolvePath(edit.file_path, context.workspacePath);
      assertWritable(rules, path);
      const { before, after } = await plan(path, edit, context);
      const diff = unifiedDiff(path, before.text, after);
      return {
        permission: writeNeed(`Edit ${path.shown}`, path, edit, diff),
        run: () => applyEdits(path, context, () => plan(path, edit, context)),
      };
    },
  });
}

/** The result of a change, followed by what there is to say about the file. */
export function withNote(result: string, note: string): string {
  return note ? `${result}\n\n${note}` : result;
}

/** The permission that changing a file takes. */
export function writeNeed(
  description: string,
  path: ResolvedPath,
  params: Record<string, unknown>,
  diff: string,
): PermissionNeed {
  return { action: 'write', description, path: dirname(path.real), file: path.real, params, diff };
}

/** Makes the replacements that are planned for a file. */
export async function applyEdits(
  path: ResolvedPath,
  context: ToolContext,
  plan: () => Promise<PlannedEdits>,
): Promise<ToolOutput> {
  await resolveAgain(path);
  return withFileLock(path, async () => {
    // Planned anew: an earlier call of the same step may have changed another part of the file.
    const { before, after, count } = await plan();
    context.signal.throwIfAborted();
    const { note } = await replaceTextFile(path, after, before, context);
    const times = count === 1 ? '1 replacement' : `${count} replacements`;
    return success(withNote(`Edited ${path.shown}: ${times}.`, note), {
      path: path.shown,
      replacements: count,
    });
  });
}

/** The file as the session has last seen it; refuses one that is not there, or has changed since. */
export async function fileToEdit(path: ResolvedPath, context: ToolContext): Promise<TextFile> {
  const file = await readTextFile(path);
  if (!file) throw await missing(path);
  assertSeen(path, file, context);
  return file;
}

/** Outside of the workspace names are told to nobody who was not allowed to look. */
async function missing(path: ResolvedPath): Promise<ToolInputError> {
  const advice = 'Use write to create a file.';
  return path.inside
    ? await missingError(path, advice)
    : new ToolInputError(`${path.shown} does not exist. ${advice}`);
}

/** A file before and after its replacements. */
export interface PlannedEdits {
  readonly before: TextFile;
  readonly after: string;
  readonly count: number;
}

async function plan(path: ResolvedPath, edit: Edit, context: ToolContext): Promise<PlannedEdits> {
  const before = await fileToEdit(path, context);
  const { text, count } = replaceIn(before.text, edit, path.shown);
  return { before, after: text, count };
}
