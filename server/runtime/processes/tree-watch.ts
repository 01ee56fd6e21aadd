/** Watches what the processes of commands use: one look at the machine's processes serves all who want to know. */
import { type ProcessTable, type ProcessTree, processTable } from './process-tree.ts';

interface Watched {
  readonly root: number;
  readonly everyMs: number;
  readonly told: (tree: ProcessTree) => void;
}

/** A look reads a file for each process of the machine. Where there are many, so much more of the time is for others. */
const restFactor = 20;
const longestMs = 1000;

const watched = new Set<Watched>();
let timer: NodeJS.Timeout | undefined;
let lookedAt = 0;
let lookMs = 0;

/** Tells of all that the process has started, so often or somewhat less, until the answer is called. */
export function watchTree(root: number, everyMs: number, told: Watched['told']): () => void {
  const one: Watched = { root, everyMs, told };
  if (watched.size === 0) lookedAt = performance.now();
  watched.add(one);
  plan();
  return () => {
    watched.delete(one);
    plan();
  };
}

/** Anew for each who comes or goes: the next look is due for whoever wants it most often. */
function plan(): void {
  clearTimeout(timer);
  if (watched.size === 0) return;
  const everyMs = Math.min(...[...watched].map((one) => one.everyMs));
  const due = lookedAt + Math.max(everyMs, Math.min(restFactor * lookMs, longestMs));
  // Where the process was busy it is overdue, and Node warns of negative times: in the terminal of whoever runs a command.
  timer = setTimeout(look, Math.max(0, due - performance.now())).unref();
}

function look(): void {
  const before = process.threadCpuUsage();
  const table = tableNow();
  for (const { root, told } of [...watched]) if (table) told(table.below(root));
  lookedAt = performance.now();
  const { user, system } = process.threadCpuUsage(before);
  lookMs = (user + system) / 1000;
  plan();
}

/** Null where this process has no file left to look with: the next look may have one. */
function tableNow(): ProcessTable | null {
  try {
    return processTable();
  } catch {
    return null;
  }
}
