/** A file that is to be put back to what it held before. */
import type { Stats } from 'node:fs';
import type { ResolvedPath } from '../tools/workspace-path.ts';

/** A file, and what it is to hold again. */
export interface FileToPutBack {
  /** Relative to the workspace inside it, absolute outside. */
  readonly path: string;
  /** Hashes of what it may hold now, null for no file: in anything else is somebody else's work. */
  readonly known: readonly (string | null)[];
  /** The hash of what it is to hold; null where the file is to go. */
  readonly target: string | null;
  /** The permission bits of a file that is to come back. */
  readonly mode: number | null;
  /** The content; null where it was never kept. */
  readonly read: () => Promise<Uint8Array | null>;
}

/** A file that is about to be put back. */
export interface PendingFile {
  readonly path: ResolvedPath;
  readonly file: FileToPutBack;
  /** As it was checked; null where there is none. */
  readonly stats: Stats | null;
  readonly present: string | null;
}
