/** Where a file really is, or would be if somebody made it now. */
import { lstat, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** The real path, as far as it is there, and the rest as it is written; null where a link on the way leads nowhere. */
export async function futurePath(path: string): Promise<string | null> {
  try {
    return await realpath(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error; // realpath rejects with nothing else
    if (await isLink(path)) return null;
    const folder = await futurePath(dirname(path));
    return folder === null ? null : join(folder, basename(path));
  }
}

async function isLink(path: string): Promise<boolean> {
  return lstat(path).then(
    (facts) => facts.isSymbolicLink(),
    () => false,
  );
}
