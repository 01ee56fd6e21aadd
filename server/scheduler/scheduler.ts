/** Begins the runs of jobs at their times: beside any number of other processes, each time once. The face of this folder. */
import type { ProblemCode } from '../contract/api.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { watchClaims } from './lease-watch.ts';
import type { ClaimedJobRun, SchedulerRecords, StartRefusal } from './ports.ts';
import { previewTimes } from './preview.ts';
import { firstTime, nextTime, nextTimes, slotsUntil } from './slots.ts';

export type { StartRefusal } from './ports.ts';

/** When jobs run, worked out and stored nowhere. All of them throw `invalid_request` where a schedule makes no sense. */
export const schedules = {
  first: firstTime,
  next: nextTime,
  until: slotsUntil,
  times: nextTimes,
  preview: previewTimes,
};
export type Schedules = typeof schedules;

export interface Scheduler {
  /** Looks now, as somebody has just changed something. */
  wake(): void;
  /** Begins nothing more, and waits until what is being begun has begun. */
  stop(): Promise<void>;
}

export interface SchedulerOptions<Claimed extends ClaimedJobRun> {
  readonly records: SchedulerRecords<Claimed>;
  /** Begins the run, in one transaction with what is stored of the job's; answers with why it may not. Throws Problem. */
  readonly begin: (claimed: Claimed) => Promise<StartRefusal | null>;
  /** Tells a run at work here that it was asked to stop. */
  readonly wakeRun: (runId: string) => void;
  /** Whether this process takes nothing more on, since it is about to stop. */
  readonly draining: () => boolean;
  /** How many more runs this process can work on: what is above that is left to others. */
  readonly room: () => number;
  /** Names this process among all that share the database. */
  readonly owner: string;
  /** Whether a process has surely died. */
  readonly hasDied: (owner: string) => boolean;
  readonly lease: { readonly leaseMs: number; readonly renewMs: number };
  readonly now: () => Date;
  readonly log: Log;
  readonly pollMs?: number;
  readonly elapsedMs?: () => number;
}

/** Nobody minds a run that begins a second late. */
const defaultPollMs = 1000;
/** As many runs are begun at a time in one process; how many are at work is the business of the runtime. */
const mostStarting = 8;
/** As many jobs are worked out before others have their turn. */
const mostAdvanced = 200;
/** What nothing is wrong with but the moment waits so long, and a job whose times cannot be worked out. */
const pauseMs = 5000;
/** What waits for others to end is looked at less often, the longer it waits. */
const longestPauseMs = 30_000;

export function startScheduler<Claimed extends ClaimedJobRun>(options: SchedulerOptions<Claimed>): Scheduler {
  const { records, owner, log, pollMs = defaultPollMs, elapsedMs = () => performance.now() } = options;
  const starting = new Map<string, Promise<void>>();
  /** Jobs that something is wrong with, and until when they are left alone: those behind them have their turn. */
  const setAside = new Map<string, number>();
  let stopped = false;
  let looking: Promise<void> | null = null;
  let again = false;

  const stopOverdue = async (): Promise<void> => {
    for (const runId of await records.stopOverdue()) options.wakeRun(runId);
  };
  const advanceDue = async (): Promise<void> => {
    for (const [id, until] of setAside) if (until <= elapsedMs()) setAside.delete(id);
    for (const jobId of await records.due(mostAdvanced, [...setAside.keys()])) {
      if (stopped) return;
      await records.advance(jobId, slotsUntil, nextTime).catch((error: unknown) => {
        setAside.set(jobId, elapsedMs() + pauseMs);
        log.error({ err: error, job_id: jobId }, 'the times of a job could not be worked out');
      });
    }
  };
  const beginWaiting = async (): Promise<void> => {
    while (!stopped && !options.draining() && starting.size < Math.min(mostStarting, options.room())) {
      const claimed = await records.claim(owner);
      if (!claimed) return;
      begin(claimed);
    }
  };
  /** Each for itself: the jobs of everybody pass through here, and what is wrong with one is no matter of the others. */
  const look = async (): Promise<void> => {
    for (const step of [stopOverdue, advanceDue, beginWaiting])
      await step().catch((error: unknown) => {
        log.error({ err: error }, 'what is due could not be looked for; it is tried again');
      });
  };
  const begin = (claimed: Claimed): void => {
    const beginning = beginRun(claimed, options).finally(() => {
      starting.delete(claimed.id);
      wake();
    });
    starting.set(claimed.id, beginning);
  };
  const wake = (): void => {
    if (stopped) return;
    again = true;
    looking ??= (async () => {
      while (again && !stopped) {
        again = false;
        await look();
      }
      looking = null;
    })();
  };
  const watch = watchClaims({ ...options, starting: () => [...starting.keys()], freed: wake });
  const polling = setInterval(wake, pollMs);
  polling.unref();
  wake();
  return {
    wake,
    async stop() {
      stopped = true;
      clearInterval(polling);
      await looking;
      await Promise.all(starting.values());
      await watch.stop();
    },
  };
}

async function beginRun<Claimed extends ClaimedJobRun>(
  claimed: Claimed,
  options: SchedulerOptions<Claimed>,
): Promise<void> {
  const { records, log } = options;
  try {
    const reason = await options.begin(claimed);
    if (reason) await records.refuse(claimed, reason);
  } catch (error) {
    await settle(claimed, error, options).catch((failure: unknown) => {
      if (isLost(failure)) return tellLost(claimed, log);
      log.error({ err: failure, ...about(claimed) }, 'it is not stored what became of a run of a job');
    });
  }
}

async function settle<Claimed extends ClaimedJobRun>(
  claimed: Claimed,
  error: unknown,
  { records, now, log }: SchedulerOptions<Claimed>,
): Promise<void> {
  if (isLost(error)) return tellLost(claimed, log);
  if (!(error instanceof Problem)) {
    log.error({ err: error, ...about(claimed) }, 'a run of a job could not begin');
    return records.fail(claimed, internal);
  }
  if (isPassing(error)) {
    const waitMs = Math.min(longestPauseMs, pauseMs * 2 ** Math.max(0, claimed.claims - 1));
    return records.giveBack(claimed, new Date(now().getTime() + waitMs));
  }
  log.info({ ...about(claimed), code: error.code }, 'a run of a job could not begin');
  return records.fail(claimed, { code: error.code, message: error.message });
}

const passing: readonly ProblemCode[] = ['draining', 'overloaded', 'queue_full', 'database_unavailable'];

/** Nothing is wrong with the run but the moment: other runs of the same people are in its way. None is where none may run. */
function isPassing({ code, quota }: Problem): boolean {
  return passing.includes(code) || (quota?.resource === 'concurrent_runs' && quota.hard !== 0);
}

const internal = {
  code: 'internal_error',
  message: 'An internal error kept the run from beginning; the log of the server has it.',
} as const;

function about({ id, jobId }: ClaimedJobRun) {
  return { job_run_id: id, job_id: jobId };
}

/** Another process has it, or somebody has cancelled it. */
function tellLost(claimed: ClaimedJobRun, log: Log): void {
  log.info(about(claimed), 'a run of a job belongs to another process by now');
}

function isLost(error: unknown): boolean {
  return error instanceof Error && error.name === 'LeaseLost';
}
