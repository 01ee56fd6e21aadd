// Runs a search job in a thread, and ends the thread when time is up or the run is interrupted.
import type { Worker } from 'node:worker_threads';
import { createThreads } from './kept-threads.ts';
import type { LineMatch, RipgrepRules, SearchJob, SearchMessage, WalkEntry } from './search-job.ts';
import { ToolInputError } from './tool.ts';

/** What a job found, complete or not. */
export interface SearchResult {
  readonly entries: readonly WalkEntry[];
  readonly paths: readonly string[];
  readonly matches: readonly LineMatch[];
  /** Null where ripgrep cannot be told them, or was not asked for. */
  readonly rules: RipgrepRules | null;
  /** More was there than the job may return. */
  readonly truncated: boolean;
  readonly timedOut: boolean;
}

const MAX_HEAP_MB = 512;

/** Runs the job; what was found before the time was up is kept. */
export async function search(job: SearchJob, timeoutMs: number, signal: AbortSignal): Promise<SearchResult> {
  signal.throwIfAborted();
  const entries: WalkEntry[] = [];
  const paths: string[] = [];
  const matches: LineMatch[] = [];
  let rules: RipgrepRules | null = null;
  const end = await threads.use({ workspacePath: job.scope.workspace, signal }, async (thread) => {
    const result = await runJob(thread, job, timeoutMs, signal, (message) => {
      if (message.type === 'entries') entries.push(...message.entries);
      if (message.type === 'paths') paths.push(...message.paths);
      if (message.type === 'matches') matches.push(...message.matches);
      if (message.type === 'rules') rules = message.rules;
    });
    return { result, reusable: 'refused' in result || !result.timedOut };
  });
  if ('refused' in end) throw new ToolInputError(end.refused);
  return { entries, paths, matches, rules, ...end };
}

/** How a job came to its end. */
type End = { readonly truncated: boolean; readonly timedOut: boolean } | { readonly refused: string };

const threads = createThreads({
  program: new URL('./search-thread.ts', import.meta.url),
  doing: 'searches',
  maxHeapMb: MAX_HEAP_MB,
});

/** How many searches wait for a thread in this process, and how many may. */
export const searchQueue = threads.queue;

/** The listeners are taken off again: the thread goes on to the next job. */
async function runJob(
  thread: Worker,
  job: SearchJob,
  timeoutMs: number,
  signal: AbortSignal,
  onMessage: (message: SearchMessage) => void,
): Promise<End> {
  // It may have been interrupted while it waited for its thread.
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<End>();
  const onAbort = () => reject(signal.reason);
  const onError = (error: NodeJS.ErrnoException) => reject(threadError(error));
  const onAnswer = (message: SearchMessage) => {
    onMessage(message);
    if (message.type === 'end') resolve({ truncated: message.truncated, timedOut: false });
    if (message.type === 'refused') resolve({ refused: message.reason });
  };
  const timer = setTimeout(() => resolve({ truncated: false, timedOut: true }), timeoutMs);
  signal.addEventListener('abort', onAbort, { once: true });
  thread.on('message', onAnswer).on('error', onError);
  thread.postMessage(job);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    thread.off('message', onAnswer).off('error', onError);
  }
}

function threadError(error: NodeJS.ErrnoException): Error {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return error;
  return new ToolInputError('The search needed too much memory. Use a simpler pattern or a smaller folder.');
}
