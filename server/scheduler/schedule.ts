/** When something happens: by a cron pattern in a time zone, at intervals, or once. */
import { Cron } from 'croner';
import { Problem } from '../problem.ts';

/** Exactly one of the first three is given. Times are milliseconds since 1970. */
export interface ScheduleTerms {
  readonly cron: string | null;
  readonly interval_s: number | null;
  readonly run_at: number | null;
  readonly timezone: string;
  /** From when intervals are counted. */
  readonly anchor_at: number;
}

export interface Schedule {
  /** The first time after this one; null where there is none. */
  after(instant: number): number | null;
  /** Whether the clocks show what was asked for; where they leave that out, a time comes at another one. */
  shows(instant: number): boolean;
}

/** Nobody wants an agent run more often, least of all by a slip in a pattern. */
const leastSpacingS = 10;

/** Throws `invalid_request` where the terms make no sense. */
export function scheduleOf(terms: ScheduleTerms): Schedule {
  const { cron, interval_s, run_at, anchor_at } = terms;
  if ([cron, interval_s, run_at].filter((given) => given !== null).length !== 1)
    throw refusal('', 'Exactly one of cron, interval_s and run_at says when it runs.', 'oneOf');
  requireTimezone(terms.timezone);
  if (cron !== null) return cronSchedule(cron, terms.timezone);
  if (interval_s !== null) return intervalSchedule(interval_s * 1000, anchor_at);
  return { after: (instant) => (run_at !== null && run_at > instant ? run_at : null), shows: () => true };
}

function intervalSchedule(intervalMs: number, anchor: number): Schedule {
  return {
    after: (instant) => anchor + Math.max(1, Math.floor((instant - anchor) / intervalMs) + 1) * intervalMs,
    shows: () => true,
  };
}

function cronSchedule(pattern: string, timezone: string): Schedule {
  const fields = pattern.trim().split(/\s+/).length;
  if (fields !== 5 && fields !== 6)
    throw refusal('/cron', `It has ${fields} fields; write five, or six with seconds first.`, 'cron');
  const cron = read(pattern, timezone);
  const schedule = {
    after: (instant: number) => cron.nextRun(new Date(instant))?.getTime() ?? null,
    shows: (instant: number) => cron.match(new Date(instant)),
  };
  if (fields === 6) requireSpacing(schedule);
  return schedule;
}

function read(pattern: string, timezone: string): Cron {
  try {
    // Otherwise `30 2,14 * * *` would lose a time in spring, and come twice in autumn.
    return new Cron(pattern, { timezone, paused: true, fixedTimeRule: 'no-wildcard' });
  } catch (error) {
    // Its messages say which field is wrong, after its own name.
    const why = error instanceof Error ? error.message.replace(/^\w+: /, '') : 'It cannot be read.';
    throw refusal('/cron', why, 'cron');
  }
}

/** Only seconds make times that are closer than a minute: those of two of its minutes tell. */
function requireSpacing(schedule: Schedule): void {
  let minutes = 0;
  let before = schedule.after(someMinute);
  while (before !== null && minutes < 2) {
    const next = schedule.after(before);
    if (next === null) return;
    if (next - before < leastSpacingS * 1000)
      throw refusal('/cron', `Two of its times are less than ${leastSpacingS} seconds apart.`, 'cron');
    if (Math.floor(next / 60_000) !== Math.floor(before / 60_000)) minutes += 1;
    before = next;
  }
}

const someMinute = Date.parse('2027-01-01T00:00:00Z');

function requireTimezone(timeZone: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw refusal('/timezone', 'It is no IANA time zone; write one as Europe/Berlin, or UTC.', 'timezone');
  }
}

function refusal(pointer: string, message: string, code: string): Problem {
  return new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code }],
  });
}
