/** ETags: the revision of a row in quotes, which every change of what a caller sees raises, or a hash of what is seen. */
import { createHash } from 'node:crypto';
import { Problem } from '../problem.ts';

interface Revised {
  readonly revision: number;
}

export function etagOf(row: Revised): string {
  return `"${row.revision}"`;
}

/** For what has no revision of its own, and for what may be removed and made again under the same name. */
export function etagOfContent(content: unknown): string {
  const hash = createHash('sha256').update(JSON.stringify(content)).digest('base64url');
  return `"${hash.slice(0, 22)}"`;
}

/** Lets a change pass only if the row is still what the caller has read. */
export function requireMatch(ifMatch: string | undefined, row: Revised): void {
  requireTag(ifMatch, etagOf(row));
}

/**
 * The same by the ETag itself; null where there is nothing yet, which no `If-Match` matches. Weak tags never match here
 * (RFC 9110 §13.1.1).
 */
export function requireTag(ifMatch: string | undefined, etag: string | null): void {
  if (ifMatch === undefined) return;
  if (etag === null)
    throw new Problem('precondition_failed', 'There is nothing yet that the If-Match could match.');
  if (ifMatch.trim() === '*') return;
  const tags: readonly string[] = ifMatch.match(/(W\/)?"[^"]*"/g) ?? [];
  if (tags.includes(etag)) return;
  throw new Problem(
    'precondition_failed',
    `The resource has changed since it was read: its ETag is ${etag} now. Read it again, then repeat the change.`,
  );
}
