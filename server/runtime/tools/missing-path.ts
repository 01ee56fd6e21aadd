// Says that a path leads to nothing, and what may have been meant.
import { opendir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { nearNames } from './near-names.ts';
import { ToolInputError } from './tool.ts';
import type { ResolvedPath } from './workspace-path.ts';

const MAX_NAMES_COMPARED = 5000;

/** For a model that is to look elsewhere; `otherwise` is said where no name is near. */
export async function missingError(path: ResolvedPath, otherwise: string): Promise<ToolInputError> {
  const gap = await firstGap(path);
  const near = nearNames(basename(gap.real), gap.names).map((name) => join(dirname(gap.shown), name));
  const folder = gap.shown === path.shown ? '' : `: there is no folder ${gap.shown}`;
  const hint = near.length > 0 ? `Did you mean ${near.join(' or ')}?` : otherwise;
  return new ToolInputError(`${path.shown} does not exist${folder}. ${hint}`);
}

interface Gap extends Pick<ResolvedPath, 'real' | 'shown'> {
  /** What is there beside what is missing. */
  readonly names: readonly string[];
}

/** The first part of the path that is not there. */
async function firstGap(path: Pick<ResolvedPath, 'real' | 'shown'>): Promise<Gap> {
  const names = await namesIn(dirname(path.real));
  const above = { real: dirname(path.real), shown: dirname(path.shown) };
  if (names || above.real === path.real || above.shown === '.') return { ...path, names: names ?? [] };
  return firstGap(above);
}

/** Null where there is no such folder; none where it may not be listed, or is a file. */
async function namesIn(folder: string): Promise<readonly string[] | null> {
  try {
    const names: string[] = [];
    for await (const { name } of await opendir(folder)) {
      names.push(name);
      if (names.length >= MAX_NAMES_COMPARED) break;
    }
    return names;
  } catch (error) {
    // `as`: the file system rejects with errno errors only.
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    if (code === 'EACCES' || code === 'ENOTDIR') return [];
    throw error;
  }
}
