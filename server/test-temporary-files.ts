/**
 * Keeps the temporary files of tests in memory, where there is room for them. Tests make and delete hundreds of thousands,
 * above all those of databases: on a disk that takes a tenth of the processors' time, since ext4 holds the numbers of deleted
 * files back for minutes, and each new file looks at all of those.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const memory = '/dev/shm';
const begin = 'service-tests-';

/** All tests together were seen to have 1.7 GiB there: some install the packages anew. */
const roomNeeded = 4 * 1024 ** 3;
/** What the files take is missing to the tests. */
const memoryNeeded = 8 * 1024 ** 3;

const dayMs = 86_400_000;

/** Before all tests; takes the folder away after them. Whoever sets TMPDIR has chosen another one. */
export function setup(): (() => Promise<void>) | undefined {
  // What is worth keeping from one run to the next goes here.
  process.env.TEST_LASTING_FOLDER = tmpdir();
  if (process.env.TMPDIR || !hasRoom()) return undefined;
  removeLeftovers();
  const folder = mkdtempSync(join(memory, begin));
  // As /tmp is: some tests start programs as somebody else.
  chmodSync(folder, 0o1777);
  if (canRunPrograms(folder)) process.env.TMPDIR = folder;
  return () => removeAtEnd(folder);
}

/** What ran the tests may still be ending, and writes what it has compiled while the folder goes. */
export async function removeAtEnd(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

function hasRoom(): boolean {
  if (!existsSync(memory)) return false;
  const { bavail, bsize } = statfsSync(memory);
  return bavail * bsize >= roomNeeded && process.availableMemory() >= memoryNeeded;
}

/** Of runs that were killed a day ago: nothing else takes them out of the memory. */
function removeLeftovers(): void {
  for (const name of readdirSync(memory).filter((one) => one.startsWith(begin))) {
    const folder = join(memory, name);
    const stats = statSync(folder, { throwIfNoEntry: false });
    const isLeft = stats && stats.uid === process.getuid?.() && Date.now() - stats.mtimeMs > dayMs;
    if (isLeft) rmSync(folder, { recursive: true, force: true });
  }
}

/** Some systems let no file of that place be run. */
function canRunPrograms(folder: string): boolean {
  const program = join(folder, 'program');
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 });
  const { status } = spawnSync(program);
  rmSync(program);
  return status === 0;
}
