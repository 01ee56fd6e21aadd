/** Times between the contract (RFC 3339 with milliseconds) and the database (milliseconds since 1970). */
import { Problem } from '../problem.ts';

export function timestamp(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

export function nullableTimestamp(milliseconds: number | null): string | null {
  return milliseconds === null ? null : timestamp(milliseconds);
}

/** The years that RFC 3339 can write: an offset can reach beyond them, and 23:59:60 is no time of the clock here. */
const earliest = Date.parse('0000-01-01T00:00:00.000Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');

/** Reads a time that a caller wrote; `pointer` says where in the body it stands. */
export function parseTimestamp(text: string, pointer: string): number {
  const milliseconds = Date.parse(text);
  if (milliseconds >= earliest && milliseconds <= latest) return milliseconds;
  const message = 'A date and time between the years 0000 and 9999, as in 2026-11-21T08:00:00Z.';
  throw new Problem('invalid_request', `${pointer} is not a time that can be stored. ${message}`, {
    errors: [{ in: 'body', pointer, message, code: 'format' }],
  });
}
