/** Starts a process so that all it starts can be found again, and ends it with all of them. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { endAtExit } from '../../children-at-exit.ts';
import { processStat } from '../../process-stat.ts';
import { isRunnable } from './executable.ts';
import { hasEnvironment, processTable, processTree } from './process-tree.ts';
import { type TrackingGroup, tracking } from './tracking-group.ts';

/** A process as an argument vector, never as a line for a shell. */
export interface GroupCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The whole environment of the process; nothing of the server's is added. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdio: SpawnOptions['stdio'];
  /** Whether `file` is a sandbox, which takes all that it holds with it. */
  readonly wrapped: boolean;
}

/** A process that leads a group of its own. */
export interface ProcessGroup {
  readonly child: ChildProcess;
  /** Resolves when the process itself has ended; rejects when it could not be started. */
  readonly exited: Promise<void>;
  /** Asks all of them to end, and waits a while for the first; a sandbox must outlive the polite end of what it holds. */
  endPolitely(graceMs: number): Promise<void>;
  /** Ends whatever is left. */
  endCertainly(): Promise<void>;
}

/** Starts the process; one that cannot be started says so by `exited`. */
export function startGroup({ file, args, cwd, env, stdio, wrapped }: GroupCommand): ProcessGroup {
  // The mark finds processes that left the group and lost their parent.
  const [name, value] = ['SERVICE_COMMAND', randomBytes(12).toString('hex')];
  // A session and process group of its own, so that the group can be signalled.
  // Sessions, parents and environments can be left; the kernel's group, where there is one, not by accident.
  const held = wrapped || !isRunnable(file, cwd, env.PATH) ? null : openTracking();
  const [program = file, ...words] = held ? [...held.entering, file, ...args] : [file, ...args];
  const child = begin(program, words, { cwd, env: { ...env, [name]: value }, stdio, detached: true }, held);
  endAtExit(child);
  const begun = child.pid === undefined ? null : (processStat(child.pid)?.start ?? null);
  const exited = Promise.withResolvers<void>();
  // Also heard where whoever began it fails at its pipes, of which there are none then.
  exited.promise.catch(() => undefined);
  child.once('exit', () => exited.resolve());
  child.once('error', (error) => {
    exited.reject(error);
    void held?.end();
  });
  return {
    child,
    exited: exited.promise,
    endPolitely: (graceMs) => endPolitely(child, exited.promise, graceMs, wrapped),
    async endCertainly() {
      await endCertainly(child, { entry: `${name}=${value}`, begun }, exited.promise).finally(() =>
        held?.end(),
      );
    },
  };
}

/** What is too long for the kernel fails here, and not as an event. */
function begin(
  program: string,
  words: readonly string[],
  options: SpawnOptions,
  held: TrackingGroup | null,
): ChildProcess {
  try {
    return spawn(program, words, options);
  } catch (error) {
    void held?.end();
    throw error;
  }
}

function openTracking(): TrackingGroup | null {
  const groups = tracking();
  return 'unavailable' in groups ? null : groups.open();
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

/** By what the processes of a command are found, wherever they hang: each has inherited it. */
interface Mark {
  readonly entry: string;
  /** When the first of them began: nothing older is looked at. Null where nobody could see. */
  readonly begun: string | null;
}

/** Two seconds in all. */
const mostRounds = 22;
const pauseMs = { first: 10, longest: 100 };
/** A busy machine comes to one that was killed later than that. */
const lastWaitMs = 5000;

async function endCertainly(child: ChildProcess, mark: Mark, exited: Promise<void>): Promise<void> {
  if (child.pid === undefined) return;
  // In rounds, because a process may fork between being listed and being killed, and one that is killed ends when the
  // machine comes to it. What the kernel keeps for longer, such as one that waits for a lost disk, is waited for no more;
  // nor is the process itself, which may bear no mark that can be read.
  for (let round = 0; round < mostRounds; round += 1) {
    const table = processTable();
    const marked = table.since(mark.begun).filter((pid) => hasEnvironment(pid, mark.entry));
    const left = [...table.below(child.pid).descendants, ...marked];
    sendSignal(-child.pid, 'SIGKILL');
    for (const pid of left) sendSignal(pid, 'SIGKILL');
    if (left.length === 0) break;
    await delay(Math.min(2 ** round * pauseMs.first, pauseMs.longest));
  }
  await Promise.race([exited, delay(lastWaitMs, undefined, { ref: false })]);
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
