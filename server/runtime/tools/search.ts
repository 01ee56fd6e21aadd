// Runs a search job in its thread and ends the thread when time is up or the run is interrupted.
import { Worker } from 'node:worker_threads';
import type { LineMatch, SearchJob, SearchMessage, WalkEntry } from './search-job.ts';
import { ToolInputError } from './tool.ts';

/** What a job found, complete or not. */
export interface SearchResult {
  readonly entries: readonly WalkEntry[];
  readonly paths: readonly string[];
  readonly matches: readonly LineMatch[];
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
  const end = await runThread(job, timeoutMs, signal, (message) => {
    if (message.type === 'entries') entries.push(...message.entries);
    if (message.type === 'paths') paths.push(...message.paths);
    if (message.type === 'matches') matches.push(...message.matches);
  });
  return { entries, paths, matches, ...end };
}

interface End {
  readonly truncated: boolean;
  readonly timedOut: boolean;
}

async function runThread(
  job: SearchJob,
  timeoutMs: number,
  signal: AbortSignal,
  onMessage: (message: SearchMessage) => void,
): Promise<End> {
  // No environment and no flags of the server: the thread needs neither.
  const thread = new Worker(new URL('./search-thread.ts', import.meta.url), {
    workerData: job,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  });
  const { promise, resolve, reject } = Promise.withResolvers<End>();
  const timer = setTimeout(() => resolve({ truncated: false, timedOut: true }), timeoutMs);
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  thread.on('message', (message: SearchMessage) => {
    onMessage(message);
    if (message.type === 'end') resolve({ truncated: message.truncated, timedOut: false });
    if (message.type === 'refused') reject(new ToolInputError(message.reason));
  });
  thread.on('error', (error: NodeJS.ErrnoException) => reject(threadError(error)));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    await thread.terminate();
  }
}

function threadError(error: NodeJS.ErrnoException): Error {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return error;
  return new ToolInputError('The search needed too much memory. Use a simpler pattern or a smaller folder.');
}
