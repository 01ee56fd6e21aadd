/** As root, a server lets commands run as whoever owns the workspace. */
import { stat } from 'node:fs/promises';
import { findExecutable } from './executable.ts';

/**
 * The words in front of a command that make it run as the owner of the workspace; none where that is this user, or root.
 * The workspaces that a server makes belong to an ordinary user; in a folder of root's own, commands are root's own.
 * @throws Error where root cannot become that user; the message says why.
 */
export async function becomingOwner(workspacePath: string): Promise<readonly string[]> {
  if (process.getuid?.() !== 0) return [];
  const { uid, gid } = await stat(workspacePath);
  if (uid === 0) return [];
  const setpriv = findExecutable('setpriv');
  if (!setpriv)
    throw new Error('setpriv (util-linux) is not installed, with which root becomes another user');
  return [setpriv, `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--no-new-privs', '--'];
}
