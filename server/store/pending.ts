/** Whether a question can still be answered. */
import { Problem } from '../problem.ts';

interface Question {
  readonly status: 'pending' | 'answered' | 'declined' | 'expired' | 'cancelled';
  readonly expires_at: number;
}

/** Throws `already_answered` or `request_expired`. A time that has passed counts also where nobody has marked it yet. */
export function requirePending({ status, expires_at }: Question, now: number): void {
  if (status === 'cancelled')
    throw new Problem('already_answered', 'The run has ended, so there is nothing left to answer.');
  if (status === 'expired' || (status === 'pending' && expires_at <= now))
    throw new Problem('request_expired', 'The time to answer has passed; the run goes on without an answer.');
  if (status !== 'pending')
    throw new Problem('already_answered', 'Somebody has answered before; the first answer stands.');
}
