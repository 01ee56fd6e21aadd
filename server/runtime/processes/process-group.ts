/** Starts a process so that all it starts can be found again, and ends it with all of them. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { processesWithEnvironment, processTree } from './process-tree.ts';

/** A process as an argument vector, never as a line for a shell. */
export interface GroupCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The whole environment of the process; nothing of the server's is added. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdio: SpawnOptions['stdio'];
}

/** A process that leads a group of its own. */
export interface ProcessGroup {
  readonly child: ChildProcess;
  /** Resolves when the process itself has ended; rejects when it could not be started. */
  readonly exited: Promise<void>;
  /**
   * Asks all of them to end, and waits a while for the first.
   * @param wrapped whether the process only starts the real one, and must outlive its polite end
   */
  endPolitely(graceMs: number, wrapped: boolean): Promise<void>;
  /** Ends whatever is left. */
  endCertainly(): Promise<void>;
}

/** Starts the process; one that cannot be started says so by `exited`. */
export function startGroup({ file, args, cwd, env, stdio }: GroupCommand): ProcessGroup {
  // The mark finds processes that left the group and lost their parent.
  const [name, value] = ['SERVICE_COMMAND', randomBytes(12).toString('hex')];
  // A session and process group of its own, so that the group can be signalled.
  const child = spawn(file, args, { cwd, env: { ...env, [name]: value }, stdio, detached: true });
  const exited = Promise.withResolvers<void>();
  child.once('exit', () => exited.resolve());
  child.once('error', exited.reject);
  return {
    child,
    exited: exited.promise,
    endPolitely: (graceMs, wrapped) => endPolitely(child, exited.promise, graceMs, wrapped),
    endCertainly: () => endCertainly(child, `${name}=${value}`, exited.promise),
  };
}

async function endPolitely(
  child: ChildProcess,
  exited: Promise<void>,
  graceMs: number,
  wrapped: boolean,
): Promise<void> {
  if (child.pid === undefined) return;
  const { descendants } = processTree(child.pid);
  for (const pid of descendants) sendSignal(pid, 'SIGTERM');
  // A wrapper that ends takes the command with it at once, which would leave no time to end politely.
  if (!wrapped) sendSignal(-child.pid, 'SIGTERM');
  await Promise.race([exited, delay(graceMs, undefined, { ref: false })]);
}

async function endCertainly(child: ChildProcess, mark: string, exited: Promise<void>): Promise<void> {
  if (child.pid === undefined) return;
  // In rounds, because a process may fork between being listed and being killed.
  for (let round = 0; round < 5; round += 1) {
    const left = [...processTree(child.pid).descendants, ...processesWithEnvironment(mark)];
    sendSignal(-child.pid, 'SIGKILL');
    for (const pid of left) sendSignal(pid, 'SIGKILL');
    if (left.length === 0) break;
    await delay(10);
  }
  await exited;
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // `as`: kill throws errno errors only. Gone already is what was wanted; EPERM is macOS' word for zombies in a group.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ESRCH' && code !== 'EPERM') throw error;
  }
}
