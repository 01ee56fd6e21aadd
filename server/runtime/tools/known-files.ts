// Records what a command changes of the files that the session has viewed or written before.
import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { contentHash } from './file-memory.ts';
import { type FileChange, type ToolContext, ToolInputError } from './tool.ts';
import { openForReading, resolvePath } from './workspace-path.ts';
import { type WritesMeanwhile, watchingWrites } from './writes-meanwhile.ts';

/** No command sees more files looked after than this, the newest first. */
const MOST_FILES = 200;
/** Held in memory while the command runs, by each command at work. */
const MOST_BYTES = 8 * 1024 * 1024;

interface KnownFile {
  readonly path: string;
  readonly content: Buffer;
  readonly stats: Stats;
}

/**
 * Does the work, then records which known files it has changed or deleted. What else it changes is not seen. What tools
 * have written meanwhile is theirs, whichever session they are of; an editor's work nobody can tell from the command's.
 */
export async function recordingChanges<T>(context: ToolContext, work: () => Promise<T>): Promise<T> {
  return watchingWrites(async (writes) => {
    const known = await readKnown(context);
    try {
      return await work();
    } finally {
      for (const file of known) await recordIfChanged(file, writes, context);
    }
  });
}

async function readKnown(context: ToolContext): Promise<readonly KnownFile[]> {
  const known: KnownFile[] = [];
  let room = MOST_BYTES;
  for (const path of context.files.paths().slice(0, MOST_FILES)) {
    const file = await withFile(path, context, async (handle, stats) =>
      stats.size > room ? null : { path, content: await handle.readFile(), stats },
    );
    if (!file) continue;
    known.push(file);
    room -= file.content.length;
  }
  return known;
}

async function recordIfChanged(
  file: KnownFile,
  writes: WritesMeanwhile,
  context: ToolContext,
): Promise<void> {
  const { path, content, stats } = file;
  const after = await withFile(path, context, async (handle, now) =>
    isSame(now, stats) ? 'unchanged' : contentOf(handle, now),
  );
  if (after === 'unchanged') return;
  const before = writes.get(path);
  const isOfTool = before !== undefined && hashOf(before) === hashOf(after);
  if (isOfTool) return;
  await context.recordChange({
    ...{ path, after, mode: stats.mode & 0o777 },
    before: before === undefined ? content : before,
  });
}

function hashOf(content: FileChange['after']): string | null {
  if (content === null) return null;
  if (typeof content === 'object' && 'sha256' in content) return content.sha256;
  return contentHash(typeof content === 'string' ? Buffer.from(content.toWellFormed()) : content);
}

/** What is too large to be kept is only told apart. */
async function contentOf(handle: FileHandle, { size }: Stats): Promise<FileChange['after']> {
  if (size <= MOST_BYTES) return handle.readFile();
  const hash = createHash('sha256');
  for await (const chunk of handle.createReadStream({ autoClose: false })) hash.update(chunk as Buffer); // no encoding
  return { sha256: hash.digest('hex'), size };
}

/** Null where the path leads to no regular file, or to another place than it did: a command may put links anywhere. */
async function withFile<T>(
  path: string,
  { workspacePath }: ToolContext,
  read: (handle: FileHandle, stats: Stats) => Promise<T>,
): Promise<T | null> {
  try {
    const resolved = await resolvePath(path, workspacePath);
    if (resolved.real !== path) return null;
    const handle = await openForReading(resolved);
    try {
      return await read(handle, await handle.stat());
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof ToolInputError || isGone(error)) return null;
    throw error;
  }
}

/** The time of the last change of the entry can be set by nobody, unlike that of the content. */
function isSame(a: Stats, b: Stats): boolean {
  return a.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs;
}

function isGone(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EACCES'].includes(code);
}
