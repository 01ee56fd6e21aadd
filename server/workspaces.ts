/** The folders of workspaces on a server, and who owns them. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, chown, link, mkdir, readFile, realpath, stat, unlink, writeFile } from 'node:fs/promises';
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

/**
 * Names the folder among those of all nodes: two that name it alike share its files, on a mount or on one machine. Null
 * where it is not there.
 */
export async function workspacePlace(
  workspacesDirectory: string,
  workspaceId: string,
): Promise<string | null> {
  const isThere = await stat(join(workspacesDirectory, workspaceId)).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
  return isThere ? `${await nameOf(workspacesDirectory)}/${workspaceId}` : null;
}

/** The directory's own name stands in it: whoever reads the same file sees the same workspaces. */
async function nameOf(directory: string): Promise<string> {
  const file = join(directory, '.place');
  const known = await readFile(file, 'utf8').catch(() => '');
  if (known) return known;
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, randomUUID(), { mode: 0o600 });
  // Of several nodes at once the first one names it, and nobody reads half a name.
  await link(draft, file).catch(unlessThere);
  await unlink(draft);
  return readFile(file, 'utf8');
}

function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
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
