/** What Linux counts of a process, in /proc. */
import { readFileSync } from 'node:fs';

export interface ProcessStat {
  /** It has ended, and its parent has not asked yet how. */
  readonly ended: boolean;
  readonly parent: number;
  /** What the processor did for it, for all of its threads. */
  readonly cpuMs: number;
  /** The same of those that it started, which have ended and were waited for. */
  readonly endedCpuMs: number;
  /** In ticks since boot: two processes of one number differ in it. */
  readonly start: string;
  /** Memory that it holds; what it shares with others counts as well. */
  readonly residentBytes: number;
}

/** The kernel tells programs of hundredths of a second, whatever it counts in itself. */
const msPerTick = 10;
const pageBytes = 4096;

/** Null where there is none of that number, where it is not shown to us, and on other systems. */
export function processStat(pid: number): ProcessStat | null {
  const line = read(pid);
  if (line === null) return null;
  // The second field is the name in parentheses and may hold anything: the third comes behind the last of those.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
  const field = (number: number): string => fields[number - 3] ?? '';
  const ms = (...numbers: number[]) =>
    numbers.reduce((sum, number) => sum + Number(field(number)), 0) * msPerTick;
  return {
    ended: field(3) === 'Z' || field(3) === 'X',
    parent: Number(field(4)),
    cpuMs: ms(14, 15),
    endedCpuMs: ms(16, 17),
    start: field(22),
    residentBytes: Number(field(24)) * pageBytes,
  };
}

function read(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    // Gone, hidden, or never there: nobody who asks could do more about one than about another.
    return null;
  }
}
