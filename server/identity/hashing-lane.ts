/** Costly work in a lane of its own: so much of it at once, so much that waits, and the rest refused. */
import { Problem } from '../problem.ts';

export interface LaneSize {
  readonly atOnce: number;
  readonly mostWaiting: number;
}

export interface Lane {
  /** Runs work when its turn has come, in the order in which it came. Throws `overloaded` where too much waits. */
  enter<T>(work: () => Promise<T>): Promise<T>;
  queue(): { readonly waiting: number; readonly limit: number };
}

export function createLane({ atOnce, mostWaiting }: LaneSize): Lane {
  const waiting: (() => void)[] = [];
  let atWork = 0;

  return {
    async enter(work) {
      if (atWork === atOnce) {
        if (waiting.length >= mostWaiting)
          throw new Problem('overloaded', 'Too many passwords wait to be hashed; try again in a moment.');
        // Whoever is done hands their place over, so that nobody who comes just then takes it.
        await new Promise<void>((resolve) => waiting.push(resolve));
      } else atWork += 1;
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else atWork -= 1;
      }
    },
    queue: () => ({ waiting: waiting.length, limit: mostWaiting }),
  };
}
