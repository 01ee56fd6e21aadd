/** What a process and those that it has started have used and hold, as Linux counts it; nothing elsewhere. */
import { readFileSync } from 'node:fs';

export interface TreeUsage {
  /** Of those that have ended and were waited for, too. */
  readonly cpuMs: number;
  readonly residentBytes: number;
}

/** Linux counts process time in hundredths of a second, and memory in pages. */
const msPerTick = 10;
const pageBytes = 4096;

export function usageOf(pid: number): TreeUsage {
  return [...childrenOf(pid)].map(usageOf).reduce(sum, ownUsage(pid));
}

function ownUsage(pid: number): TreeUsage {
  // The name in brackets may hold spaces and brackets; field 3 comes behind the last one.
  const fields = read(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ');
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15).map(Number);
  const resident = Number(fields[21] ?? 0);
  return {
    cpuMs: (user + system + endedUser + endedSystem) * msPerTick,
    residentBytes: resident * pageBytes,
  };
}

function* childrenOf(pid: number): Generator<number> {
  for (const child of read(`/proc/${pid}/task/${pid}/children`).trim().split(' '))
    if (child !== '') yield Number(child);
}

/** Of a process that is gone, nothing. */
function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function sum(one: TreeUsage, other: TreeUsage): TreeUsage {
  return {
    cpuMs: one.cpuMs + other.cpuMs,
    residentBytes: one.residentBytes + other.residentBytes,
  };
}
