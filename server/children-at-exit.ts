/** The groups of processes that end with this one, however it ends: a second Ctrl+C leaves no time to ask them. */
import type { ChildProcess } from 'node:child_process';

const leaders = new Set<number>();

/** @param child - Leads a process group of its own. */
export function endAtExit(child: ChildProcess): void {
  const { pid } = child;
  if (pid === undefined) return;
  if (leaders.size === 0) process.once('exit', killAll);
  leaders.add(pid);
  // Its number may be another's from then on.
  child.once('exit', () => {
    leaders.delete(pid);
    if (leaders.size === 0) process.off('exit', killAll);
  });
}

function killAll(): void {
  for (const pid of leaders)
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // It has ended meanwhile.
    }
}
