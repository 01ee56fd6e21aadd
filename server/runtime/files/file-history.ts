/** Hands what tools change to the transcript, so that it can be shown and undone. */
import { lstat, realpath } from 'node:fs/promises';
import { relative, sep } from 'node:path';
import type { RunScope } from '../runs/run-scope.ts';
import { contentHash } from '../tools/file-memory.ts';
import type { FileChange } from '../tools/tool.ts';
import type { FileContent } from '../transcript.ts';

/** What is larger is recorded without its content: it can neither be shown nor put back. */
const largestKeptBytes = 10 * 1024 * 1024;

/** Stores a change that is about to be made. */
export async function recordChange(scope: RunScope, toolCallId: string, change: FileChange): Promise<void> {
  const { runId, sessionId, workspacePath, transcript } = scope;
  const before = contentOf(change.before);
  const after = contentOf(change.after);
  if (before?.sha256 === after?.sha256) return;
  await transcript.recordChange({
    runId,
    sessionId,
    toolCallId,
    path: storedPath(await realpath(workspacePath), change.path),
    before,
    mode: before && (change.mode ?? (await modeOf(change.path))),
    after,
  });
}

/** How a path is kept: relative within the workspace, so that it means the same wherever the workspace lies. */
function storedPath(workspace: string, path: string): string {
  const within = relative(workspace, path);
  return within === '..' || within.startsWith(`..${sep}`) ? path : within;
}

function contentOf(given: FileChange['after']): FileContent | null {
  if (given === null) return null;
  if (typeof given === 'object' && 'sha256' in given) return { ...given, bytes: null };
  const bytes = typeof given === 'string' ? Buffer.from(given.toWellFormed()) : given;
  return {
    sha256: contentHash(bytes),
    size: bytes.length,
    bytes: bytes.length <= largestKeptBytes ? bytes : null,
  };
}

async function modeOf(path: string): Promise<number | null> {
  const stats = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  return stats && stats.mode & 0o777;
}
