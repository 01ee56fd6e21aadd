/** What is answered for a run that failed, where an answer and no stream was asked for. */
import type { Run } from '../contract/api.ts';
import { Problem } from '../problem.ts';

/** In the words of the run itself, with the time that its provider asked for; none are left of one that was deleted. */
export function failureOf(run: Pick<Run, 'error'> | undefined): Problem {
  if (!run) return new Problem('not_found', 'The run was deleted with its session before it had ended.');
  const { code, message, retry_after_seconds: seconds } = run.error ?? nothingKnown;
  const headers = seconds === undefined ? {} : { 'Retry-After': String(seconds) };
  return new Problem(code, message, { headers });
}

const nothingKnown: NonNullable<Run['error']> = { code: 'internal_error', message: 'The run failed.' };
