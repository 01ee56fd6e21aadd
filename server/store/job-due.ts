/** The times of a job that have come: each is stored as one row, by whoever comes upon it. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { insertJobRun, type NewJobRun } from './job-queue.ts';
import type { JobRow, JobRunRow } from './job-rows.ts';

interface JobTime {
  readonly at: number;
  readonly dueAt: number;
}

/** Works out the first time after the given one; null where there is none. Throws `invalid_request`. */
export type Timing = (job: JobRow, after: number) => JobTime | null;

interface Slot extends JobTime, Pick<NewJobRun, 'missed' | 'fate'> {}

/** Works out what has become due of a job, and its next time. */
export type SlotsUntil = (
  job: JobRow,
  nextAt: number,
  now: number,
) => { readonly due: readonly Slot[]; readonly next: JobTime | null };

/** The job is held. Answers with how many runs of it are begun then: what is skipped as it is stored is none. */
export async function storeDue(
  sql: Knex.Transaction,
  job: JobRow,
  due: readonly Slot[],
  now: number,
): Promise<number> {
  const stored = await storedMoments(sql, job, due);
  let begun = job.runs_begun;
  for (const { at, dueAt, missed, fate } of due) {
    const given = { occurrence: at, dueAt, trigger: 'schedule', missed, fate } as const;
    const row = stored.has(at) ? null : await insertJobRun(sql, job, given, now);
    if (fate !== 'misfire' && (row?.reason ?? null) === null) begun += 1;
  }
  return begun;
}

/** The time after what was due: where some of it was skipped, more runs are left than were counted on. */
export function timeAfterDue(
  job: JobRow,
  { due, next }: ReturnType<SlotsUntil>,
  timing: Timing,
): JobTime | null {
  const last = due.at(-1);
  return next ?? (last ? timing(job, last.at) : null);
}

/**
 * Stores what a job that is about to get another schedule has to do by the one that it has: what is due, and the times
 * that have come and wait for their jitter. Answers as `storeDue`.
 */
export async function storeCome(
  sql: Knex.Transaction,
  job: JobRow,
  { timing, slotsUntil }: { readonly timing: Timing; readonly slotsUntil: SlotsUntil },
  now: number,
): Promise<number> {
  if (job.next_at === null || job.next_at > now) return job.runs_begun;
  const slots = unlessBroken(() => slotsUntil(job, Number(job.next_at), now));
  if (!slots) return job.runs_begun;
  let runs_begun = await storeDue(sql, job, slots.due, now);
  let time = timeAfterDue({ ...job, runs_begun }, slots, timing);
  for (; time && time.at <= now; time = timing({ ...job, runs_begun }, time.at))
    // What has not ended by then is waited for: nobody looks at it again when it is due.
    runs_begun = await storeDue(sql, { ...job, runs_begun }, [{ ...time, missed: 0, fate: 'catch_up' }], now);
  return runs_begun;
}

/** Whoever mends a schedule that cannot be worked out is not to be held up by it. */
function unlessBroken<Slots>(work: () => Slots): Slots | null {
  try {
    return work();
  } catch (error) {
    if (error instanceof Problem && error.code === 'invalid_request') return null;
    throw error;
  }
}

/** Somebody may have asked for a run at the very moment of a time: it stands for that time. */
async function storedMoments(
  sql: Knex.Transaction,
  { id }: JobRow,
  due: readonly Slot[],
): Promise<ReadonlySet<number>> {
  const moments = due.map(({ at }) => at);
  if (moments.length === 0) return new Set();
  return new Set(
    await sql<JobRunRow>('job_runs').where({ job_id: id }).whereIn('occurrence', moments).pluck('occurrence'),
  );
}
