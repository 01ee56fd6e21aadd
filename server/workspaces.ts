/** The folders of workspaces on a server, and who owns them. */
import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  chmod,
  chown,
  link,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { Log } from './log.ts';
import { Problem } from './problem.ts';

/**
 * The user that owns the workspaces of a server that runs as root, and that commands in them run as. Nobody has it on
 * ordinary systems; whoever wants another gives the folder of the workspaces to that one.
 */
const ordinaryUser = 65_533;

/** Where the folders of workspaces may be. */
export interface FolderRules {
  /** Each workspace without a path of its own is a folder in here. */
  readonly workspacesDirectory: string;
  /** The folder of every such workspace of a command, which has this server inside; null for a server. */
  readonly projectFolder: string | null;
  /** Below these a workspace may have a path; a person's own command takes any. */
  readonly roots: readonly string[];
  /** What the server keeps for itself: no workspace lies in it or around it. */
  readonly ownFolders: readonly string[];
}

/** The folders of workspaces, wherever they are. */
export interface WorkspaceFolders {
  /** The real path that a workspace may use; null where it may not. */
  accept(path: string): Promise<string | null>;
  /** The real path of the folder, made if need be. Throws `workspace_unavailable`. */
  open(workspaceId: string): Promise<string>;
  /** Names the folder among those of all nodes; null where it is not there. */
  place(workspaceId: string): Promise<string | null>;
  /** Removes the folder of a workspace that is gone, if it was its own. */
  remove(workspaceId: string): Promise<void>;
  /** Removes what is left of any; what cannot be removed is told to the log. */
  removeLeft(): Promise<void>;
}

/** What is kept of workspaces. */
interface KeptWorkspaces {
  /** The path of a workspace, which is null where it has a folder of its own. */
  pathOf(workspaceId: string): Promise<string | null>;
  /** False for one that was deleted. */
  exists(workspaceId: string): Promise<boolean>;
  /** The folder of one that was deleted is gone. */
  forget(workspaceId: string): Promise<void>;
}

export function workspaceFolders(
  rules: FolderRules,
  { pathOf, exists, forget }: KeptWorkspaces,
  log: Log,
): WorkspaceFolders {
  const { workspacesDirectory, projectFolder } = rules;
  // Looked at each time: a link on the way may lead elsewhere by now, and the operator may have thought better of it.
  const stillAccepted = async (path: string) => (await acceptedFolder(path, rules)) === path;
  const ownFolder = async (workspaceId: string): Promise<string> => {
    try {
      const { folder, isNew } = await workspaceFolder(workspacesDirectory, workspaceId, log);
      if (!isNew || (await exists(workspaceId))) return folder;
    } catch (error) {
      // Else it was removed while it was made.
      if (await exists(workspaceId)) throw error;
    }
    // Made after it was removed with its workspace, it would stay, and nobody would know of it.
    await removeFolder(workspacesDirectory, workspaceId);
    throw new Problem('workspace_unavailable', 'This workspace was deleted, and its folder with it.');
  };
  return {
    accept: (path) => acceptedFolder(path, rules),
    async open(workspaceId) {
      const path = await pathOf(workspaceId);
      if (path === null) return projectFolder ?? ownFolder(workspaceId);
      if (await stillAccepted(path)) return path;
      throw new Problem(
        'workspace_unavailable',
        'The folder of this workspace is gone, or leads elsewhere by now, or this server does not accept it any more.',
      );
    },
    async place(workspaceId) {
      const path = await pathOf(workspaceId);
      if (path === null) return projectFolder ?? workspacePlace(workspacesDirectory, workspaceId);
      // Whether another machine has the same files there, nobody has said.
      return (await stillAccepted(path)) ? `${hostname()}:${path}` : null;
    },
    async remove(workspaceId) {
      if (projectFolder === null) await removeFolder(workspacesDirectory, workspaceId);
      await forget(workspaceId);
    },
    async removeLeft() {
      if (projectFolder !== null) return;
      for (const folder of await foldersLeft(workspacesDirectory, deleted))
        await removeTree(folder).catch((error: unknown) =>
          log.error({ err: error, folder }, 'what is left of a deleted workspace could not be removed'),
        );
    },
  };
}

async function acceptedFolder(
  path: string,
  { roots, ownFolders, projectFolder }: FolderRules,
): Promise<string | null> {
  const real = await realFolder(path);
  if (real === null) return null;
  if (projectFolder !== null) return real;
  const [above, own] = await Promise.all([realFolders(roots), realFolders(ownFolders)]);
  const isTaken = own.some((folder) => folder === real || isBelow(folder, real) || isBelow(real, folder));
  return !isTaken && above.some((root) => isBelow(root, real)) ? real : null;
}

async function realFolders(paths: readonly string[]): Promise<string[]> {
  return Promise.all(paths.map(async (path) => (await realFolder(path)) ?? resolve(path)));
}

async function realFolder(path: string): Promise<string | null> {
  try {
    const real = await realpath(path);
    return (await stat(real)).isDirectory() ? real : null;
  } catch {
    // What cannot be looked at is no folder to work in, whatever the reason.
    return null;
  }
}

function isBelow(folder: string, path: string): boolean {
  return path.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
}

/** What a folder that is to be removed is called first, so that nobody finds half of it under its name. */
const deleted = '.deleted-';

/** Removes it, and what an earlier removal or another server has left of it. */
async function removeFolder(workspacesDirectory: string, workspaceId: string): Promise<void> {
  const ofOne = `${deleted}${workspaceId}-`;
  const aside = join(workspacesDirectory, `${ofOne}${randomUUID()}`);
  await rename(join(workspacesDirectory, workspaceId), aside).catch(unlessGone);
  for (const folder of await foldersLeft(workspacesDirectory, ofOne)) await removeTree(folder);
}

async function foldersLeft(workspacesDirectory: string, prefix: string): Promise<string[]> {
  const names = await readdir(workspacesDirectory).catch((error: NodeJS.ErrnoException) => {
    unlessGone(error);
    return [];
  });
  return names.filter((name) => name.startsWith(prefix)).map((name) => join(workspacesDirectory, name));
}

/**
 * By the program of the system, which goes from folder to folder: no path that a command has made is too long for it, and
 * no link that one puts in its way while it works, from another node for instance, leads it elsewhere.
 */
async function removeTree(folder: string): Promise<void> {
  for (let tries = 1; ; tries += 1)
    try {
      return await program('rm', ['-rf', '--', folder]);
    } catch (error) {
      if (tries === 3) throw error;
      // Folders that their owner may not write to. What else stands in the way, the next try tells.
      await program('chmod', ['-R', 'u+rwX', '--', folder]).catch(() => undefined);
    }
}

/** Without a shell. Throws with the beginning of what it said: it may say a line for each of a million files. */
async function program(name: string, args: readonly string[]): Promise<void> {
  const env = { PATH: process.env.PATH, LC_ALL: 'C' };
  const child = spawn(name, args, { stdio: ['ignore', 'ignore', 'pipe'], env });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    if (said.length < mostSaid) said = (said + piece).slice(0, mostSaid);
  });
  const [code, signal] = await once(child, 'close');
  if (code !== 0) throw new Error(`${name} ended with ${code ?? signal}: ${said.trim()}`);
}

const mostSaid = 500;

function unlessGone(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

/** Makes the folder of a workspace if there is none; its real path, and whether it was made. */
export async function workspaceFolder(
  workspacesDirectory: string,
  workspaceId: string,
  log: Log,
): Promise<{ readonly folder: string; readonly isNew: boolean }> {
  const folder = join(workspacesDirectory, workspaceId);
  const isNew = (await mkdir(folder, { recursive: true, mode: 0o700 })) !== undefined;
  if (process.getuid?.() === 0) await giveAway(workspacesDirectory, folder, log);
  return { folder: await realpath(folder), isNew };
}

/**
 * Names the folder among those of all nodes: two that name it alike share its files, on a mount or on one machine. Null
 * where it is not there.
 */
async function workspacePlace(workspacesDirectory: string, workspaceId: string): Promise<string | null> {
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
      `commands run as root, or not at all where several accounts are served, since ${closed} is closed to other users; ` +
        'let SERVICE_WORKSPACES_DIR name a folder that all may pass to',
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
