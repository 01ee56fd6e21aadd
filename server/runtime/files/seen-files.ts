/** What a session has seen of files: known to its runs in this process, and stored with their steps for those in others. */
import type { FileMemory, FileVersion } from '../tools/tool.ts';
import type { SeenFile, Transcript } from '../transcript.ts';

/** The memory of a run, which knows what of it is not stored yet. */
export interface SeenFiles extends FileMemory {
  /** What was seen since this was last asked. */
  news(): readonly SeenFile[];
  /** Takes up what other processes, or this one in an earlier life, have stored. */
  load(transcript: Transcript, sessionId: string): Promise<void>;
}

/** Of a new session nothing is stored. */
export function seenFiles(memory: FileMemory, isNew = false): SeenFiles {
  const fresh = new Map<string, FileVersion | null>();
  return {
    recall: (path) => memory.recall(path),
    paths: () => memory.paths(),
    forget(path) {
      memory.forget(path);
      fresh.set(path, null);
    },
    remember(path, version) {
      memory.remember(path, version);
      fresh.set(path, version);
    },
    news() {
      const news = [...fresh].map(([path, version]) => ({ path, version }));
      fresh.clear();
      return news;
    },
    async load(transcript, sessionId) {
      if (isNew) return;
      // One run follows the other, here or elsewhere: what is stored is never older. The rest keeps its order.
      for (const { path, version } of await transcript.readSeenFiles(sessionId))
        if (version && version.sha256 !== memory.recall(path)?.sha256) memory.remember(path, version);
    },
  };
}
