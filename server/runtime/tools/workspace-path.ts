// Where a path given by a model really leads, and whether a tool may go there.
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { namedGitFolder } from '../commands/git-folder.ts';
import { isNamedByGit } from '../commands/git-named-places.ts';
import { liesWithin } from '../guidance/project-folders.ts';
import { type PermissionNeed, type ToolContext, ToolInputError } from './tool.ts';

/** What the mode of the installation says about paths. */
export interface PathRules {
  /** True in `multi`: nothing outside the workspace is ever touched, and protected names are never written. */
  readonly requireSandbox: boolean;
  /** Folders of the service itself: no file of theirs is touched, whoever allows it. A workspace may lie in one. */
  readonly hiddenPaths?: readonly string[];
}

/** A path after every symbolic link in it has been followed. */
export interface ResolvedPath {
  readonly given: string;
  readonly real: string;
  readonly workspace: string;
  readonly inside: boolean;
  /** As people and models read it: relative inside the workspace, absolute elsewhere. */
  readonly shown: string;
}

/** What git obeys in its folder; `commondir` sends it elsewhere for its settings. */
const NAMES_OF_GIT = ['hooks', 'config', 'config.worktree', 'commondir'] as const;

/** Names whose content other programs obey, relative to the workspace. */
const PROTECTED_NAMES = [
  ...NAMES_OF_GIT.map((name) => `.git/${name}`),
  'service.json',
  '.service.json',
  '.service',
];

/** On Linux an open folder or file can be addressed and asked for its path, which no swapped link can fool. */
const HAS_PROC_FD = process.platform === 'linux';

const MAX_PATH_LENGTH = 4096;

/** Follows every link of the given path; parts that do not exist yet stay as they are. */
export async function resolvePath(given: string, workspacePath: string): Promise<ResolvedPath> {
  if (given.includes('\0')) throw new ToolInputError('A path cannot contain a NUL character.');
  if (given.length > MAX_PATH_LENGTH) throw new ToolInputError('The path is too long.');
  const workspace = await realpath(workspacePath);
  const real = await realPathOf(resolve(workspace, given));
  const inside = liesWithin(workspace, real);
  const shown = inside ? relative(workspace, real) || '.' : real;
  return { given, real, workspace, inside, shown };
}

/** Refuses what the rules forbid to read; otherwise says which permission it takes, if any. */
export function readNeed(
  rules: PathRules,
  path: ResolvedPath,
  need: { action: 'read' | 'list'; folder: string; file?: string; params: Record<string, unknown> },
  { readableFolders }: ToolContext,
): PermissionNeed | null {
  if (isLent(rules, path, readableFolders)) return null;
  refuseHidden(rules, path);
  if (path.inside || readableFolders.some((folder) => liesWithin(folder, path.real))) return null;
  refuseOutside(rules, path);
  // A search reads all that lies below.
  if (need.action === 'read' && rules.hiddenPaths?.some((folder) => liesWithin(path.real, folder)))
    throw new ToolInputError(`${path.given} holds files of the service itself; name a folder beside them.`);
  const verb = need.action === 'read' ? 'Read' : 'List';
  const description = `${verb} ${path.real}, outside the workspace`;
  const { action, folder, params, file } = need;
  return { action, description, path: folder, params, ...(file !== undefined && { file }) };
}

/** Whether it lies in a folder that the service keeps among its own so that its tools may read it: what is nearer counts. */
function isLent(
  { hiddenPaths = [] }: PathRules,
  { real }: ResolvedPath,
  readable: readonly string[],
): boolean {
  const lent = readable.filter((folder) => hiddenPaths.some((hidden) => liesWithin(hidden, folder)));
  return lent.some((folder) => liesWithin(folder, real));
}

/** Refuses what the rules forbid to change. */
export function assertWritable(rules: PathRules, path: ResolvedPath): void {
  refuseHidden(rules, path);
  if (!path.inside) refuseOutside(rules, path);
  if (!path.inside || !rules.requireSandbox) return;
  // Lower case, because some file systems take `.GIT/Config` for the same file.
  const nameIn = (folder: string) => relative(folder, path.real).split(sep).join('/').toLowerCase();
  const name = nameIn(path.workspace);
  const git = namedGitFolder(path.workspace);
  const hit = named(PROTECTED_NAMES, name) ?? (git === null ? undefined : named(NAMES_OF_GIT, nameIn(git)));
  if (hit)
    throw new ToolInputError(`${path.shown} is protected: tools may not change ${hit} of a workspace.`);
  if (isNamedByGit(path.real, path.workspace))
    throw new ToolInputError(`${path.shown} is protected: the settings of git name it, and git obeys it.`);
  if (name === '.git' || path.real === git)
    throw new ToolInputError(`${path.shown} is protected: tools may not replace it.`);
}

/** The one that is this path, or a folder that it lies in. */
function named<Name extends string>(names: readonly Name[], path: string): Name | undefined {
  return names.find((name) => path === name || path.startsWith(`${name}/`));
}

/** Resolves again just before the work and insists on the answer that permission was asked for. */
export async function resolveAgain(before: ResolvedPath): Promise<void> {
  const now = await resolvePath(before.given, before.workspace);
  if (now.real !== before.real) throw movedError(before);
}

/** Opens a regular file for reading; a file swapped for a link or a pipe in the meantime is refused. */
export async function openForReading(path: ResolvedPath): Promise<FileHandle> {
  // Non-blocking, because opening a named pipe would otherwise wait for its writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path.real, flags);
  try {
    if (!(await handle.stat()).isFile()) throw new ToolInputError(`${path.shown} is not a regular file.`);
    await assertOpenedAt(handle, path.real, path);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Opens the folder that holds the path, making the missing ones; each step is taken from an open folder. */
export async function openParent(
  path: ResolvedPath,
): Promise<{ handle: FileHandle; entry(name: string): string }> {
  const missing: string[] = [];
  let existing = dirname(path.real);
  while (!(await exists(existing))) {
    missing.unshift(basename(existing));
    existing = dirname(existing);
  }
  let folder = await openFolder(existing, existing, path);
  for (const name of missing) folder = await descend(folder, name, path);
  return { handle: folder.handle, entry: (name) => entryPath(folder, name) };
}

interface OpenFolder {
  readonly handle: FileHandle;
  readonly path: string;
}

async function descend(folder: OpenFolder, name: string, path: ResolvedPath): Promise<OpenFolder> {
  try {
    const made = await mkdir(entryPath(folder, name)).then(() => true, unlessExists);
    const below = await openFolder(entryPath(folder, name), join(folder.path, name), path);
    if (made) await giveToOwnerOf(folder.handle, below.handle);
    return below;
  } finally {
    await folder.handle.close();
  }
}

/** What a server makes that runs as root belongs to whoever owns the folder it is in, as whom commands run there. */
export async function giveToOwnerOf(folder: FileHandle, made: FileHandle): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await folder.stat();
  await made.chown(uid, gid);
}

function unlessExists(error: NodeJS.ErrnoException): boolean {
  if (error.code !== 'EEXIST') throw error;
  return false;
}

async function openFolder(at: string, expected: string, path: ResolvedPath): Promise<OpenFolder> {
  const handle = await open(at, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    await assertOpenedAt(handle, expected, path);
    return { handle, path: expected };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function entryPath(folder: OpenFolder, name: string): string {
  return HAS_PROC_FD ? `/proc/self/fd/${folder.handle.fd}/${name}` : join(folder.path, name);
}

async function assertOpenedAt(handle: FileHandle, expected: string, path: ResolvedPath): Promise<void> {
  if (!HAS_PROC_FD) return;
  if ((await readlink(`/proc/self/fd/${handle.fd}`)) !== expected) throw movedError(path);
}

function movedError(path: ResolvedPath): ToolInputError {
  return new ToolInputError(
    `${path.given} led somewhere else a moment ago. Look at it again before going on.`,
  );
}

/** Keys, the database and other people's workspaces are no matter of one permission, nor of a mode that asks nobody. */
function refuseHidden(
  { hiddenPaths = [] }: PathRules,
  { given, real, workspace, inside }: ResolvedPath,
): void {
  const hides = (folder: string) =>
    liesWithin(folder, real) && (!inside || (folder !== workspace && liesWithin(workspace, folder)));
  if (hiddenPaths.some(hides)) throw new ToolInputError(`${given} belongs to the service itself.`);
}

function refuseOutside(rules: PathRules, path: ResolvedPath): void {
  if (!rules.requireSandbox) return;
  throw new ToolInputError(
    `${path.given} lies outside the workspace. Use a path inside it, relative to its root.`,
  );
}

async function realPathOf(path: string): Promise<string> {
  if (!isAbsolute(path)) throw new ToolInputError('The path is not absolute.');
  try {
    return await realpath(path);
  } catch (error) {
    // `as`: realpath rejects with errno errors only.
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ELOOP') throw new ToolInputError(`${path} runs in a circle of symbolic links.`);
    if (code !== 'ENOENT') throw error;
    if (await isLink(path)) throw new ToolInputError(`${path} is a symbolic link to nothing.`);
    return join(await realPathOf(dirname(path)), basename(path));
  }
}

async function isLink(path: string): Promise<boolean> {
  return (await exists(path)) && (await lstat(path)).isSymbolicLink();
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );
}
