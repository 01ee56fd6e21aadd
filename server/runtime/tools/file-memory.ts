// Remembers, within one process, which version of each file a session has seen.
import { createHash } from 'node:crypto';
import type { FileMemory, FileVersion } from './tool.ts';

/** An empty memory for one session. */
export function createFileMemory(): FileMemory {
  const versions = new Map<string, FileVersion>();
  return {
    recall: (path) => versions.get(path),
    remember: (path, version) => {
      // Set anew, so that the newest is the last.
      versions.delete(path);
      versions.set(path, version);
    },
    forget: (path) => {
      versions.delete(path);
    },
    paths: () => [...versions.keys()].reverse(),
  };
}

/** Hex SHA-256 of a file's content. */
export function contentHash(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}
