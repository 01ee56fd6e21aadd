/** The folders of workspaces on a server, and who owns them. */
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Log } from './log.ts';

/**
 * The user that owns the workspaces of a server that runs as root, and that commands in them run as. Nobody has it on
 * ordinary systems; whoever wants another gives the folder of the workspaces to that one.
 */
const ordinaryUser = 65_533;

/** Makes the folder of a workspace if there is none; its real path. */
export async function workspaceFolder(
  workspacesDirectory: string,
  workspaceId: string,
  log: Log,
): Promise<string> {
  const folder = join(workspacesDirectory, workspaceId);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if (process.getuid?.() === 0) await giveAway(workspacesDirectory, folder, log);
  return realpath(folder);
}

/** Root's commands would be root outside of the sandbox, too, if they ever got there. */
async function giveAway(workspacesDirectory: string, folder: string, log: Log): Promise<void> {
  if ((await stat(folder)).uid !== 0) return;
  const closed = await closedAbove(dirname(workspacesDirectory));
  if (closed !== null)
    return log.warn(
      `commands run as root, since ${closed} is closed to other users; let SERVICE_WORKSPACES_DIR name a folder that all may pass to`,
    );
  const above = await stat(workspacesDirectory);
  const [uid, gid] = above.uid === 0 ? [ordinaryUser, ordinaryUser] : [above.uid, above.gid];
  // Those who own a workspace have to get to it: through the folders above, whose names and files stay closed to them.
  for (const path of [dirname(workspacesDirectory), workspacesDirectory]) await openToPass(path);
  // What is in it belongs to root where the server has once run with one account.
  await promisify(execFile)('chown', ['-R', '-h', `${uid}:${gid}`, folder]);
  await chown(folder, uid, gid);
}

/** The first folder above that another user cannot pass; null where the way is open. */
async function closedAbove(folder: string): Promise<string | null> {
  const above = dirname(folder);
  if (above === folder) return null;
  return ((await stat(above)).mode & 0o001) === 0 ? above : closedAbove(above);
}

async function openToPass(folder: string): Promise<void> {
  const { mode } = await stat(folder);
  if ((mode & 0o001) === 0) await chmod(folder, (mode & 0o777) | 0o011);
}
