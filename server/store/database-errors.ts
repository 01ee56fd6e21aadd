/** Which failures of the drivers a caller is told of, and as what. */
import { Problem } from '../problem.ts';

/** SQLITE_FULL; PostgreSQL 53100 disk_full; what the operating system says. */
const diskFull = new Set(['SQLITE_FULL', '53100', 'ENOSPC', 'EDQUOT']);

const unavailable = new Set([
  'SQLITE_BUSY',
  'SQLITE_LOCKED',
  'SQLITE_PROTOCOL',
  'SQLITE_IOERR',
  'SQLITE_CANTOPEN',
  'SQLITE_READONLY',
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  '25006', // read_only_sql_transaction: this node is no longer the primary
  '40001', // serialization_failure
  '40P01', // deadlock_detected
  '55P03', // lock_not_available
  '57014', // query_canceled, by the statement timeout
]);

/** Classes of SQLSTATE: 08 connection, 53 resources, 57P operator intervention. */
const unavailableClasses = /^(08|53|57P)/;

/** What `pg` says without a code when a connection goes away or a time limit passes. */
const unavailableMessages =
  /Connection terminated|Client was closed|Client has encountered a connection error|timeout exceeded when trying to connect|timeout expired|Query read timeout|Connection ended unexpectedly/;

/** The problem that a failure means to a caller, or the failure itself where it means none. */
export function problemOf(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Problem) return error;
  const code = codeOf(error);
  if (diskFull.has(code))
    return new Problem('storage_full', 'The disk of the database is full; nothing was changed.', {
      cause: error,
    });
  if (code === '22021')
    return new Problem('invalid_encoding', 'The text holds what the database cannot store.', {
      cause: error,
    });
  if (isOrphan(error, code))
    return new Problem('not_found', 'What this belongs to was deleted in the meantime.', { cause: error });
  // The database may well answer: others have all the connections. What knex says of that speaks of our code.
  if (error.name === 'KnexTimeoutError')
    return crowded(
      'A pool had no connection free for ten seconds; on PostgreSQL, SERVICE_DATABASE_CONNECTIONS says how many it may have.',
    );
  if (isUnavailable(error, code))
    return new Problem('database_unavailable', 'The database does not answer; try again in a moment.', {
      headers: { 'Retry-After': '2' },
      cause: error,
    });
  return error;
}

/**
 * Too much waits for the database. Not `overloaded`, which tells a caller that nothing was done yet: an operation may have
 * stored a part of what it does, and a run be at work, when its next statement meets this.
 */
export function crowded(why: string): Problem {
  return new Problem(
    'database_unavailable',
    'Too many requests wait for a connection to the database; try again in a moment.',
    { headers: { 'Retry-After': '2' }, cause: new Error(why) },
  );
}

function isUnavailable(error: Error, code: string): boolean {
  return unavailable.has(code) || unavailableClasses.test(code) || unavailableMessages.test(error.message);
}

/**
 * Whether a row refers to one that is gone: it was there when it was looked for, and somebody has deleted it since. Whoever
 * deletes what others refer to is told the same by the engines, and that is a mistake of ours.
 */
function isOrphan(error: Error, code: string): boolean {
  const refused = code === '23503' || error.message.includes('FOREIGN KEY constraint failed');
  return refused && !/^delete /i.test(error.message);
}

function codeOf(error: Error): string {
  if ('code' in error && typeof error.code === 'string') return error.code;
  // Several addresses were tried: the first failure says enough.
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return codeOf(error.errors[0]);
  return '';
}

/** Whether the transaction was ended for the sake of others that waited for each other: the same may do well next time. */
export function isDeadlock(error: unknown): boolean {
  return error instanceof Error && ['40P01', '40001'].includes(codeOf(error));
}

/** Whether a write failed because a row with that unique value exists. */
export function isDuplicate(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return codeOf(error) === '23505' || error.message.includes('UNIQUE constraint failed');
}
