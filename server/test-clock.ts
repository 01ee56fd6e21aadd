/** The time of day: waited for, or set by a test while a server runs as a process, by a library that is loaded before the C library. */
import { execFile } from 'node:child_process';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
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

/** Usage is told, and quotas begin anew, by days of UTC: what takes so long would see two of them over midnight. */
export async function untilFarFromMidnight(takesMs: number): Promise<void> {
  const dayMs = 86_400_000;
  const leftMs = dayMs - (Date.now() % dayMs);
  // A timer may be a millisecond early.
  if (leftMs < takesMs) await delay(leftMs + 10);
}
