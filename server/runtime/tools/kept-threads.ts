// Threads that do one job after the other: starting one costs many times what an ordinary search or page costs.
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { ToolInputError } from './tool.ts';
import { createTurns } from './turns.ts';

/** What a job gave; a thread that is to be ended has not come to its end, or may hold too much. */
export interface ThreadWork<Result> {
  readonly result: Result;
  readonly reusable: boolean;
}

export interface ThreadsOptions {
  readonly program: URL;
  /** What the server does with them, as somebody is told for whom there is no place left: `searches`. */
  readonly doing: string;
  readonly maxHeapMb: number;
  /** At work at once, half of them for one workspace; what comes then waits. */
  readonly most?: number;
  /** How many jobs may wait; one more is refused. */
  readonly mostWaiting?: number;
  /** How long a thread is kept that nobody needs. */
  readonly idleMs?: number;
}

export interface KeptThreads {
  /**
   * Does the work on a thread that nobody else uses meanwhile. The thread is ended unless the work says that it can be
   * used again: only ending it stops a regular expression.
   */
  use<Result>(asker: ThreadAsker, work: (thread: Worker) => Promise<ThreadWork<Result>>): Promise<Result>;
  counts(): ThreadCounts;
  /** How many jobs wait, and how many may. */
  queue(): { readonly waiting: number; readonly limit: number };
}

/** Who wants a thread: workspaces take turns. */
export interface ThreadAsker {
  readonly workspacePath: string;
  readonly signal: AbortSignal;
}

export interface ThreadCounts {
  readonly atWork: number;
  readonly idle: number;
  readonly waiting: number;
}

interface Idle {
  readonly thread: Worker;
  readonly timer: NodeJS.Timeout;
}

/** Some more than processors: a thread often waits for the disk, and one bad pattern may hold one for half a minute. */
const mostThreads = Math.max(4, 2 * availableParallelism());

export function createThreads({
  program,
  doing,
  maxHeapMb,
  most = mostThreads,
  mostWaiting = 500,
  idleMs = 10_000,
}: ThreadsOptions): KeptThreads {
  const idle: Idle[] = [];
  const turns = createTurns({
    ...{ most, mostWaiting },
    refusal: () =>
      new ToolInputError(`This server ${doing} for many others right now. Try again in a moment.`),
  });

  const drop = (thread: Worker): void => {
    const at = idle.findIndex((one) => one.thread === thread);
    if (at >= 0) clearTimeout(idle.splice(at, 1)[0]?.timer);
  };

  const start = (): Worker => {
    // No environment and no flags of the server: the thread needs neither.
    const thread = new Worker(program, {
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
    });
    thread.once('exit', () => drop(thread));
    // Whoever uses the thread hears of its errors too; of one that is idle nobody needs to.
    thread.on('error', () => drop(thread));
    return thread;
  };

  const take = (): Worker => {
    const kept = idle.pop();
    if (!kept) return start();
    clearTimeout(kept.timer);
    kept.thread.ref();
    return kept.thread;
  };

  const keep = (thread: Worker): void => {
    // A process that has nothing else to do ends.
    thread.unref();
    const timer = setTimeout(() => {
      drop(thread);
      void thread.terminate();
    }, idleMs).unref();
    idle.push({ thread, timer });
  };

  return {
    async use({ workspacePath, signal }, work) {
      await turns.take(workspacePath, signal);
      try {
        const thread = take();
        let reusable = false;
        try {
          const done = await work(thread);
          ({ reusable } = done);
          return done.result;
        } finally {
          if (reusable) keep(thread);
          else await thread.terminate();
        }
      } finally {
        turns.leave(workspacePath);
      }
    },
    counts: () => ({ ...turns.counts(), idle: idle.length }),
    queue: () => ({ waiting: turns.counts().waiting, limit: mostWaiting }),
  };
}
