/** The places of a workspace that the settings of its repository send git to: what stands there git obeys, as if in `.git`. */
import { realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { repositoryOf } from './git-folder.ts';
import { settingsIn } from './git-settings.ts';
import { isWithin, realPlace } from './inside.ts';
import { largestSettings, longestPointer, smallText } from './small-file.ts';

/** Where git looks, be anything there or not. */
export interface NamedPlace {
  readonly path: string;
  readonly isFolder: boolean;
}

/**
 * Folders of hooks (`core.hooksPath`, as husky sets it) and files of further settings (`include.path`); null where the
 * settings cannot be read. What a person's own settings name is not looked at.
 */
export function placesNamedByGit(workspacePath: string): readonly NamedPlace[] | null {
  const workspace = realpathSync(workspacePath);
  const git = foundFrom(workspace);
  if (git === null) return [];
  const top = basename(git) === '.git' ? dirname(git) : workspace;
  const all = settingsOf(git).map((file) => namedIn(file, top));
  if (all.includes(null)) return null;
  return all
    .flatMap((named) => (named ?? []).flatMap(withRealPlace))
    .filter(({ path }) => isWithin(path, workspace));
}

/** Whether git obeys what lies there since its settings name it, or could, as nobody can read them. */
export function isNamedByGit(path: string, workspacePath: string): boolean {
  const file = resolve(realpathSync(workspacePath), path);
  return placesNamedByGit(workspacePath)?.some((place) => isWithin(file, place.path)) ?? true;
}

function foundFrom(workspace: string): string | null {
  try {
    return repositoryOf(workspace, workspace);
  } catch {
    // A pointer that leads nowhere leads git nowhere, too.
    return null;
  }
}

/** A link on the way there is obeyed as well as what it leads to. */
function withRealPlace(named: NamedPlace): readonly NamedPlace[] {
  const isThere = statSync(named.path, { throwIfNoEntry: false }) !== undefined;
  const real = isThere ? realPlace(named.path) : named.path;
  return real === named.path ? [named] : [named, { ...named, path: real }];
}

function settingsOf(git: string): readonly string[] {
  const common = statSync(join(git, 'commondir'), { throwIfNoEntry: false })
    ? resolve(git, (smallText(join(git, 'commondir'), longestPointer) ?? '').trim())
    : git;
  const files = [...new Set([git, common])].flatMap((folder) => [
    join(folder, 'config'),
    join(folder, 'config.worktree'),
  ]);
  return files.filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
}

/** Null where the settings cannot be read. */
function namedIn(file: string, top: string): readonly NamedPlace[] | null {
  const text = smallText(file, largestSettings);
  if (text === null) return null;
  return settingsIn(text).flatMap(({ name, value }): readonly NamedPlace[] => {
    const isFolder = name === 'core.hookspath';
    if (!isFolder && !/^include(if)?\.path$/.test(name)) return [];
    // `%(prefix)` is where git is installed.
    if (value === '' || value.startsWith('%(')) return [];
    const path = value.startsWith('~/')
      ? join(homedir(), value.slice(2))
      : resolve(isFolder ? top : dirname(file), value);
    // The scripts of husky only start those that people write in the folder above.
    return [{ path: isFolder && basename(path) === '_' ? dirname(path) : path, isFolder }];
  });
}
