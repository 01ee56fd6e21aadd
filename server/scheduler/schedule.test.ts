/** Times of jobs over real changes of clocks, what was missed, and what one sees of it beforehand. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { previewTimes } from './preview.ts';
import { acceptedSchedule, type ScheduleTerms, scheduleOf } from './schedule.ts';
import { firstTime, nextTime, nextTimes, type Slot, slotsUntil, type TimedJob } from './slots.ts';

const nothing: ScheduleTerms = { cron: null, interval_s: null, run_at: null, timezone: 'UTC', anchor_at: 0 };

function times(cron: string, timezone: string, after: string, count: number): string[] {
  const schedule = scheduleOf({ ...nothing, cron, timezone });
  const found: string[] = [];
  let last = Date.parse(after);
  while (found.length < count) {
    last = schedule.after(last) ?? Number.NaN;
    found.push(new Date(last).toISOString().replace(':00.000Z', 'Z'));
  }
  return found;
}

describe('cron in a time zone', () => {
  const cases: readonly (readonly [string, string, string, string, readonly string[]])[] = [
    [
      'a time that the clocks leave out comes when they have gone forward',
      ...(['30 2 * * *', 'Europe/Berlin', '2027-03-27T00:00Z'] as const),
      ['2027-03-27T01:30Z', '2027-03-28T01:00Z', '2027-03-29T00:30Z'],
    ],
    [
      'a time that the clocks show twice comes once, the first time',
      ...(['30 2 * * *', 'Europe/Berlin', '2027-10-30T00:00Z'] as const),
      ['2027-10-30T00:30Z', '2027-10-31T00:30Z', '2027-11-01T01:30Z'],
    ],
    [
      'what comes each half hour loses and repeats nothing',
      ...(['*/30 * * * *', 'Europe/Berlin', '2027-10-31T00:00Z'] as const),
      ['2027-10-31T00:30Z', '2027-10-31T01:00Z', '2027-10-31T01:30Z', '2027-10-31T02:00Z'],
    ],
    [
      'what comes each half hour goes on over the hour that is left out',
      ...(['*/30 * * * *', 'Europe/Berlin', '2027-03-28T00:00Z'] as const),
      ['2027-03-28T00:30Z', '2027-03-28T01:00Z', '2027-03-28T01:30Z'],
    ],
    [
      'New York goes forward at another hour',
      ...(['30 2 * * *', 'America/New_York', '2027-03-13T00:00Z'] as const),
      ['2027-03-13T07:30Z', '2027-03-14T07:00Z', '2027-03-15T06:30Z'],
    ],
    [
      'New York shows half past one twice',
      ...(['30 1 * * *', 'America/New_York', '2027-11-06T00:00Z'] as const),
      ['2027-11-06T05:30Z', '2027-11-07T05:30Z', '2027-11-08T06:30Z'],
    ],
    [
      'Lord Howe goes forward by half an hour',
      ...(['15 2 * * *', 'Australia/Lord_Howe', '2027-10-01T00:00Z'] as const),
      ['2027-10-01T15:45Z', '2027-10-02T15:30Z', '2027-10-03T15:15Z'],
    ],
    [
      'Lord Howe goes back by half an hour',
      ...(['45 1 * * *', 'Australia/Lord_Howe', '2027-04-02T00:00Z'] as const),
      ['2027-04-02T14:45Z', '2027-04-03T14:45Z', '2027-04-04T15:15Z'],
    ],
    [
      'with seconds, too: Berlin leaves it out',
      ...(['30 30 2 * * *', 'Europe/Berlin', '2027-03-27T00:00Z'] as const),
      ['2027-03-27T01:30:30.000Z', '2027-03-28T01:00Z', '2027-03-29T00:30:30.000Z'],
    ],
    [
      'with seconds, too: Berlin shows it twice',
      ...(['30 30 2 * * *', 'Europe/Berlin', '2027-10-30T00:00Z'] as const),
      ['2027-10-30T00:30:30.000Z', '2027-10-31T00:30:30.000Z', '2027-11-01T01:30:30.000Z'],
    ],
    [
      'with seconds, too: New York leaves it out',
      ...(['15 30 2 * * *', 'America/New_York', '2027-03-13T00:00Z'] as const),
      ['2027-03-13T07:30:15.000Z', '2027-03-14T07:00Z', '2027-03-15T06:30:15.000Z'],
    ],
    [
      'with seconds, too: New York shows it twice',
      ...(['15 30 1 * * *', 'America/New_York', '2027-11-06T00:00Z'] as const),
      ['2027-11-06T05:30:15.000Z', '2027-11-07T05:30:15.000Z', '2027-11-08T06:30:15.000Z'],
    ],
    [
      'with seconds, too: Lord Howe leaves it out',
      ...(['45 15 2 * * *', 'Australia/Lord_Howe', '2027-10-01T00:00Z'] as const),
      ['2027-10-01T15:45:45.000Z', '2027-10-02T15:30Z', '2027-10-03T15:15:45.000Z'],
    ],
    [
      'with seconds, too: Lord Howe shows it twice',
      ...(['45 45 1 * * *', 'Australia/Lord_Howe', '2027-04-02T00:00Z'] as const),
      ['2027-04-02T14:45:45.000Z', '2027-04-03T14:45:45.000Z', '2027-04-04T15:15:45.000Z'],
    ],
    [
      'one of two times of a day that the clocks leave out is not lost',
      ...(['30 2,14 * * *', 'Europe/Berlin', '2027-03-28T00:00Z'] as const),
      ['2027-03-28T01:00Z', '2027-03-28T12:30Z', '2027-03-29T00:30Z'],
    ],
    [
      'one of two times of a day that the clocks show twice comes once',
      ...(['30 2,14 * * *', 'Europe/Berlin', '2027-10-31T00:00Z'] as const),
      ['2027-10-31T00:30Z', '2027-10-31T13:30Z', '2027-11-01T01:30Z'],
    ],
    [
      'several that are left out come once, together',
      ...(['0,30 1-2 * * *', 'America/New_York', '2027-03-14T05:00Z'] as const),
      ['2027-03-14T06:00Z', '2027-03-14T06:30Z', '2027-03-14T07:00Z', '2027-03-15T05:00Z'],
    ],
    [
      'what comes every twenty minutes goes by the clocks of Lord Howe, in both half hours',
      ...(['*/20 * * * *', 'Australia/Lord_Howe', '2027-04-03T14:30Z'] as const),
      ['2027-04-03T14:40Z', '2027-04-03T15:10Z', '2027-04-03T15:30Z', '2027-04-03T15:50Z'],
    ],
    [
      'Kolkata has no daylight saving',
      ...(['30 2 * * *', 'Asia/Kolkata', '2027-03-26T12:00Z'] as const),
      ['2027-03-26T21:00Z', '2027-03-27T21:00Z'],
    ],
    [
      'the second field comes first where there are six',
      ...(['30 0 4 * * MON', 'UTC', '2027-01-01T00:00Z'] as const),
      ['2027-01-04T04:00:30.000Z', '2027-01-11T04:00:30.000Z'],
    ],
    [
      'of two days either suffices, and there is a last day of the month',
      ...(['0 0 L * FRI', 'UTC', '2027-01-25T00:00Z'] as const),
      ['2027-01-29T00:00Z', '2027-01-31T00:00Z', '2027-02-05T00:00Z'],
    ],
  ];
  test.each(cases)('%s', (_title, cron, timezone, after, expected) => {
    expect(times(cron, timezone, after, expected.length)).toEqual(expected);
  });

  const refused: readonly (readonly [string, Partial<ScheduleTerms>, string])[] = [
    ['nothing says when', {}, 'Exactly one'],
    ['two say when', { cron: '0 2 * * *', interval_s: 60 }, 'Exactly one'],
    ['four fields', { cron: '0 2 * *' }, '4 fields'],
    ['a year', { cron: '0 0 2 1 1 * 2030' }, '7 fields'],
    ['a minute that there is not', { cron: '60 2 * * *' }, 'minute'],
    ['letters that are no name', { cron: 'a 2 * * *' }, 'illegal'],
    ['a zone that there is not', { cron: '0 2 * * *', timezone: 'Europe/Atlantis' }, 'time zone'],
  ];
  test.each(refused)('%s is refused', (_title, terms, why) => {
    expect(() => scheduleOf({ ...nothing, ...terms })).toThrow(why);
  });

  test.each([
    '* * * * * *',
    '0,5 0 2 * * *',
    '0,55 0,10,30,31 * * * *',
    '0,55 10,59,0 * * * *',
    '5,59 0,59 1,6-7 29 2 *',
    '0,55 0,59 0,23 1,31 1,2 *',
    '0,55 0,59 0,23 1,29 2,3 *',
    '0,55 0,59 0,23 * * SAT,SUN',
  ])('%s is refused for whoever asks for it, and goes on where it was accepted once', (cron) => {
    const terms = { ...nothing, cron };
    expect(() => acceptedSchedule(terms)).toThrow('10 seconds');
    expect(() => previewTimes(terms, start)).toThrow('10 seconds');
    expect(() => firstTime({ ...job, cron, interval_s: null }, start)).toThrow('10 seconds');
    expect(scheduleOf(terms).after(start)).not.toBeNull();
  });

  test.each([
    '*/10 * * * * *',
    '0,50 * * * * *',
    '0,55 0,10,30,40 * * * *',
    '0,55 0,59 1,3 * * *',
    '0,55 0,59 0,23 1,15 * *',
    '0,55 0,59 0,23 * * MON,WED',
    '5 */2 * * * *',
    '30 0 4 30 2 *',
  ])('%s has room between its times', (cron) => {
    expect(() => acceptedSchedule({ ...nothing, cron })).not.toThrow();
  });

  test('what is said of two times is what a walk over all of them finds', () => {
    const field = (most: number) =>
      fc.uniqueArray(fc.integer({ min: 0, max: most }), { minLength: 1, maxLength: 3 });
    const patterns = fc.tuple(
      field(59),
      field(59),
      field(23),
      fc.constantFrom('* * *', '1,2 * *', '* * MON'),
    );
    fc.assert(
      fc.property(patterns, ([seconds, minutes, hours, days]) => {
        const cron = `${seconds} ${minutes} ${hours} ${days}`;
        expect(isRefused(cron), cron).toBe(hasCloseTimes(cron));
      }),
      { numRuns: 200 },
    );
  });
});

const isRefused = (cron: string): boolean => {
  try {
    acceptedSchedule({ ...nothing, cron });
    return false;
  } catch {
    return true;
  }
};

/** In the first days of a month, which began on a Friday. */
function hasCloseTimes(cron: string): boolean {
  const { after } = scheduleOf({ ...nothing, cron });
  for (let before = after(start - 1); before !== null && before < start + 4 * 86_400_000; ) {
    const next = after(before);
    if (next !== null && next - before < 10_000) return true;
    before = next;
  }
  return false;
}

const start = Date.parse('2027-01-01T00:00:00Z');
const minute = 60_000;
const job: TimedJob = {
  ...{ ...nothing, interval_s: 600, anchor_at: start },
  ...{ id: 'job_1', jitter_s: 0, misfire_policy: 'run_once', ends_at: null, max_runs: null, runs_begun: 0 },
};
const at = (minutes: number) => start + minutes * minute;
const briefly = (slots: ReturnType<typeof slotsUntil>) => ({
  due: slots.due.map(({ at: time, fate, missed }) => [(time - start) / minute, fate, missed]),
  next: slots.next && (slots.next.at - start) / minute,
});

const lookedHours = 4;

/** What a process finds that looks again and again, with such pauses between. */
function lookedAt(timed: TimedJob, pausesS: readonly number[]) {
  const found: (Slot & { readonly lookedFor: number })[] = [];
  let next = nextTime(timed, start);
  let looks = 0;
  for (
    let now = start;
    now < start + lookedHours * 3_600_000;
    now += (pausesS[looks++ % pausesS.length] ?? 1) * 1000
  ) {
    if (!next || next.dueAt > now) continue;
    const slots = slotsUntil(timed, next.at, now);
    found.push(...slots.due.map((slot) => ({ ...slot, lookedFor: now })));
    next = slots.next;
  }
  return found;
}

describe('what has become due', () => {
  test('is one time, and the next one follows', () => {
    const slots = slotsUntil(job, at(10), at(10) + 400);
    expect(briefly(slots)).toEqual({ due: [[10, 'run', 0]], next: 20 });
  });

  test('is nothing where a clock was set back', () => {
    expect(briefly(slotsUntil(job, at(10), at(3)))).toEqual({ due: [], next: 10 });
  });

  const missed = [
    ['skip', [[40, 'misfire', 3]]],
    ['run_once', [[40, 'catch_up', 3]]],
    ['run_all', [10, 20, 30, 40].map((minutes) => [minutes, 'catch_up', 0])],
  ] as const;
  test.each(missed)('follows the misfire policy %s where times were missed', (misfire_policy, due) => {
    const slots = slotsUntil({ ...job, misfire_policy }, at(10), at(50) + 500);
    expect(briefly(slots)).toEqual({ due: [...due, [50, 'run', 0]], next: 60 });
  });

  test('is bounded where very many times were missed', () => {
    const year = at(365 * 24 * 60);
    const all = slotsUntil({ ...job, misfire_policy: 'run_all' }, at(10), year + 5 * minute);
    expect(all.due).toHaveLength(50);
    expect(all.due.at(-1)).toMatchObject({ at: year, missed: 0 });
    expect(all.due[0]).toMatchObject({ missed: 200 });
    expect(all.next?.at).toBe(year + 10 * minute);
    const once = slotsUntil(job, at(10), year + 5 * minute);
    expect(once.due).toEqual([{ at: year, dueAt: year, missed: 200, fate: 'catch_up' }]);
  });

  test.each(['* 9-17 * * *', '* 9-17 * * 1-5', '*/10 * 9 * * *', '*/10 * * 1 1 *'])(
    'is the last of what was missed, and nothing is missed twice, where %s has breaks',
    (cron) => {
      const broken = { ...job, interval_s: null, cron };
      const left = at(12 * 60);
      const times = nextTimes({ ...broken, ends_at: left + 5 * 24 * 60 * minute }, left, 20_000);
      const first = times[0] ?? Number.NaN;
      for (let hours = 24; hours <= 5 * 24; hours += 5) {
        const now = left + hours * 60 * minute;
        // What came in the last minute is not late.
        const passed = times.filter((time) => time < now - minute);
        const once = slotsUntil(broken, first, now);
        const all = slotsUntil({ ...broken, misfire_policy: 'run_all' }, first, now);
        const late = ({ due }: typeof once) => due.filter(({ fate }) => fate === 'catch_up');
        expect(late(once).map((slot) => slot.at)).toEqual(passed.slice(-1));
        expect(late(all).map((slot) => slot.at)).toEqual(passed.slice(-50));
        expect(once.next?.at).toBeGreaterThan(now);
      }
    },
  );

  test('ends with max_runs and with ends_at', () => {
    const bounded = { ...job, misfire_policy: 'run_all', max_runs: 5, runs_begun: 3 } as const;
    expect(briefly(slotsUntil(bounded, at(10), at(50)))).toEqual({
      due: [
        [10, 'catch_up', 0],
        [20, 'catch_up', 0],
      ],
      next: null,
    });
    expect(briefly(slotsUntil({ ...job, ends_at: at(25) }, at(20), at(20)))).toEqual({
      due: [[20, 'run', 0]],
      next: null,
    });
    expect(nextTimes({ ...job, max_runs: 2 }, start, 10)).toEqual([at(10), at(20)]);
  });

  test('is late by a jitter that every process works out alike, and that differs from time to time', () => {
    const late = { ...job, jitter_s: 300 };
    const jitters = nextTimes(late, start, 50).map((time) => {
      const next = nextTime(late, time - 1);
      return (next?.dueAt ?? 0) - (next?.at ?? 0);
    });
    expect(Math.min(...jitters)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...jitters)).toBeLessThanOrEqual(300_000);
    expect(new Set(jitters).size).toBeGreaterThan(40);
    const first = nextTime(late, start);
    expect(nextTime({ ...late }, start)).toEqual(first);
    const dueAt = first?.dueAt ?? 0;
    expect(slotsUntil(late, at(10), dueAt - 1)).toEqual({ due: [], next: first });
    expect(slotsUntil(late, at(10), dueAt).due).toHaveLength(1);
  });

  /** A job with jitter of any size beside its interval, and the seconds between the looks of a process. */
  const timedAndLooked = (leastS: number, mostPauseS: number) =>
    [
      fc.record({ id: fc.uuid(), interval_s: fc.integer({ min: leastS, max: 900 }), jitter_s: jitter }),
      fc.array(fc.integer({ min: 1, max: mostPauseS }), { minLength: 1, maxLength: 20 }),
    ] as const;
  const jitter = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 3600 }));

  test('is each time once and in order, and is not missed for being held up by the jitter of another', () => {
    fc.assert(
      fc.property(...timedAndLooked(10, 60), (terms, pauses) => {
        const timed = { ...job, ...terms };
        const found = lookedAt(timed, pauses);
        const times = found.map((slot) => slot.at);
        expect(times).toEqual(nextTimes(timed, start, times.length));
        expect(found.filter(({ fate, missed }) => fate !== 'run' || missed > 0)).toEqual([]);
        expect(found.filter(({ lookedFor, dueAt }) => lookedFor < dueAt)).toEqual([]);
        // What lies further back than the longest jitter has come.
        expect(times.length).toBeGreaterThanOrEqual(
          Math.floor((lookedHours - 1) * (3600 / timed.interval_s)) - 1,
        );
      }),
    );
  });

  test('is each time once or counted as missed, where a process looks now and then', () => {
    fc.assert(
      fc.property(...timedAndLooked(60, 1200), (terms, pauses) => {
        const timed = { ...job, ...terms, misfire_policy: 'run_all' } as const;
        const found = lookedAt(timed, pauses);
        let last = start;
        for (const { at: time, missed } of found) {
          const all = nextTimes(timed, last, missed + 1);
          expect(time).toBe(all.at(-1));
          last = time;
        }
        expect(found.length).toBeGreaterThan(0);
      }),
    );
  });

  test('is counted once where very many times were missed that jitter mixes', () => {
    const mixed = { ...job, interval_s: 10, jitter_s: 3600, misfire_policy: 'skip' } as const;
    const now = start + 5 * 3_600_000;
    const { due, next } = slotsUntil(mixed, start + 10_000, now);
    expect(due[0]).toMatchObject({ fate: 'misfire', missed: 200 });
    const times = due.map((slot) => slot.at);
    expect(times).toEqual(nextTimes(mixed, (times[0] ?? 0) - 1, times.length));
    expect(next).toEqual(nextTime(mixed, times.at(-1) ?? 0));
    // What holds the others up is among what has not come.
    expect(next?.dueAt).toBeGreaterThan(now);
  });

  test('is once what is to happen once', () => {
    const once = { ...job, interval_s: null, run_at: at(15) };
    expect(briefly(slotsUntil(once, at(15), at(15)))).toEqual({ due: [[15, 'run', 0]], next: null });
    expect(nextTime(once, at(15))).toBeNull();
  });
});

describe.each([
  ['Europe/Berlin', '2027-03-28T01:00Z', '2027-10-31T01:00Z'],
  ['America/New_York', '2027-03-14T07:00Z', '2027-11-07T06:00Z'],
  ['Australia/Lord_Howe', '2027-10-02T15:30Z', '2027-04-03T15:00Z'],
])('where the clocks of %s change', (timezone, ...changes) => {
  test.each(changes)('at %s intervals and what happens once follow time that passes', (change) => {
    const moment = Date.parse(change);
    const every = scheduleOf({ ...nothing, timezone, interval_s: 900, anchor_at: moment - 1_800_000 });
    const found = [];
    for (let last: number | null = moment - 1_800_000; last !== null && found.length < 5; ) {
      last = every.after(last);
      found.push(((last ?? 0) - moment) / minute);
    }
    expect(found).toEqual([-15, 0, 15, 30, 45]);
    const once = { ...nothing, timezone, run_at: moment };
    expect([scheduleOf(once).after(moment - 1), scheduleOf(once).after(moment)]).toEqual([moment, null]);
  });

  test.each(changes)('at %s each time of a job is due once, however often a process looks', (change) => {
    const moment = Date.parse(change);
    const daily = { ...job, interval_s: null, cron: '15,45 1,2 * * *', timezone };
    const due: number[] = [];
    let next = nextTime(daily, moment - 86_400_000)?.at ?? Number.NaN;
    // A clock that is set, every ten minutes of three days.
    for (let now = moment - 86_400_000; now < moment + 2 * 86_400_000; now += 10 * minute) {
      const slots = slotsUntil(daily, next, now);
      due.push(...slots.due.map((slot) => slot.at));
      next = slots.next?.at ?? Number.NaN;
    }
    expect(new Set(due).size).toBe(due.length);
    const walls = due.map((time) => new Date(time).toLocaleString('sv', { timeZone: timezone }));
    expect(new Set(walls).size).toBe(walls.length);
    // Four a day; in spring those that are left out come as one.
    expect(due.length).toBeGreaterThanOrEqual(10);
    expect(due.length).toBeLessThanOrEqual(13);
  });
});

test.each([
  ['30 2 * * *', 'America/New_York', '2027-03-13T12:00Z', /forward by 60 minutes.*They leave out a time/],
  [
    '15 15 2 * * *',
    'Australia/Lord_Howe',
    '2027-10-02T12:00Z',
    /forward by 30 minutes.*They leave out a time/,
  ],
  ['30 1 * * *', 'America/New_York', '2027-11-06T12:00Z', /show this time twice/],
  ['45 1 * * *', 'Australia/Lord_Howe', '2027-04-02T20:00Z', /show this time twice/],
  ['0 4 * * *', 'Europe/Berlin', '2027-03-27T12:00Z', /forward by 60 minutes[^.]*\.$/],
])('the preview of %s in %s after %s says what the clocks do', (cron, timezone, after, note) => {
  expect(previewTimes({ ...nothing, cron, timezone }, Date.parse(after))[0]?.note).toMatch(note);
});

test('a preview says what daylight saving has to do with its times', () => {
  const terms = { ...nothing, cron: '30 2 * * *', timezone: 'Europe/Berlin' };
  const spring = previewTimes(terms, Date.parse('2027-03-27T12:00Z'));
  expect(spring).toHaveLength(10);
  expect(spring[0]).toEqual({
    at: '2027-03-28T01:00:00.000Z',
    local: '2027-03-28T03:00:00+02:00',
    note: 'Clocks go forward by 60 minutes before it: 2027-03-28T01:59:59+01:00 is followed by 2027-03-28T03:00:00+02:00. They leave out a time of the pattern, which comes right after.',
  });
  expect(spring[1]?.note).toBeNull();
  const autumn = previewTimes(terms, Date.parse('2027-10-30T12:00Z'));
  expect(autumn[0]?.note).toBe('The clocks show this time twice on that day.');
  expect(autumn[1]?.note).toContain('Clocks go back by 60 minutes');
  const once = { ...nothing, run_at: at(5), timezone: 'Australia/Lord_Howe' };
  expect(previewTimes(once, start)).toEqual([
    { at: '2027-01-01T00:05:00.000Z', local: '2027-01-01T11:05:00+11:00', note: null },
  ]);
});
