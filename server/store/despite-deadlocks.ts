/** Transactions that were ended for the sake of others, which waited for them as they did for those, are done again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Problem } from '../problem.ts';
import { isDeadlock } from './database-errors.ts';

const mostAttempts = 3;
/** The other transaction needs a moment to take the rows that were let go: a new attempt would block it again. */
const giveWayMs = 100;

/** The transaction may change nothing but the database. Above all for what deletes much: whoever deletes less locks it in another order. */
export async function despiteDeadlocks<T>(transaction: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await transaction();
    } catch (error) {
      const reason = error instanceof Problem ? error.cause : error;
      if (attempt === mostAttempts || !isDeadlock(reason)) throw error;
      await sleep(giveWayMs * (attempt + Math.random()));
    }
  }
}
