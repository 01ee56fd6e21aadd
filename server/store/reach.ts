/** Whose data a caller may reach: part of every query, so that what is foreign is not there. */
import { Problem } from '../problem.ts';

/** Who asks, and the organizations they belong to. */
export interface Reach {
  readonly userId: string;
  readonly organizationIds: readonly string[];
}

/** The same answer for what does not exist and for what belongs to someone else. */
export function notFound(noun: string): Problem {
  return new Problem('not_found', `There is no such ${noun}, or it is not yours.`);
}
