/** Lets one process at a time change a file, and outlives processes that die while they change it. */
import { randomUUID } from 'node:crypto';
import { link, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fateOf, nameOwner } from '../../process-name.ts';
import { makeFolder } from './make-folder.ts';

/** Who holds a lock. */
interface Holder {
  readonly token: string;
  /** The process as all on this machine know it; older programs leave it out. */
  readonly owner?: string;
  readonly pid: number;
  readonly host: string;
}

/** A change takes milliseconds: who waits longer waits for something that hangs. */
const usualPatienceMs = 10_000;
/** Where nobody can see whether a process lives, because it runs elsewhere or its number may have been given away again. */
const staleAfterMs = 30_000;

/** Thrown where a lock is not given back. */
export class LockError extends Error {
  /** The file to remove when nobody changes anything. */
  readonly file: string;

  constructor(file: string, patienceMs: number) {
    super(`Another process has held ${file} for more than ${patienceMs / 1000} seconds`);
    this.name = 'LockError';
    this.file = file;
  }
}

/**
 * Runs the action while nobody else runs one under the same name in the same folder, which is made if need be.
 *
 * @param patienceMs - How long to wait for the others, where their actions take more than a change of a file.
 */
export async function withLock<T>(
  folder: string,
  name: string,
  action: () => Promise<T>,
  patienceMs: number = usualPatienceMs,
): Promise<T> {
  await makeFolder(folder);
  const file = join(folder, `${name}.lock`);
  const token = randomUUID();
  const holder: Holder = { token, owner: nameOwner(), pid: process.pid, host: hostname() };
  await acquire(file, holder, patienceMs);
  try {
    return await action();
  } finally {
    if ((await holderOf(file))?.token === holder.token) await rm(file, { force: true });
  }
}

async function acquire(file: string, holder: Holder, patienceMs: number): Promise<void> {
  const deadline = Date.now() + patienceMs;
  while (!(await take(file, holder))) {
    if (Date.now() > deadline) throw new LockError(file, patienceMs);
    await removeIfAbandoned(file, file, holder);
    // Those who wait must not come back all at once.
    await pause(1 + Math.random() * 10);
  }
}

/** The lock appears whole, saying who holds it: a hard link never replaces a file. */
async function take(file: string, holder: Holder): Promise<boolean> {
  const whole = `${file}.${randomUUID()}`;
  await writeFile(whole, JSON.stringify(holder), { flag: 'wx', mode: 0o600 });
  try {
    await link(whole, file);
    return true;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    return false;
  } finally {
    await rm(whole, { force: true });
  }
}

/**
 * Of those who find a lock abandoned, only one may remove it, and only that very lock: it could have been removed and
 * taken anew meanwhile. So they compete for a second file, named after the one who died; and who wins that may die, too.
 */
async function removeIfAbandoned(file: string, lock: string, holder: Holder): Promise<void> {
  const gone = await holderOf(file);
  if (!gone || !(await isAbandoned(file, gone))) return;
  const claim = `${lock}.${gone.token}`;
  if (!(await take(claim, holder))) return removeIfAbandoned(claim, lock, holder);
  if ((await holderOf(file))?.token === gone.token) await rm(file, { force: true });
  await rm(claim, { force: true });
}

async function isAbandoned(file: string, holder: Holder): Promise<boolean> {
  const fate = fateOf(holder.owner ?? '');
  // One that stood still, as on a machine that slept, goes on with what it read before.
  if (fate !== 'unknown') return fate === 'died';
  if (holder.host === hostname() && !isAlive(holder.pid)) return true;
  const age = await ageOf(file);
  return age !== null && age > staleAfterMs;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Another person's process lives too.
    return codeOf(error) === 'EPERM';
  }
}

async function ageOf(file: string): Promise<number | null> {
  try {
    return Date.now() - (await stat(file)).mtimeMs;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** Null where nobody holds the lock, and where something else lies in its place. */
async function holderOf(file: string): Promise<Holder | null> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Holder; // written by `take`
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || error instanceof SyntaxError) return null;
    throw error;
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code; // the file system rejects with nothing else
}
