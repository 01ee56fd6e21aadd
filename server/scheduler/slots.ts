/** Which times of a job have come, which of them were missed, and which is next: worked out alike by every process. */
import { createHash } from 'node:crypto';
import type { Job } from '../contract/api.ts';
import { acceptedSchedule, type Schedule, type ScheduleTerms, scheduleOf } from './schedule.ts';

/** What of a job says when it runs; times are milliseconds since 1970. */
export interface TimedJob extends ScheduleTerms {
  readonly id: string;
  readonly jitter_s: number;
  readonly misfire_policy: Job['misfire_policy'];
  readonly ends_at: number | null;
  readonly max_runs: number | null;
  readonly runs_begun: number;
}

/** A time of a job, and that time with jitter. */
export interface JobTime {
  readonly at: number;
  readonly dueAt: number;
}

/** A time that has come. */
export interface Slot extends JobTime {
  /** For how many missed times before it it stands as well. */
  readonly missed: number;
  /** `catch_up` runs whatever else of the job waits: it was missed together with others. */
  readonly fate: 'run' | 'catch_up' | 'misfire';
}

export interface Slots {
  readonly due: readonly Slot[];
  /** Null where the job has no times left. */
  readonly next: JobTime | null;
}

/** What comes later than this was missed: a server that is merely busy is not that late. */
const graceMs = 60_000;
/** Of the missed times of `run_all`, the last so many run. */
const mostCaughtUp = 50;
/** Missed times are counted so far. */
const mostCounted = 200;

/** The first time after the given one. Throws `invalid_request` where the schedule makes no sense. */
export function nextTime(job: TimedJob, after: number): JobTime | null {
  return timeAfter(job, scheduleOf(job), after);
}

/** As `nextTime`, of a schedule that somebody asks for: what was accepted once goes on as it was. */
export function firstTime(job: TimedJob, after: number): JobTime | null {
  return timeAfter(job, acceptedSchedule(job), after);
}

/** The next times, at most so many. */
export function nextTimes(job: TimedJob, after: number, most: number): number[] {
  const schedule = scheduleOf(job);
  const left = job.max_runs === null ? most : Math.min(most, job.max_runs - job.runs_begun);
  const times: number[] = [];
  for (let time = timeAfter(job, schedule, after); time && times.length < left; ) {
    times.push(time.at);
    time = timeAfter(job, schedule, time.at);
  }
  return times;
}

/** What has become due of an active job whose next time is `nextAt`. */
export function slotsUntil(job: TimedJob, nextAt: number, now: number): Slots {
  const schedule = scheduleOf(job);
  const { times, lateUntil } = timesOnTime(job, schedule, nextAt, now);
  const due = [...caughtUp(job, lateTimes(job, schedule, nextAt, lateUntil)), ...times.map(onTime)];
  const left = job.max_runs === null ? Number.POSITIVE_INFINITY : job.max_runs - job.runs_begun;
  const kept = withinRuns(due, left);
  const begun = kept.filter(({ fate }) => fate !== 'misfire').length;
  const last = due.at(-1);
  if (begun >= left) return { due: kept, next: null };
  return { due: kept, next: last ? timeAfter(job, schedule, last.at) : withJitter(job, nextAt) };
}

function onTime(time: JobTime): Slot {
  return { ...time, missed: 0, fate: 'run' };
}

function caughtUp({ misfire_policy }: TimedJob, { late, uncounted }: LateTimes): Slot[] {
  const last = late.at(-1);
  if (!last) return [];
  const before = (count: number) => (uncounted ? mostCounted : Math.min(count, mostCounted));
  if (misfire_policy === 'skip') return [{ ...last, missed: before(late.length - 1), fate: 'misfire' }];
  if (misfire_policy === 'run_once') return [{ ...last, missed: before(late.length - 1), fate: 'catch_up' }];
  const run = late.slice(-mostCaughtUp);
  const left = late.length - run.length;
  return run.map((time, index) => ({
    ...time,
    missed: index === 0 && (left > 0 || uncounted) ? before(left) : 0,
    fate: 'catch_up',
  }));
}

function withinRuns(slots: readonly Slot[], left: number): Slot[] {
  let begun = 0;
  return slots.filter(({ fate }) => {
    if (fate === 'misfire') return true;
    begun += 1;
    return begun <= left;
  });
}

interface TimesOnTime {
  readonly times: readonly JobTime[];
  /** Those through this moment are late. */
  readonly lateUntil: number;
}

/**
 * A time with jitter holds up those behind it, which are not late for that: the late ones are those in front of the first
 * that is not. What lies further back than jitter and grace is late, whatever its jitter.
 */
function timesOnTime(job: TimedJob, schedule: Schedule, nextAt: number, now: number): TimesOnTime {
  const from = Math.max(nextAt, now - graceMs - job.jitter_s * 1000) - 1;
  const recent = collect(job, schedule, from, now);
  const first = recent.findIndex(({ dueAt }) => dueAt >= now - graceMs);
  const waiting = recent.findIndex(({ dueAt }) => dueAt > now);
  const firstAt = recent[first]?.at;
  if (firstAt === undefined) return { times: [], lateUntil: now };
  return { times: recent.slice(first, waiting === -1 ? undefined : waiting), lateUntil: firstAt - 1 };
}

interface LateTimes {
  readonly late: readonly JobTime[];
  /** Whether there were so many that those in front were not looked at. */
  readonly uncounted: boolean;
}

/** In order; of very many, the last. */
function lateTimes(job: TimedJob, schedule: Schedule, nextAt: number, until: number): LateTimes {
  const late = collect(job, schedule, nextAt - 1, until, mostCounted);
  if (late.length < mostCounted) return { late, uncounted: false };
  return { late: lastTimes(job, schedule, nextAt, until), uncounted: true };
}

function collect(
  job: TimedJob,
  schedule: Schedule,
  after: number,
  until: number,
  most = Number.POSITIVE_INFINITY,
): JobTime[] {
  const found: JobTime[] = [];
  for (let time = timeAfter(job, schedule, after); time && time.at <= until && found.length < most; ) {
    found.push(time);
    time = timeAfter(job, schedule, time.at);
  }
  return found;
}

/**
 * Looks back, further each time, until there are enough; where a pattern has breaks, one step may lead from too few to too
 * many, and the bound is looked for between. The times between are too many to be walked.
 */
function lastTimes(job: TimedJob, schedule: Schedule, nextAt: number, through: number): JobTime[] {
  const until = Math.min(through, job.ends_at ?? through);
  const enough = 2 * mostCaughtUp;
  let tooLate = until;
  let tooEarly: number | null = null;
  for (let from = until - graceMs; ; ) {
    from = Math.max(nextAt - 1, from);
    const found = collect(job, schedule, from, until, mostCounted);
    // Those that a full list leaves out are the very last.
    if (found.length >= mostCounted) tooEarly = from;
    else if (found.length >= enough || from < nextAt) return found;
    else tooLate = from;
    from = tooEarly === null ? until - 2 * (until - from) : Math.floor((tooEarly + tooLate) / 2);
  }
}

function timeAfter(job: TimedJob, schedule: Schedule, after: number): JobTime | null {
  if (job.max_runs !== null && job.runs_begun >= job.max_runs) return null;
  const at = schedule.after(after);
  if (at === null || (job.ends_at !== null && at > job.ends_at)) return null;
  return withJitter(job, at);
}

/** The same whoever works it out, and spread over all jobs and times. */
function withJitter({ id, jitter_s }: TimedJob, at: number): JobTime {
  if (jitter_s === 0) return { at, dueAt: at };
  const hash = createHash('sha256').update(`${id} ${at}`).digest().readUInt32BE();
  return { at, dueAt: at + (hash % (jitter_s * 1000 + 1)) };
}
