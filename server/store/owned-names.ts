/** Names of files that say which process is at work on them: what one that was killed has left is known by them. */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { fateOf, nameOwner } from '../process-name.ts';

export function ownedName(beginning: string): string {
  return `${beginning}~${encodeURIComponent(nameOwner())}`;
}

const pattern = /^.+~([\w.-]+%2F\d+%2F[\w-]+%2F[\da-f-]{36})(\.files|-journal|-wal|-shm)?$/;

export function isOwnedName(name: string): boolean {
  return pattern.test(name);
}

/** Where nobody can tell whether its process has died, a file that was not written to for so long is nobody's. */
const leftoverMs = 86_400_000;

/** Whether nobody is at work on it any more; the name is an owned one. */
export async function isLeft(path: string): Promise<boolean> {
  const [, owner = ''] = pattern.exec(basename(path)) ?? [];
  const fate = fateOf(decodeURIComponent(owner));
  return fate === 'died' || (fate === 'unknown' && Date.now() - (await stat(path)).mtimeMs >= leftoverMs);
}
