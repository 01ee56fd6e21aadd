/** A small disk of its own for a server that runs as a process, which tests fill up and free again. */
import { spawnSync } from 'node:child_process';
import { mkdir, open, rm, stat, statfs, truncate } from 'node:fs/promises';
import { join } from 'node:path';

/** What makes a process see mounts that nobody else sees: for root, and for others where the kernel lets them. */
const namespaces: readonly (readonly string[])[] = [
  ['unshare', '--mount', '--'],
  ['unshare', '--user', '--map-current-user', '--keep-caps', '--mount', '--'],
];

const mount = 'mount -t tmpfs -o size="$1" tmpfs "$0"';

/** How a mount of one's own is made here; null where the machine allows none. */
export const mountsOfItsOwn: readonly string[] | null =
  namespaces.find(
    ([command = '', ...words]) =>
      spawnSync(command, [...words, 'sh', '-c', mount, '/mnt', '64k'], { stdio: 'ignore' }).status === 0,
  ) ?? null;

/** What a server is started through, so that this folder is a disk of that size for it alone. */
export async function smallDisk(folder: string, size: string): Promise<readonly string[]> {
  if (!mountsOfItsOwn) throw new Error('No mount can be made here.');
  await mkdir(folder, { recursive: true });
  return [...mountsOfItsOwn, 'sh', '-c', `${mount} && shift && exec "$@"`, folder, size];
}

/** The folder as the process sees it. */
export function seenBy(pid: number, folder: string): string {
  return join('/proc', String(pid), 'root', folder);
}

/** Writes until there is no room for one byte more; answers with what frees it again. */
export async function fillDisk(folder: string): Promise<() => Promise<void>> {
  const filler = join(folder, 'filler');
  const file = await open(filler, 'w');
  try {
    for (const bytes of [65_536, 4096, 1]) while (await hasRoom(() => file.write(Buffer.alloc(bytes))));
  } finally {
    await file.close();
  }
  return () => rm(filler);
}

/** As where others delete something now and then on a disk that is full: at least so many bytes are free. */
export async function keepLittleRoom(folder: string, bytes = 300_000): Promise<void> {
  const filler = join(folder, 'filler');
  const { bavail, bsize } = await statfs(folder);
  const { size } = await stat(filler);
  if (bavail * bsize < bytes) await truncate(filler, Math.max(0, size - bytes));
}

async function hasRoom(write: () => Promise<{ readonly bytesWritten: number }>): Promise<boolean> {
  try {
    return (await write()).bytesWritten > 0;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOSPC') return false;
    throw error;
  }
}
