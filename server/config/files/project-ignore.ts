/** Keeps what the service writes into a project out of its repository, but for the settings. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from './make-folder.ts';

const text = `# All that is kept here belongs to this machine, but for the settings.
*
!service.json
`;

/** Makes the folder if need be, and lets git ignore all in it but `service.json`. What stands there already stays. */
export async function writeProjectIgnore(folder: string): Promise<void> {
  await makeFolder(folder);
  try {
    await writeFile(join(folder, '.gitignore'), text, { flag: 'wx', mode: 0o644 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // writeFile rejects with nothing else
  }
}
