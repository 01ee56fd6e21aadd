/** Failures of the store, which pass: a run does not end of them, since whoever takes it over goes on once the store works. */
import { Problem } from '../../problem.ts';

/** Whether it has no room. */
export function isStoreFull(error: unknown): boolean {
  return error instanceof Problem && error.code === 'storage_full';
}

/** Whether the store takes and gives nothing now. */
export function isStoreAway(error: unknown): boolean {
  return isStoreFull(error) || (error instanceof Problem && error.code === 'database_unavailable');
}
