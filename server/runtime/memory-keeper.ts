/** What the runtime asks of whoever keeps memories: rights, owners and ranking are the keeper's. */
import type { Memory, MemorySearch, MemorySearchResult } from '../contract/api.ts';

/** A run, or one that might begin. */
export interface RememberingRun {
  readonly runId: string;
  readonly userId: string;
  readonly workspaceId: string;
  readonly sessionId: string;
  readonly agentSlug: string;
  /** The key that asks, where no run is stored that says so. */
  readonly apiKeyId?: string | undefined;
}

export type RecalledMemory = Pick<Memory, 'id' | 'scope' | 'kind' | 'content'>;

/** What an agent wants to be known later. */
export type AgentMemory = Pick<Memory, 'scope' | 'kind' | 'content' | 'tags'>;

export type AgentSearch = Pick<MemorySearch, 'query' | 'scopes' | 'top_k'>;

export interface MemoryKeeper {
  /** Whether the person wants agents to remember. */
  isWanted(run: RememberingRun): Promise<boolean>;
  /**
   * What may matter to the prompt, the most important first; nothing where the person wants none. By `words` no
   * model is asked, which would cost something and store vectors.
   */
  recall(
    run: RememberingRun,
    prompt: string,
    by: 'words' | 'words_and_meaning',
  ): Promise<readonly RecalledMemory[]>;
  /** Throws Problem where the run may not, or where there is one like it. */
  save(run: RememberingRun, memory: AgentMemory): Promise<Memory>;
  /** Throws Problem where the run may not. */
  search(run: RememberingRun, search: AgentSearch, signal: AbortSignal): Promise<MemorySearchResult>;
}

/** The memories of one run. */
export interface MemoriesOfRun {
  isWanted(): Promise<boolean>;
  /** Looked for once: what a run is told does not change under it. */
  recalled(): Promise<readonly RecalledMemory[]>;
  /** For what only might begin. */
  recalledByWords(): Promise<readonly RecalledMemory[]>;
  save(memory: AgentMemory): Promise<Memory>;
  search(search: AgentSearch, signal: AbortSignal): Promise<MemorySearchResult>;
}

export function memoriesOf(
  keeper: MemoryKeeper,
  run: RememberingRun,
  prompt: () => Promise<string>,
): MemoriesOfRun {
  let recalled: Promise<readonly RecalledMemory[]> | undefined;
  const recall = async () => keeper.recall(run, await prompt(), 'words_and_meaning');
  return {
    isWanted: () => keeper.isWanted(run),
    recalled() {
      recalled ??= recall();
      return recalled;
    },
    recalledByWords: async () => keeper.recall(run, await prompt(), 'words'),
    save: (memory) => keeper.save(run, memory),
    search: (search, signal) => keeper.search(run, search, signal),
  };
}
