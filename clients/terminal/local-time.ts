/** Times as a clock beside the person shows them, and as the person writes them. */
import { CommandFailure, exitCodes } from './failures.ts';
import { printable } from './output.ts';

/** `2026-11-21 14:03`; with `exact`, to the millisecond. What is no time is left as it is, and harmless. */
export function localTime(timestamp: string | number, { exact = false } = {}): string {
  const date = new Date(timestamp);
  if (Number.isNaN(date.getTime())) return printable(String(timestamp));
  const two = (value: number) => String(value).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  const minute = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (!exact) return `${day} ${minute}`;
  return `${day} ${minute}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

const form = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:\d{2})?)?$/;

/** A day or a moment as people write it, in `timeZone` or their own where it names none; as an ISO 8601 time. */
export function momentIn(option: string, text: string, timeZone?: string): string {
  const [, day = '', time = '00:00', zone = ''] = form.exec(text.trim()) ?? [];
  const moment =
    zone === '' && timeZone !== undefined
      ? inZone(new Date(`${day}T${time}Z`).getTime(), timeZone)
      : new Date(`${day}T${time}${zone}`);
  if (isDay(day) && !Number.isNaN(moment.getTime())) return moment.toISOString();
  throw new CommandFailure(
    `${option} takes a day or a moment, as 2027-01-31 or 2027-01-31T18:00, and not ${JSON.stringify(text)}.`,
    exitCodes.usage,
  );
}

/**
 * The moment at which clocks of a zone show this, given as if they were in UTC: the first of two, and where they pass over it
 * as much later.
 */
function inZone(shown: number, timeZone: string): Date {
  const [before, after] = [-dayMs, dayMs].map((away) => offsetAt(shown + away, timeZone));
  const fits = [before, after]
    .map((offset = 0) => shown - offset)
    .find((moment) => moment + offsetAt(moment, timeZone) === shown);
  return new Date(fits ?? shown - (before ?? 0));
}

const dayMs = 86_400_000;

/** How far the clocks of a zone are ahead of UTC at a moment, in milliseconds. */
function offsetAt(moment: number, timeZone: string): number {
  if (Number.isNaN(moment)) return 0;
  const numbers = new Map(
    clockOf(timeZone)
      .formatToParts(moment)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const [year = 0, month = 1, ...rest] = (['year', 'month', 'day', 'hour', 'minute', 'second'] as const).map(
    (part) => numbers.get(part) ?? 0,
  );
  return Date.UTC(year, month - 1, ...rest) - Math.floor(moment / 1000) * 1000;
}

function clockOf(timeZone: string): Intl.DateTimeFormat {
  const numeric = 'numeric';
  const date = { year: numeric, month: numeric, day: numeric } as const;
  const time = { hour: numeric, minute: numeric, second: numeric, hourCycle: 'h23' } as const;
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone, ...date, ...time });
  } catch {
    throw new CommandFailure(
      `--timezone takes a zone such as Europe/Berlin, and not ${JSON.stringify(timeZone)}.`,
      exitCodes.usage,
    );
  }
}

/** Of a day that its month does not have, Date makes one of the next month. */
function isDay(day: string): boolean {
  const midnight = new Date(`${day}T00:00Z`);
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
}
