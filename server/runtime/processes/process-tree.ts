// Reads from /proc which processes a command has started; empty on systems without it.
import { readdirSync, readFileSync } from 'node:fs';
import { processStat } from '../../process-stat.ts';

/** A process and all that descend from it. */
export interface ProcessTree {
  /** The descendants, without the root itself. */
  readonly descendants: readonly number[];
  /** Resident memory of them all; shared pages count once for each process. */
  readonly residentBytes: number;
}

/** The processes of the machine, at one moment. */
export interface ProcessTable {
  /** Everything that the process has started and that still hangs below it. */
  below(root: number): ProcessTree;
  /** Those that have begun since then, by the time that a process is told of; all where nobody knows since when. */
  since(start: string | null): readonly number[];
}

export function processTable(): ProcessTable {
  const all = processIds().flatMap((pid) => {
    const stat = processStat(pid);
    return stat ? [{ pid, ...stat }] : [];
  });
  const byParent = Map.groupBy(all, (process) => process.parent);
  return {
    below(root) {
      const found: (typeof all)[number][] = [];
      const queue = [root];
      for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
        const children = byParent.get(pid) ?? [];
        found.push(...children);
        queue.push(...children.map((child) => child.pid));
      }
      return {
        descendants: found.map((process) => process.pid),
        residentBytes: found.reduce((sum, process) => sum + process.residentBytes, 0),
      };
    },
    since: (start) =>
      all.filter((process) => Number(process.start) >= Number(start)).map((process) => process.pid),
  };
}

/** The same of one process alone. */
export function processTree(root: number): ProcessTree {
  return processTable().below(root);
}

/** Whether the process carries this entry in the environment it was started with, wherever it hangs by now. */
export function hasEnvironment(pid: number, entry: string): boolean {
  return environmentOf(pid)?.split('\0').includes(entry) ?? false;
}

function processIds(): readonly number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc').map(Number).filter(Number.isInteger);
}

function environmentOf(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    // Ended in the meantime, or someone else's: in both cases not one of ours to see.
    return null;
  }
}
