/** A place where words for the agent may lie, whose they are, and how far links in it may lead. */
import type { ExtensionState } from '../extension.ts';
import { guidancePath } from './guidance-file.ts';
import { liesWithin } from './project-folders.ts';

export interface GuidancePlace {
  readonly path: string;
  /** Where the real path of what lies there has to be; null for what the person or the operator has put there. */
  readonly within: string | null;
  readonly source: GuidanceSource;
}

export type GuidanceSource = NonNullable<ExtensionState['source']>;

/** A file or folder of the person or the operator. */
export function personalPlace(path: string): GuidancePlace {
  return { path, within: null, source: 'user' };
}

/** Something below the root of the project. */
export function projectPlace(path: string, root: string): GuidancePlace {
  return { path, within: root, source: 'project' };
}

/** A path that the settings name. Who names a folder of the project has not seen what the links in it lead to. */
export function namedPlace(given: string, workspacePath: string, root: string): GuidancePlace {
  const path = guidancePath(given, workspacePath);
  return liesWithin(root, path) ? projectPlace(path, root) : personalPlace(path);
}
