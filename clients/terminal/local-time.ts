/** Times as a clock beside the person shows them. */
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
