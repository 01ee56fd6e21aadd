/** Finds the root of a git repository without running git: a repository could make git run what it likes. */
import { constants } from 'node:fs';
import { lstat, open, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { countsForFolder } from '../../git-owner.ts';
import { ifThere } from './if-there.ts';

/**
 * The root of the repository, worktree or submodule that the folder is in; null outside git. It looks upwards, stops
 * at the first root, and opens nothing but a `.git` file, so that nothing above the root is ever read.
 */
export async function findGitRoot(folder: string): Promise<string | null> {
  if (await isGitRoot(folder)) return folder;
  const parent = dirname(folder);
  return parent === folder ? null : findGitRoot(parent);
}

async function isGitRoot(folder: string): Promise<boolean> {
  const git = join(folder, '.git');
  const found = await ifThere(lstat(git));
  if (!found || !countsForFolder(found, await stat(folder))) return false;
  if (found.isDirectory()) return (await ifThere(lstat(join(git, 'HEAD')))) !== null;
  if (found.isFile()) return beginsWithGitdir(git);
  if (!found.isSymbolicLink()) return false;
  const target = await ifThere(stat(git));
  // A link is followed by git as well. Where it ends is not read: of two roots the nearer is the safer.
  if (target?.isDirectory()) return (await ifThere(stat(join(git, 'HEAD')))) !== null;
  return target?.isFile() ?? false;
}

/** Worktrees and submodules have a file that says where their repository is. */
async function beginsWithGitdir(file: string): Promise<boolean> {
  const handle = await ifThere(open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK));
  if (!handle) return false;
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(7), 0, 7, 0);
    return buffer.toString('latin1', 0, bytesRead) === 'gitdir:';
  } finally {
    await handle.close();
  }
}
