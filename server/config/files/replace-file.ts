/** Replaces a file as a whole: whoever reads it, and whatever is interrupted, finds the old bytes or the new ones. */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** How a file is replaced. */
export interface Replacement {
  /** The permissions of the new file, whatever the umask. */
  readonly mode: number;
  /** Who the new file belongs to; whoever writes it, if absent. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** Called right before the new file takes the old one's place; nothing is replaced where it throws. */
  readonly lastLook?: () => Promise<void>;
}

/**
 * Puts the bytes in the file's place. In a folder that strangers filled, a temporary file of a name that can be guessed
 * could be a link to somewhere else: this one has a name that cannot, and is only ever made anew.
 */
export async function replaceFile(
  file: string,
  bytes: Uint8Array,
  { mode, owner, lastLook }: Replacement,
): Promise<void> {
  const temporary = `${file}.${randomBytes(8).toString('hex')}.tmp`;
  try {
    await using handle = await open(temporary, 'wx', 0o600);
    await handle.writeFile(bytes);
    await handOver(handle, owner);
    await handle.chmod(mode);
    await handle.sync();
    await lastLook?.();
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(dirname(file));
}

async function handOver(handle: FileHandle, owner: Replacement['owner']): Promise<void> {
  const { uid, gid } = await handle.stat();
  if (owner && (owner.uid !== uid || owner.gid !== gid)) await handle.chown(owner.uid, owner.gid);
}

/**
 * Without this a power cut could forget the new name, though it kept the bytes. Not every file system can do it, and
 * the file is replaced by now.
 */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => null);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}
