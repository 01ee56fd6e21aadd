// What the tools ask of the search thread, and what it answers.

/** The folder to walk. */
export interface WalkScope {
  /** Real path of the folder (or single file) that is searched. */
  readonly start: string;
  /** Real path of the workspace, or of the folder that is searched where that lies elsewhere. */
  readonly base: string;
  /** Real path of the folder whose ignore files count from: the root of the repository, or the base. `start` lies in it. */
  readonly top: string;
  /** Real path of the workspace that is searched for, also where it lies elsewhere. */
  readonly workspace: string;
}

/** One piece of work for the search thread. */
export type SearchJob =
  | {
      readonly kind: 'list';
      readonly scope: WalkScope;
      readonly maxDepth: number;
      readonly maxItems: number;
      readonly ignore: readonly string[];
    }
  | {
      readonly kind: 'glob';
      readonly scope: WalkScope;
      readonly pattern: string;
      readonly maxResults: number;
    }
  | {
      readonly kind: 'grep';
      readonly scope: WalkScope;
      readonly pattern: string;
      readonly literal: boolean;
      readonly include: string | null;
      readonly maxResults: number;
    }
  | {
      /** Of files that another program has found, those that these searches would have come to. */
      readonly kind: 'visible';
      readonly scope: WalkScope;
      readonly paths: readonly string[];
      readonly include: string | null;
    }
  | {
      /** What ripgrep has to be told of ignore files. */
      readonly kind: 'rules';
      readonly scope: WalkScope;
    };

export interface RipgrepRules {
  /** Real path of the folder whose ignore files count from, after all; rules with a slash mean paths from there. */
  readonly top: string;
  /** The ignore files that it gets by name, the farthest first; none where they leave out the start itself. */
  readonly ignoreFiles: readonly string[];
}

/** The largest file that is searched. */
export const MAX_SEARCHED_BYTES = 20 * 1024 * 1024;

/** An entry of a walk, relative to the scope's start. */
export interface WalkEntry {
  readonly path: string;
  readonly depth: number;
  readonly type: 'file' | 'folder' | 'link' | 'other';
}

/** A line that matched, in a file named relative to the scope's start. */
export interface LineMatch {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

/** What the search thread posts: results as they come, then one `end`, or a `refused` pattern. */
export type SearchMessage =
  | { readonly type: 'entries'; readonly entries: readonly WalkEntry[] }
  | { readonly type: 'paths'; readonly paths: readonly string[] }
  | { readonly type: 'rules'; readonly rules: RipgrepRules | null }
  | { readonly type: 'matches'; readonly matches: readonly LineMatch[] }
  | { readonly type: 'end'; readonly truncated: boolean }
  | { readonly type: 'refused'; readonly reason: string };

/** Longer lines are cut, so that one minified file does not fill the answer. */
export const MAX_MATCH_LENGTH = 500;
