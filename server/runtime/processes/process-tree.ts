// Reads from /proc which processes a command has started; empty on systems without it.
import { readdirSync, readFileSync } from 'node:fs';

/** A process and all that descend from it. */
export interface ProcessTree {
  /** The descendants, without the root itself. */
  readonly descendants: readonly number[];
  /** Resident memory of them all; shared pages count once for each process. */
  readonly residentBytes: number;
}

const PAGE_BYTES = 4096;

/** Everything that the process has started and that still hangs below it. */
export function processTree(root: number): ProcessTree {
  const all = processIds().flatMap((pid) => statOf(pid) ?? []);
  const byParent = Map.groupBy(all, (process) => process.parent);
  const found: ProcessStat[] = [];
  const queue = [root];
  for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
    const children = byParent.get(pid) ?? [];
    found.push(...children);
    queue.push(...children.map((child) => child.pid));
  }
  const pages = found.reduce((sum, process) => sum + process.residentPages, 0);
  return { descendants: found.map((process) => process.pid), residentBytes: pages * PAGE_BYTES };
}

/** The processes that carry this entry in the environment they were started with, wherever they hang by now. */
export function processesWithEnvironment(entry: string): readonly number[] {
  return processIds().filter((pid) => readProc(pid, 'environ')?.split('\0').includes(entry));
}

interface ProcessStat {
  readonly pid: number;
  readonly parent: number;
  readonly residentPages: number;
}

function statOf(pid: number): ProcessStat | null {
  const stat = readProc(pid, 'stat');
  if (stat === null) return null;
  // The second field is the name in parentheses and may hold anything; the rest is numbers.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { pid, parent: Number(fields[1]), residentPages: Number(fields[21]) };
}

function processIds(): readonly number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc').map(Number).filter(Number.isInteger);
}

function readProc(pid: number, file: 'stat' | 'environ'): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    // Ended in the meantime, or someone else's: in both cases not one of ours to see.
    return null;
  }
}
