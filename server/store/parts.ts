/** What every repository is made of. */
import type { Clock } from '../clock.ts';
import type { Cursors } from './cursor.ts';
import type { Database } from './database.ts';

export interface StoreParts {
  readonly database: Database;
  readonly clock: Clock;
  readonly cursors: Cursors;
}
