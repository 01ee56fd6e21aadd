/** Reads a file of words for the agent: a context file or a skill. Bounded, never a pipe or a device, never binary. */
import { constants } from 'node:fs';
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { liesWithin } from './project-folders.ts';

/** What a file held, or why it does not count. */
export type GuidanceFile =
  | { readonly path: string; readonly text: string; readonly cut: boolean }
  | { readonly path: string; readonly failed: string };

/** Null where there is no such file. A link that leads out of `within` is not followed. */
export async function readGuidance(
  path: string,
  { within, maxBytes }: { readonly within: string | null; readonly maxBytes: number },
): Promise<GuidanceFile | null> {
  try {
    const real = await realpath(path);
    if (within !== null && !liesWithin(within, real))
      return { path, failed: 'it is a link that leads out of the project' };
    return await readStart(real, within !== null, maxBytes);
  } catch (error) {
    // `as`: file system calls reject with errno errors only.
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' || code === 'ENOTDIR' ? null : { path, failed: `it cannot be read (${code})` };
  }
}

/** A path as people write it in settings. */
export function guidancePath(given: string, workspacePath: string): string {
  return given.startsWith('~/') ? join(homedir(), given.slice(2)) : resolve(workspacePath, given);
}

/** Where commands of agents may write, one may put a link to somewhere else in the file's place once it was looked at. */
async function readStart(path: string, mayChange: boolean, maxBytes: number): Promise<GuidanceFile> {
  // Non-blocking, because opening a named pipe would otherwise wait for its writer.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | (mayChange ? constants.O_NOFOLLOW : 0);
  const handle = await open(path, flags);
  try {
    if (mayChange && (await placeOf(handle, path)) !== path)
      return { path, failed: 'something else was put in its place while it was read' };
    if (!(await handle.stat()).isFile()) return { path, failed: 'it is no regular file' };
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxBytes + 1), 0, maxBytes + 1, 0);
    const bytes = buffer.subarray(0, Math.min(bytesRead, maxBytes));
    if (bytes.includes(0)) return { path, failed: 'it is no text' };
    // `stream` keeps a character that the bound has cut in two from becoming a replacement mark.
    const text = new TextDecoder().decode(bytes, { stream: bytesRead > maxBytes });
    return { path, text, cut: bytesRead > maxBytes };
  } finally {
    await handle.close();
  }
}

/** Where what was opened lies; only Linux tells. */
async function placeOf({ fd }: FileHandle, path: string): Promise<string> {
  return process.platform === 'linux' ? readlink(`/proc/self/fd/${fd}`) : realpath(path);
}
