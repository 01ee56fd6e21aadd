/** Calls that the client repeats where their answer was lost: the second one does nothing twice, and is no failure. */
import { randomUUID } from 'node:crypto';
import { ServiceError } from '@service/client/errors';

/** For a call that makes something: whoever sends it again gets what the first one has made. */
export function keyed(): { readonly 'Idempotency-Key': string } {
  return { 'Idempotency-Key': randomUUID() };
}

/** For a deletion: what is to go may be gone by now, as somebody else has deleted it, or the answer to that was lost. */
export function unless(...statuses: readonly number[]): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof ServiceError && statuses.includes(error.status))) throw error;
  };
}
