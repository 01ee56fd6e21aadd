/** Puts files back to what they held before: all of them, or none. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Problem } from '../../problem.ts';
import { isNoFile, statsOf } from '../tools/entry-stats.ts';
import { ToolInputError } from '../tools/tool.ts';
import {
  assertWritable,
  openForReading,
  type PathRules,
  type ResolvedPath,
  resolvePath,
} from '../tools/workspace-path.ts';
import type { FileToPutBack, PendingFile } from './pending-file.ts';
import { type StagedFiles, stage } from './staged-files.ts';

/** Why a file cannot be put back. */
export interface PutBackConflict {
  readonly path: string;
  readonly reason: 'changed' | 'not_kept' | 'protected' | 'not_a_file';
}

/** What putting back would do. */
export interface PutBackPlan {
  readonly conflicts: readonly PutBackConflict[];
  /** Of all that was changed nothing is there, as where the files of the workspace are not. */
  readonly isNothingThere: boolean;
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

/** Looks at each file, and changes none. */
export async function planPutBack(
  workspacePath: string,
  rules: PathRules,
  wanted: readonly FileToPutBack[],
): Promise<PutBackPlan> {
  const conflicts: PutBackConflict[] = [];
  const pending: PendingFile[] = [];
  let isNothingThere = wanted.length > 0;
  for (const file of wanted) {
    const found = await look(workspacePath, rules, file);
    if (found.present !== null) isNothingThere = false;
    if ('reason' in found) conflicts.push({ path: file.path, reason: found.reason });
    else if (found.present !== file.target) pending.push(found);
  }
  for (const { file } of pending)
    if (file.target !== null && !(await file.read())) conflicts.push({ path: file.path, reason: 'not_kept' });
  return {
    conflicts,
    isNothingThere,
    files: pending.map(({ file, present }) => ({ path: file.path, present, target: file.target })),
    realPaths: pending.map(({ path }) => path.real),
    stage: () => stage(pending),
  };
}

/**
 * Throws Problem `workspace_unavailable` where the files were changed in other places, as the runs name them, and nothing of
 * them is here. A machine may have another name by now: where they are, that says nothing.
 */
export function requireFilesHere(
  { isNothingThere }: PutBackPlan,
  changedIn: readonly (string | null)[],
  place: string | null,
): void {
  const places = changedIn.filter((one) => one !== null);
  if (!isNothingThere || places.length === 0 || changedIn.includes(place)) return;
  throw new Problem(
    'workspace_unavailable',
    'The files were changed on another server, or in a folder that is no longer here. Nothing was changed; ask that server, or send files: false to revert without files.',
  );
}

/** Something else is in the place of a file. */
const other = { present: '' };

interface Refused {
  readonly reason: PutBackConflict['reason'];
  /** Null where there is nothing at all. */
  readonly present: string | null;
}

async function look(
  workspacePath: string,
  rules: PathRules,
  file: FileToPutBack,
): Promise<PendingFile | Refused> {
  try {
    const path = await resolvePath(file.path, workspacePath);
    // The path was without links when it was recorded: whatever leads elsewhere now is not that file.
    if (path.real !== join(path.workspace, file.path) && path.real !== file.path)
      return { reason: 'not_a_file', ...other };
    if (!isAllowed(rules, path)) return { reason: 'protected', ...other };
    const now = await present(path);
    if (!file.known.includes(now.present) && now.present !== file.target)
      return { reason: 'changed', present: now.present };
    return { path, file, ...now };
  } catch (error) {
    if (error instanceof ToolInputError || isNoFile(error)) return { reason: 'not_a_file', ...other };
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

async function present(path: ResolvedPath): Promise<Pick<PendingFile, 'present' | 'stats'>> {
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
