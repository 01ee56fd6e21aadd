/** What a process and those that it has started have used and hold, as Linux counts it; nothing elsewhere. */
import { readFileSync } from 'node:fs';
import { processStat } from '../process-stat.ts';

export interface TreeUsage {
  /** Of those that have ended and were waited for, too. */
  readonly cpuMs: number;
  readonly residentBytes: number;
}

export function usageOf(pid: number): TreeUsage {
  return [...childrenOf(pid)].map(usageOf).reduce(sum, ownUsage(pid));
}

function ownUsage(pid: number): TreeUsage {
  const { cpuMs = 0, endedCpuMs = 0, residentBytes = 0 } = processStat(pid) ?? {};
  return { cpuMs: cpuMs + endedCpuMs, residentBytes };
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
