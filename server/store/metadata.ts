/** Merges a patch into the metadata of a session (RFC 7396): null removes a member. */
import type { SessionUpdate } from '../contract/api.ts';
import { Problem } from '../problem.ts';

/** As the contract has it for metadata; a patch alone cannot show that it will be passed. */
const mostMembers = 50;

/** Metadata as it is stored, with the patch applied. A name like `__proto__` is a member like any other here. */
export function mergeMetadata(stored: string, patch: NonNullable<SessionUpdate['metadata']>): string {
  const present: Record<string, string> = JSON.parse(stored);
  const merged = new Map<string, string | null>([...Object.entries(present), ...Object.entries(patch)]);
  const members = [...merged].filter(([, value]) => value !== null);
  if (members.length > mostMembers) throw tooManyMembers(members.length);
  return JSON.stringify(Object.fromEntries(members));
}

function tooManyMembers(count: number): Problem {
  const message = `At most ${mostMembers} members after the merge; there would be ${count}.`;
  return new Problem(
    'invalid_request',
    `The metadata would hold too much. ${message} Remove some with null.`,
    {
      errors: [{ in: 'body', pointer: '/metadata', message, code: 'maxProperties' }],
    },
  );
}
