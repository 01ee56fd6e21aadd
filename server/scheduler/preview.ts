/** The next times of a schedule as people read them: what the clocks show, and what daylight saving has to do with it. */
import type { ScheduledTime } from '../contract/api.ts';
import { acceptedSchedule, type ScheduleTerms } from './schedule.ts';

const mostTimes = 10;
const dayMs = 86_400_000;

/** Throws `invalid_request`. */
export function previewTimes(terms: ScheduleTerms, after: number): ScheduledTime[] {
  const schedule = acceptedSchedule(terms);
  const { timezone } = terms;
  const times: ScheduledTime[] = [];
  let before = after;
  while (times.length < mostTimes) {
    const at = schedule.after(before);
    if (at === null) break;
    times.push({
      at: new Date(at).toISOString(),
      local: localTime(at, timezone),
      note: noteOn(before, at, timezone, schedule.shows(at)),
    });
    before = at;
  }
  return times;
}

/** Two changes between two times, as from one year to the next, are nothing to be told of. */
function noteOn(before: number, at: number, timezone: string, isShown: boolean): string | null {
  const change = offsetAt(at, timezone) - offsetAt(before, timezone);
  const notes = [
    ...(change === 0 ? [] : [changeNote(before, at, change, timezone)]),
    ...(isShown ? [] : ['They leave out a time of the pattern, which comes right after.']),
    ...(comesTwice(at, timezone) ? ['The clocks show this time twice on that day.'] : []),
  ];
  return notes.length === 0 ? null : notes.join(' ');
}

function changeNote(before: number, at: number, change: number, timezone: string): string {
  const moment = changeBetween(before, at, timezone);
  const way = change > 0 ? 'forward' : 'back';
  const [from, to] = [localTime(moment - 1000, timezone), localTime(moment, timezone)];
  return `Clocks go ${way} by ${Math.abs(change)} minutes before it: ${from} is followed by ${to}.`;
}

/** The first moment with the later offset, to the second. */
function changeBetween(before: number, at: number, timezone: string): number {
  const later = offsetAt(at, timezone);
  let [low, high] = [Math.floor(before / 1000), Math.floor(at / 1000)];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(middle * 1000, timezone) === later) high = middle;
    else low = middle;
  }
  return high * 1000;
}

function comesTwice(at: number, timezone: string): boolean {
  const wall = at + offsetAt(at, timezone) * 60_000;
  const moments = [-dayMs, dayMs].map((away) => wall - offsetAt(at + away, timezone) * 60_000);
  const shown = moments.filter((moment) => moment + offsetAt(moment, timezone) * 60_000 === wall);
  return new Set(shown).size > 1;
}

function localTime(at: number, timezone: string): string {
  const offset = offsetAt(at, timezone);
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  const wall = new Date(at + offset * 60_000).toISOString().slice(0, 19);
  return `${wall}${offset < 0 ? '-' : '+'}${twoDigits(hours)}:${twoDigits(minutes)}`;
}

function twoDigits(number: number): string {
  return String(number).padStart(2, '0');
}

/** Minutes east of Greenwich. */
function offsetAt(at: number, timeZone: string): number {
  const format = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' });
  const name = format.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? '';
  const [, sign = '+', hours = '0', minutes = '0'] = /([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
}
