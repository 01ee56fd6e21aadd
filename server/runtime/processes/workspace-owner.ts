/** As root, a server lets commands run as whoever owns the workspace. */
import { stat } from 'node:fs/promises';
import { findExecutable } from './executable.ts';

/**
 * The words in front of a command that make it run as the owner of the workspace; none where that is this user. The
 * workspaces that a server makes belong to an ordinary user. In a folder of root's own, commands are root's own where one
 * person is served, who is root then; for others, root runs none.
 * @throws Error where root cannot become that user, or must not remain root; the message says why.
 */
export async function becomingOwner(workspacePath: string, mayBeRoot: boolean): Promise<readonly string[]> {
  if (process.getuid?.() !== 0) return [];
  const { uid, gid } = await stat(workspacePath);
  if (uid === 0 && mayBeRoot) return [];
  if (uid === 0)
    throw new Error(
      'the folder of this workspace belongs to root, and a server with several accounts runs nothing as root. Whoever ' +
        'runs the server can give the folder to another user, or keep the workspaces where all may pass to them ' +
        '(SERVICE_WORKSPACES_DIR)',
    );
  const setpriv = findExecutable('setpriv');
  if (!setpriv)
    throw new Error('setpriv (util-linux) is not installed, with which root becomes another user');
  return [setpriv, `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--no-new-privs', '--'];
}
