// What lies beside a file while its new content is written; a process that is killed meanwhile leaves it there.
import { randomBytes } from 'node:crypto';
import { lstat, readdir, rm } from 'node:fs/promises';

/** No write takes as long. */
const leftAfterMs = 60 * 60_000;
/** In a folder of more, nobody looks for what was left. */
const mostEntries = 10_000;
const named = /^\.service-[0-9a-f]{16}\.tmp$/;

/** Tells whoever finds one whose it is. */
export function temporaryName(): string {
  return `.service-${randomBytes(8).toString('hex')}.tmp`;
}

/** For what a file held until a change of several is done: it may be the only copy, so that nobody but its maker removes it. */
export function backupName(): string {
  return `.service-${randomBytes(8).toString('hex')}.old`;
}

/** Removes what was left in a folder, of which `entry` gives the path of an entry. */
export async function removeLeftTemporaries(entry: (name: string) => string): Promise<void> {
  const names = await readdir(entry('.'));
  if (names.length > mostEntries) return;
  for (const name of names.filter((one) => named.test(one))) {
    const stats = await lstat(entry(name)).catch(() => null); // another process has removed it
    if (stats?.isFile() && Date.now() - stats.mtimeMs > leftAfterMs) await rm(entry(name), { force: true });
  }
}
