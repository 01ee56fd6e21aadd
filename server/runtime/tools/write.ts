// The tool that writes a whole file.
import { lstat } from 'node:fs/promises';
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { withNote, writeNeed } from './edit.ts';
import {
  assertSeen,
  MAX_EDITABLE_BYTES,
  readTextFile,
  replaceTextFile,
  type TextFile,
  withFileLock,
} from './file-content.ts';
import { inFormOf } from './text-edit.ts';
import { type Tool, type ToolContext, ToolInputError, type ToolOutput } from './tool.ts';
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
  content: z.string().describe('The whole content of the file'),
});

/** Builds the `write` tool. */
export function writeTool(rules: PathRules): Tool {
  return defineTool({
    name: 'write',
    description:
      'Writes a whole file, making missing folders. An existing file has to be viewed first and is replaced; ' +
      'prefer edit for a change of some lines.',
    idempotent: false,
    needsPermission: true,
    input,
    async prepare({ file_path, content }, context) {
      const path = await resolvePath(file_path, context.workspacePath);
      assertWritable(rules, path);
      if (Buffer.byteLength(content) > MAX_EDITABLE_BYTES) {
        throw new ToolInputError(`content is too large; at most ${MAX_EDITABLE_BYTES} bytes.`);
      }
      const before = await current(path, context);
      const verb = before ? 'Overwrite' : 'Create';
      const diff = unifiedDiff(path, before?.text ?? null, formed(before, content));
      const permission = writeNeed(`${verb} ${path.shown}`, path, { file_path, content }, diff);
      return { permission, run: () => apply(path, content, context) };
    },
  });
}

async function apply(path: ResolvedPath, content: string, context: ToolContext): Promise<ToolOutput> {
  await resolveAgain(path);
  return withFileLock(path, async () => {
    const before = await current(path, context);
    context.signal.throwIfAborted();
    const written = formed(before, content);
    const { bytes, note } = await replaceTextFile(path, written, before, context);
    const verb = before ? 'Overwrote' : 'Created';
    const kept = written === content ? '' : ' Its line ends and byte order mark are as they were.';
    return success(withNote(`${verb} ${path.shown} (${bytes} bytes).${kept}`, note), {
      path: path.shown,
      bytes,
      created: !before,
    });
  });
}

function formed(before: TextFile | null, content: string): string {
  return before ? inFormOf(before.text, content) : content;
}

async function current(path: ResolvedPath, context: ToolContext): Promise<TextFile | null> {
  const stats = await lstat(path.real).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (stats?.isDirectory()) throw new ToolInputError(`${path.shown} is a folder; name a file in it.`);
  const before = stats && (await readTextFile(path));
  if (before) assertSeen(path, before, context);
  return before;
}
