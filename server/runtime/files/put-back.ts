/** Puts files back to what they held before: all of them, or none. */
import { createHash, randomBytes } from 'node:crypto';
import type { Stats } from 'node:fs';
import { type FileHandle, link, lstat, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { withFileLock, writeNew } from '../tools/file-content.ts';
import { ToolInputError } from '../tools/tool.ts';
import {
  assertWritable,
  openForReading,
  openParent,
  type PathRules,
  type ResolvedPath,
  resolvePath,
} from '../tools/workspace-path.ts';

/** A file, and what it is to hold again. */
export interface FileToPutBack {
  /** Relative to the workspace inside it, absolute outside. */
  readonly path: string;
  /** Hashes of what it may hold now, null for no file: anything else was written by somebody else. */
  readonly known: readonly (string | null)[];
  /** The hash of what it is to hold; null where the file is to go. */
  readonly target: string | null;
  /** The permission bits of a file that is to come back. */
  readonly mode: number | null;
  /** The content; null where it was never kept. */
  readonly read: () => Promise<Uint8Array | null>;
}

/** Why a file cannot be put back. */
export interface PutBackConflict {
  readonly path: string;
  readonly reason: 'changed' | 'not_kept' | 'protected' | 'not_a_file';
}

/** A file that is about to be put back. */
interface Pending {
  readonly path: ResolvedPath;
  readonly file: FileToPutBack;
  /** As it was checked; null where there is none. */
  readonly stats: Stats | null;
  readonly present: string | null;
}

/** What putting back would do. */
export interface PutBackPlan {
  readonly conflicts: readonly PutBackConflict[];
  /** The files that would change, with the hash of what each holds now. */
  readonly files: readonly {
    readonly path: string;
    readonly present: string | null;
    readonly target: string | null;
  }[];
  /** Real paths. */
  readonly realPaths: readonly string[];
  /** Writes the contents beside the files, which stay as they are. To be called only without conflicts. */
  stage(): Promise<StagedFiles>;
}

/** Contents that wait beside their files. */
export interface StagedFiles {
  /** Puts them in their files' places. If one cannot be, those before it are as they were, and it rejects. */
  apply(): Promise<void>;
  /** Makes an `apply` undone. */
  undo(): Promise<void>;
  /** Removes what lies beside the files. */
  clear(): Promise<void>;
}

/** Looks at each file, and changes none. */
export async function planPutBack(
  workspacePath: string,
  rules: PathRules,
  wanted: readonly FileToPutBack[],
): Promise<PutBackPlan> {
  const conflicts: PutBackConflict[] = [];
  const pending: Pending[] = [];
  for (const file of wanted) {
    const found = await look(workspacePath, rules, file);
    if ('reason' in found) conflicts.push({ path: file.path, reason: found.reason });
    else if (found.present !== file.target) pending.push(found);
  }
  for (const { file } of pending)
    if (file.target !== null && !(await file.read())) conflicts.push({ path: file.path, reason: 'not_kept' });
  return {
    conflicts,
    files: pending.map(({ file, present }) => ({ path: file.path, present, target: file.target })),
    realPaths: pending.map(({ path }) => path.real),
    stage: () => stage(pending),
  };
}

async function look(
  workspacePath: string,
  rules: PathRules,
  file: FileToPutBack,
): Promise<Pending | { readonly reason: PutBackConflict['reason'] }> {
  try {
    const path = await resolvePath(file.path, workspacePath);
    // The path was without links when it was recorded: whatever leads elsewhere now is not that file.
    if (path.real !== join(path.workspace, file.path) && path.real !== file.path)
      return { reason: 'not_a_file' };
    if (!isAllowed(rules, path)) return { reason: 'protected' };
    const now = await present(path);
    if (!file.known.includes(now.present) && now.present !== file.target) return { reason: 'changed' };
    return { path, file, ...now };
  } catch (error) {
    if (error instanceof ToolInputError || isNoFile(error)) return { reason: 'not_a_file' };
    throw error;
  }
}

function isAllowed(rules: PathRules, path: ResolvedPath): boolean {
  try {
    assertWritable(rules, path);
    return true;
  } catch (error) {
    if (error instanceof ToolInputError) return false;
    throw error;
  }
}

async function present(path: ResolvedPath): Promise<Pick<Pending, 'present' | 'stats'>> {
  if (!(await statsOf(path.real))) return { present: null, stats: null };
  const handle = await openForReading(path);
  try {
    const hash = createHash('sha256');
    for await (const chunk of handle.createReadStream({ autoClose: false })) hash.update(chunk as Buffer); // no encoding
    return { present: hash.digest('hex'), stats: await handle.stat() };
  } finally {
    await handle.close();
  }
}

async function statsOf(path: string): Promise<Stats | null> {
  return lstat(path).catch((error: unknown) => {
    if (isNoFile(error)) return null;
    throw error;
  });
}

function isNoFile(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  return code === 'ENOENT' || code === 'ENOTDIR';
}

interface Staged extends Pending {
  /** The new content beside the file; null where the file is to go. */
  readonly content: string | null;
  /** Where the old content is kept while the others follow. */
  readonly backup: string;
}

async function stage(pending: readonly Pending[]): Promise<StagedFiles> {
  const staged: Staged[] = [];
  const applied: Staged[] = [];
  const clear = async () => {
    for (const one of staged)
      await besideFile(one.path, async (entry) => {
        for (const name of [one.content, one.backup]) if (name) await rm(entry(name), { force: true });
      });
  };
  const undo = async () => {
    for (const one of applied.splice(0).reverse()) await takeBack(one);
  };
  try {
    for (const one of pending) staged.push(await stageOne(one));
  } catch (error) {
    await clear();
    throw error;
  }
  return {
    clear,
    undo,
    apply: () =>
      locked(
        // Always in the same order, so that no two wait for each other.
        staged.map(({ path }) => path).toSorted((a, b) => (a.real < b.real ? -1 : 1)),
        async () => {
          for (const one of staged) await assertAsChecked(one);
          try {
            for (const one of staged) {
              await replace(one);
              applied.push(one);
            }
          } catch (error) {
            await undo();
            throw error;
          }
        },
      ),
  };
}

/** No tool of another session edits these files meanwhile. */
function locked(paths: readonly ResolvedPath[], work: () => Promise<void>): Promise<void> {
  const [first, ...rest] = paths;
  return first ? withFileLock(first, () => locked(rest, work)) : work();
}

async function stageOne(one: Pending): Promise<Staged> {
  const backup = `.${randomBytes(8).toString('hex')}.tmp`;
  if (one.file.target === null) return { ...one, content: null, backup };
  const content = `.${randomBytes(8).toString('hex')}.tmp`;
  const bytes = await one.file.read();
  if (!bytes) throw new Error(`The content of ${one.path.shown} is gone.`);
  await besideFile(one.path, async (entry, folder) => {
    await writeNew(entry(content), bytes, one.stats && { stats: one.stats }, folder, one.file.mode);
  });
  return { ...one, content, backup };
}

/** Refuses when the file is not as it was checked: told by its entry, so that all are looked at in no time. */
async function assertAsChecked({ path, stats }: Pending): Promise<void> {
  const now = await statsOf(path.real);
  const same =
    now === null || stats === null
      ? now === stats
      : now.ino === stats.ino &&
        now.size === stats.size &&
        now.mtimeMs === stats.mtimeMs &&
        now.ctimeMs === stats.ctimeMs;
  if (!same) throw Object.assign(new Error(`${path.shown} has changed a moment ago.`), { name: 'FileMoved' });
}

async function replace({ path, stats, content, backup }: Staged): Promise<void> {
  await besideFile(path, async (entry, folder) => {
    const name = entry(basename(path.real));
    // A second name for the old content costs nothing; some file systems know none.
    if (stats) await link(name, entry(backup)).catch(() => keepCopy(path, stats, entry(backup), folder));
    if (content === null) await rm(name);
    else await rename(entry(content), name);
  });
}

/** Reads the file itself: by its name a copy would also be made of what a link leads to that was put there meanwhile. */
async function keepCopy(path: ResolvedPath, stats: Stats, at: string, folder: FileHandle): Promise<void> {
  const handle = await openForReading(path);
  try {
    await writeNew(at, await handle.readFile(), { stats }, folder);
  } finally {
    await handle.close();
  }
}

async function takeBack({ path, stats, backup }: Staged): Promise<void> {
  await besideFile(path, async (entry) => {
    const name = entry(basename(path.real));
    if (stats) await rename(entry(backup), name);
    else await rm(name, { force: true });
  });
}

/** Works in the folder of the file, held open, so that nobody can put another in its place. */
async function besideFile(
  path: ResolvedPath,
  work: (entry: (name: string) => string, folder: FileHandle) => Promise<void>,
): Promise<void> {
  const parent = await openParent(path);
  try {
    await work(parent.entry, parent.handle);
  } finally {
    await parent.handle.close();
  }
}
