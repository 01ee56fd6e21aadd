// What tools write while commands are at work: no command is said to have changed what a tool of any session has.
import type { FileChange } from './tool.ts';

/** Real paths, with what was written there last; null where a file was removed. */
export type WritesMeanwhile = Map<string, FileChange['after']>;

const watching = new Set<WritesMeanwhile>();

/** Does the work, with what tools of this process write while it lasts. */
export async function watchingWrites<T>(work: (writes: WritesMeanwhile) => Promise<T>): Promise<T> {
  const writes: WritesMeanwhile = new Map();
  watching.add(writes);
  try {
    return await work(writes);
  } finally {
    watching.delete(writes);
  }
}

/** To be told before the file has its new content: whoever sees that must know of it. */
export function noteWrite(path: string, after: FileChange['after']): void {
  for (const writes of watching) writes.set(path, after);
}
