/** A time of day that a test sets while a server runs as a process: a library that is loaded before the C library shifts it. */
import { execFile } from 'node:child_process';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findExecutable } from './runtime/processes/executable.ts';

const source = join(import.meta.dirname, 'test-clock.c');
const compiler = findExecutable('cc');

/** Linux alone lets a library stand before that of C; without a compiler SQLite's driver is not there either. */
export const canShiftClocks = process.platform === 'linux' && compiler !== null;

export interface ShiftedClock {
  /** What the server is started with. */
  readonly variables: Readonly<Record<string, string>>;
  /** Sets the clock that many hours off from what it truly is. */
  shift(hours: number): Promise<void>;
}

/** Clocks that are set each by itself, of servers that are started in this folder. */
export async function shiftedClocks(folder: string): Promise<(name: string) => Promise<ShiftedClock>> {
  const library = join(folder, 'clock.so');
  await promisify(execFile)(compiler ?? 'cc', ['-shared', '-fPIC', '-o', library, source, '-ldl']);
  return async (name) => {
    const file = join(folder, `${name}.clock`);
    const shift = async (hours: number) => {
      const seconds = Buffer.alloc(8);
      seconds.writeBigInt64LE(BigInt(hours * 3600));
      // In place: the server has these bytes in its memory.
      const written = await open(file, 'a+').then((handle) => handle.close().then(() => open(file, 'r+')));
      await written.write(seconds, 0, 8, 0).finally(() => written.close());
    };
    await shift(0);
    return { shift, variables: { LD_PRELOAD: library, TEST_CLOCK_FILE: file } };
  };
}
