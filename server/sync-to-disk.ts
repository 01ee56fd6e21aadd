/** What has to be there after a power cut: until it was brought to the disk, the system may hold it in memory alone. */
import { open } from 'node:fs/promises';

/** The bytes of a file; of a folder the names in it, by which a file is found that was made, linked or renamed there. */
export async function syncToDisk(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
