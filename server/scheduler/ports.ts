/** What the scheduler needs of the rest of the server. */
import type { JobPauseReason, RunError } from '../contract/api.ts';
import type { JobTime, Slots, TimedJob } from './slots.ts';

/** A run that this process is about to begin. */
export interface ClaimedJobRun {
  readonly id: string;
  readonly jobId: string;
  /** Counts up with each process that takes it. */
  readonly claims: number;
}

/** Why a run may not begin. */
export type StartRefusal = Exclude<JobPauseReason, 'requested' | 'owner_changed'>;

/** A run that some process is about to begin: that one is alive as long as the number grows. */
export interface SeenClaim {
  readonly id: string;
  readonly worker: string;
  readonly claims: number;
  readonly renewals: number;
}

/** Whatever is done for a run that is the process's no more throws an error named `LeaseLost`. */
export interface SchedulerRecords<Claimed extends ClaimedJobRun> {
  /** The jobs of which something has become due, the longest due first, at most so many; without these. */
  due(most: number, without: readonly string[]): Promise<readonly string[]>;
  /** Stores what has become due of this job, unless another process does or has. */
  advance(
    jobId: string,
    slotsUntil: (job: TimedJob, nextAt: number, now: number) => Slots,
    timing: (job: TimedJob, after: number) => JobTime | null,
  ): Promise<void>;
  /** Asks runs to stop that take too long; answers with them. */
  stopOverdue(): Promise<readonly string[]>;
  /** The run that has waited longest and that nothing holds up; null where there is none. */
  claim(worker: string): Promise<Claimed | null>;
  /** It could not begin; it is tried again, if its job says so. */
  fail(claimed: Claimed, error: RunError): Promise<void>;
  /** It may not begin: its job is paused. */
  refuse(claimed: Claimed, reason: StartRefusal): Promise<void>;
  /** Nothing is wrong with it but the moment. */
  giveBack(claimed: Claimed, again: Date): Promise<void>;
  renew(worker: string, ids: readonly string[]): Promise<void>;
  claims(): Promise<readonly SeenClaim[]>;
  /** Frees it, unless its process has shown itself since. */
  bury(seen: SeenClaim): Promise<boolean>;
}
