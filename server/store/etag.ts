/** ETags of rows: the revision in quotes, which every change of what a caller sees raises. */
import { Problem } from '../problem.ts';

export function etagOf(row: { readonly revision: number }): string {
  return `"${row.revision}"`;
}

/** Lets a change pass only if the row is still what the caller has read. Weak tags never match here (RFC 9110 §13.1.1). */
export function requireMatch(ifMatch: string | undefined, row: { readonly revision: number }): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  const tags: readonly string[] = ifMatch.match(/(W\/)?"[^"]*"/g) ?? [];
  if (tags.includes(etagOf(row))) return;
  throw new Problem(
    'precondition_failed',
    `The resource has changed since it was read: its ETag is ${etagOf(row)} now. Read it again, then repeat the change.`,
  );
}
