/** Makes folders that are for this person alone, and says truly what keeps one from being made. */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';

const mode = 0o700;

/** Makes the folder with those that it is to be in. */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode });
  } catch (error) {
    // On what is mounted read-only, Node says of the folder alone that it is not there.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error; // `as`: mkdir rejects with nothing else
    await mkdir(firstMissing(folder), { mode });
    await mkdir(folder, { recursive: true, mode });
  }
}

function firstMissing(folder: string): string {
  const above = dirname(folder);
  return above === folder || existsSync(above) ? folder : firstMissing(above);
}
