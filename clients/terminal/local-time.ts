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

/** A day or a moment as people write it, in their own time zone where none is named; as an ISO 8601 time. */
export function momentIn(option: string, text: string): string {
  const [, day = '', time = '00:00', zone = ''] = form.exec(text.trim()) ?? [];
  const moment = new Date(`${day}T${time}${zone}`);
  if (isDay(day) && !Number.isNaN(moment.getTime())) return moment.toISOString();
  throw new CommandFailure(
    `${option} takes a day or a moment, as 2027-01-31 or 2027-01-31T18:00, and not ${JSON.stringify(text)}.`,
    exitCodes.usage,
  );
}

/** Of a day that its month does not have, Date makes one of the next month. */
function isDay(day: string): boolean {
  const midnight = new Date(`${day}T00:00Z`);
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
}
