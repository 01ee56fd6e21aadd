/** Whose a repository is. */
import type { Stats } from 'node:fs';

/**
 * Whether a `.git` counts for the folder that it lies in. In a folder where everybody may write, such as /tmp, a stranger
 * could make everything below it a project.
 */
export function countsForFolder(git: Stats, folder: Stats): boolean {
  if (git.uid === process.getuid?.() || git.uid === 0) return true;
  return (folder.mode & 0o002) === 0 || folder.uid === git.uid;
}
