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

/** The same for a schedule that somebody asks for: besides, its times must not lie too close to each other. */
export function acceptedSchedule(terms: ScheduleTerms): Schedule {
  const schedule = scheduleOf(terms);
  if (terms.cron !== null && isCrowded(terms.cron.trim().split(/\s+/)))
    throw refusal('/cron', `Two of its times are less than ${leastSpacingS} seconds apart.`, 'cron');
  return schedule;
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
  return {
    after: (instant) => cron.nextRun(new Date(instant))?.getTime() ?? null,
    shows: (instant) => cron.match(new Date(instant)),
  };
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

const minuteS = 60;
const hourS = 60 * minuteS;
const dayS = 24 * hourS;

/**
 * Walking its times would miss those that meet once a year, or take far too long. So from field to field: two values of it
 * that follow each other tell, and where only the last and the first do, those of the next field decide.
 */
function isCrowded(fields: readonly string[]): boolean {
  if (fields.length < 6) return false;
  const [seconds, minutes, hours, ...days] = fields;
  const levels = [
    { once: `${seconds} 0 0 * * *`, inARow: `${seconds} * * * * *`, withinS: minuteS, leastS: leastSpacingS },
    { once: `0 ${minutes} 0 * * *`, inARow: `0 ${minutes} * * * *`, withinS: hourS, leastS: minuteS + 1 },
    { once: `0 0 ${hours} 1 * *`, inARow: `0 0 ${hours} * * *`, withinS: dayS, leastS: hourS + 1 },
  ];
  for (const { once, inARow, withinS, leastS } of levels) {
    if (areClose(once, withinS, leastS)) return true;
    if (!areClose(inARow, withinS, leastS)) return false;
  }
  return areClose(`0 0 0 ${days.join(' ')}`, twoYearsS, dayS + 1);
}

/** Whether two times that follow each other are, the first of them so soon after midnight of a new year. */
function areClose(pattern: string, withinS: number, leastS: number): boolean {
  const cron = read(pattern, 'UTC');
  let before = cron.nextRun(new Date(newYear - 1))?.getTime();
  while (before !== undefined && before < newYear + withinS * 1000) {
    const next = cron.nextRun(new Date(before))?.getTime();
    if (next !== undefined && next - before < leastS * 1000) return true;
    before = next;
  }
  return false;
}

/** Of the two years, the second has a 29th of February. */
const newYear = Date.parse('2027-01-01T00:00:00Z');
const twoYearsS = 731 * dayS;

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
