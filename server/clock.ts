/** What time it is, handed in so that tests can turn the clock; and how long a written duration is. */

export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Milliseconds of a duration such as `5s` or `1m30s`; a bare number is nanoseconds, as Go writes them. */
export function parseDuration(value: string | number): number {
  if (typeof value === 'number') return value / 1e6;
  const parts = [...value.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== value)
    throw new RangeError(`${JSON.stringify(value)} is no duration; write it as 5s or 1m30s`);
  return parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (unitMs[unit ?? ''] ?? 0), 0);
}
