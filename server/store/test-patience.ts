/** How tests that crowd a database on purpose get through where the machine is busy with other things too. */
import { Problem } from '../problem.ts';

/**
 * Does again what the database had no room for in time, as whoever is told so does: nothing of it was written. Without an
 * end of its own, for the test has one.
 */
export async function patiently<T>(action: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'database_unavailable') throw error;
    }
  }
}
