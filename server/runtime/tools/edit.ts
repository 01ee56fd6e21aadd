// The tool that replaces an exact piece of text in a file.
import { dirname } from 'node:path';
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import {
  assertSeen,
  readTextFile,
  replaceTextFile,
  type TextFile,
  unifiedDiff,
  withFileLock,
} from './file-content.ts';
import { type PermissionNeed, type Tool, type ToolContext, ToolInputError, type ToolOutput } from './tool.ts';
import {
  assertWritable,
  type PathRules,
  type ResolvedPath,
  resolveAgain,
  resolvePath,
} from './workspace-path.ts';

const input = z.strictObject({
  file_path: z.string().min(1).describe('The file, relative to the workspace or absolute'),
  old_string: z
    .string()
    .min(1)
    .describe('The exact text to replace, white space included; it must occur once'),
  new_string: z.string().describe('The text that takes its place; empty to delete'),
  replace_all: z.boolean().default(false).describe('Replace every occurrence'),
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
        run: () => apply(path, edit, context),
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
  return { action: 'write', description, path: dirname(path.real), params, diff };
}

async function apply(path: ResolvedPath, edit: Edit, context: ToolContext): Promise<ToolOutput> {
  await resolveAgain(path);
  return withFileLock(path, async () => {
    // Planned anew: an earlier call of the same step may have changed another part of the file.
    const { before, after, count } = await plan(path, edit, context);
    context.signal.throwIfAborted();
    const { note } = await replaceTextFile(path, after, before, context);
    const times = count === 1 ? '1 replacement' : `${count} replacements`;
    return success(withNote(`Edited ${path.shown}: ${times}.`, note), {
      path: path.shown,
      replacements: count,
    });
  });
}

interface PlannedEdit {
  readonly before: TextFile;
  readonly after: string;
  readonly count: number;
}

async function plan(path: ResolvedPath, edit: Edit, context: ToolContext): Promise<PlannedEdit> {
  const before = await readTextFile(path);
  if (!before) throw new ToolInputError(`${path.shown} does not exist. Use write to create a file.`);
  assertSeen(path, before, context);
  const wanted = inEndingsOf(before.text, edit);
  const count = occurrences(before.text, wanted.old);
  if (count === 0)
    throw new ToolInputError(`old_string was not found in ${path.shown}. It has to match exactly.`);
  if (count > 1 && !edit.replace_all) {
    throw new ToolInputError(
      `old_string occurs ${count} times in ${path.shown}. Add surrounding lines to make it unique, or set replace_all.`,
    );
  }
  if (wanted.old === wanted.new) throw new ToolInputError('old_string and new_string are the same.');
  return { before, after: before.text.split(wanted.old).join(wanted.new), count };
}

/** Models write LF; in a file of CRLF lines both strings are taken to mean CRLF, so that the file stays whole. */
function inEndingsOf(text: string, edit: Edit): { old: string; new: string } {
  const asGiven = { old: edit.old_string, new: edit.new_string };
  const crlf = occurrences(text, '\r\n');
  if (crlf <= occurrences(text, '\n') / 2) return asGiven;
  const old = withCrlf(edit.old_string);
  return text.includes(old) ? { old, new: withCrlf(edit.new_string) } : asGiven;
}

function withCrlf(text: string): string {
  return text.replaceAll(/\r?\n/g, '\r\n');
}

function occurrences(text: string, part: string): number {
  return text.split(part).length - 1;
}
