/** A file with secrets: nobody but its owner may read it, and nobody may have put it there for us. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/** The text of the file; null where there is none. Throws where others can read it or change what it is. */
export async function readPrivateFile(file: string): Promise<string | null> {
  const handle = await openPlainFile(file);
  if (!handle) return null;
  try {
    await assertPrivateFolder(dirname(file));
    const { mode, uid } = await handle.stat();
    if (uid !== process.getuid?.()) throw refusal(file, 'belongs to somebody else', `remove it`);
    if ((mode & 0o077) !== 0) throw refusal(file, 'can be read by others', `chmod 600 ${file}`);
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

/** Replaces the file as a whole, so that nobody ever reads half of it. */
export async function writePrivateFile(file: string, text: string): Promise<void> {
  const { replaceFile } = await import('../../../server/config/config.ts');
  await makePrivateFolder(dirname(file));
  await replaceFile(file, Buffer.from(text), { mode: 0o600 });
}

/** Throws what would keep the file from being written, and leaves it as it is. */
export async function assertPrivateFileWritable(file: string): Promise<void> {
  await makePrivateFolder(dirname(file));
  const probe = `${file}.${randomUUID()}`;
  try {
    // With a byte in it: a full disk still takes empty files.
    await writeFile(probe, '\n', { flag: 'wx', mode: 0o600 });
  } finally {
    await rm(probe, { force: true });
  }
}

async function makePrivateFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await assertPrivateFolder(folder);
}

/** Not through a link, which could lead to a file that somebody else chose. */
async function openPlainFile(file: string) {
  try {
    const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
    throw refusal(file, 'is no plain file', 'remove it');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // the file system rejects with nothing else
    if (code === 'ENOENT') return null;
    throw code === 'ELOOP' ? refusal(file, 'is a symbolic link', 'remove it') : error;
  }
}

/** A link to it is as good: what counts is who can change what is in it. */
async function assertPrivateFolder(folder: string): Promise<void> {
  const facts = await stat(await realpath(folder));
  if (!facts.isDirectory()) throw refusal(folder, 'is no folder', 'remove it');
  if (facts.uid !== process.getuid?.()) throw refusal(folder, 'belongs to somebody else', 'remove it');
  const { closeToOthers } = await import('../../../server/config/config.ts');
  if (!(await closeToOthers(folder, facts)))
    throw refusal(folder, 'is open to others', `chmod 700 ${folder}`);
}

function refusal(path: string, fault: string, remedy: string): Error {
  return new Error(`${path} ${fault}, and it is for secrets: ${remedy}.`);
}
