/** What time it is, handed in so that tests can turn the clock; and how long a written duration is. */

export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };

/** What clocks that are set by others differ by is less. */
const mostAheadMs = 60_000;

/**
 * A clock that goes forward with another, and not back with it: what has expired stays so when somebody sets the clock
 * of the machine back. It is never behind the time that has passed since it was made. Once it is far ahead of the other
 * one, that is told.
 */
export function steadyClock(
  clock: Clock,
  elapsed: () => number = () => performance.now(),
  tellAhead: (milliseconds: number) => void = () => undefined,
): Clock {
  const origin = clock.now().getTime() - elapsed();
  let isAhead = false;
  return {
    now() {
      const said = clock.now().getTime();
      const steady = Math.max(said, origin + elapsed());
      const wasAhead = isAhead;
      isAhead = steady - said > mostAheadMs;
      if (isAhead && !wasAhead) tellAhead(steady - said);
      return new Date(steady);
    },
  };
}

const millisecondsPer: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/**
 * The milliseconds of a duration. A bare number counts nanoseconds. Whatever is shorter than a millisecond is
 * refused: it was almost surely meant as seconds.
 */
export function parseDuration(value: string | number): number {
  const milliseconds = typeof value === 'number' ? value / 1e6 : millisecondsOf(value);
  if (!Number.isFinite(milliseconds))
    throw new RangeError(`${shown(value)} is no duration: write "5s" or "1m30s".`);
  if (milliseconds < 1) {
    throw new RangeError(
      typeof value === 'number'
        ? `${value} is less than a millisecond, since a bare number counts nanoseconds: write "${secondsLike(value)}s".`
        : `${shown(value)} is less than a millisecond: write at least "1ms", for example "5s".`,
    );
  }
  return milliseconds;
}

function millisecondsOf(text: string): number {
  if (!/^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$/.test(text)) return Number.NaN;
  return [...text.matchAll(/([0-9.]+)([^0-9.]+)/g)].reduce(
    (total, [, amount, unit]) => total + Number(amount) * (millisecondsPer[unit ?? ''] ?? Number.NaN),
    0,
  );
}

/** A small whole number was meant as seconds; of anything else 5 is as good an example. */
function secondsLike(value: number): number {
  return Number.isInteger(value) && value > 0 && value <= 3600 ? value : 5;
}

function shown(text: string | number): string {
  return JSON.stringify(text).slice(0, 40);
}
