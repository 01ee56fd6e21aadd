/** Names a process among all that share a database or a file, so that another on the same machine can tell that it has died. */
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { processStat } from './process-stat.ts';

/** Of a machine or a process that cannot be named: nobody can then say that it has died. */
const unknown = '-';

/** The name of this process, another one at each call: `<machine>/<process id>/<start>/<random>`. */
export function nameOwner(): string {
  return [machine(), process.pid, startOf(process.pid) ?? unknown, randomUUID()].join('/');
}

/**
 * Whether the owner's process has surely died. False also where nobody can tell from here: another machine, an earlier
 * boot, another container, or a system without /proc.
 */
export function hasDied(owner: string): boolean {
  return fateOf(owner) === 'died';
}

/** What can be said of the owner's process from here. */
export function fateOf(owner: string): 'lives' | 'died' | 'unknown' {
  const [theirMachine, pid, start] = owner.split('/');
  if (start === undefined || start === unknown || theirMachine === unknown || theirMachine !== machine())
    return 'unknown';
  const now = startOf(Number(pid));
  // Another process may have the number by now; it began later.
  if (now !== null) return now === start ? 'lives' : 'died';
  return exists(Number(pid)) ? 'unknown' : 'died';
}

/**
 * One kernel from boot to shutdown, and the namespaces that process ids and start times are counted in: equal names mean
 * that both see the same processes. Namespaces that live at the same time never have the same number.
 */
function machine(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return [boot, namespace('pid'), existsSync('/proc/self/ns/time') ? namespace('time') : ''].join('.');
  } catch {
    return unknown;
  }
}

function namespace(name: string): string {
  return /\d+/.exec(readlinkSync(`/proc/self/ns/${name}`))?.[0] ?? unknown;
}

/** When the process began, in ticks since boot; null where it is not to be seen. Dead and merely not buried began never. */
function startOf(pid: number): string | null {
  const stat = processStat(pid);
  return stat?.ended ? 'dead' : (stat?.start ?? null);
}

/** /proc may hide the processes of others; a signal that is not sent finds them all the same. */
function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}
