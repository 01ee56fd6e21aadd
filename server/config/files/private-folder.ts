/** Folders that are for their owner alone. */
import type { Stats } from 'node:fs';
import { chmod } from 'node:fs/promises';

/**
 * Closes a folder of ours that others could only read: nothing in it is theirs. Where they could write, what is in it
 * may be, and it stays as it is. Returns whether it is closed now.
 */
export async function closeToOthers(folder: string, { mode }: Pick<Stats, 'mode'>): Promise<boolean> {
  if ((mode & 0o077) === 0) return true;
  if ((mode & 0o022) !== 0) return false;
  return await chmod(folder, 0o700).then(
    () => true,
    () => false, // As on a disk that cannot be written: then it is open, and whoever asks says what to do.
  );
}
