// Runs one command with a limit of time, and leaves none of its processes behind.
import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { type ProcessGroup, startGroup } from '../processes/process-group.ts';
import type { ProcessTree } from '../processes/process-tree.ts';
import { watchTree } from '../processes/tree-watch.ts';
import { readPaced } from './paced-output.ts';

/** What all processes of a command may use together. */
export interface TreeLimits {
  readonly processes: number;
  readonly memoryBytes: number;
}

/** A command as an argument vector, never as a line for a shell. */
export interface CommandRequest {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The whole environment of the command; nothing of the server's is added. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** What the command reads from its standard input; without it there is nothing to read. */
  readonly input?: string;
  /** Between the polite and the certain end; two seconds if absent. */
  readonly graceMs?: number;
  /** Whether `file` only starts the real command and must outlive its polite end. */
  readonly wrapped: boolean;
  readonly limits?: TreeLimits | undefined;
  readonly onOutput: (chunk: Buffer, from: 'stdout' | 'stderr') => void;
}

/** Why and how a command ended. */
export interface CommandEnd {
  readonly reason: 'exited' | 'timed_out' | 'interrupted' | 'too_many_processes' | 'too_much_memory';
  readonly exitCode: number | null;
  /** The signal that ended it, when no exit code did. */
  readonly signalName: string | null;
}

const GRACE_MS = 2000;
const WATCH_MS = 200;
/** How long to wait for the output's end once every process should be gone. */
const DRAIN_MS = 1000;

/** Runs the command to its end; every process it started ends with it. */
export async function runCommand(request: CommandRequest): Promise<CommandEnd> {
  request.signal.throwIfAborted();
  const group = start(request);
  const { child, exited } = group;
  const closed = Promise.withResolvers<void>();
  child.once('close', () => closed.resolve());
  const stop = stopRequested(request, child);
  try {
    const reason = await Promise.race([exited.then(() => 'exited' as const), stop.promise]);
    if (reason !== 'exited') await group.endPolitely(request.graceMs ?? GRACE_MS);
    await group.endCertainly();
    await Promise.race([closed.promise, delay(DRAIN_MS, undefined, { ref: false })]);
    return { reason, exitCode: child.exitCode, signalName: child.signalCode };
  } finally {
    stop.dispose();
    child.stdin?.destroy();
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}

function start(request: CommandRequest): ProcessGroup {
  const group = startGroup({
    ...request,
    stdio: [request.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  const { child } = group;
  if (child.stdout) readPaced(child.stdout, (chunk) => request.onOutput(chunk, 'stdout'));
  if (child.stderr) readPaced(child.stderr, (chunk) => request.onOutput(chunk, 'stderr'));
  // A command need not read its input: how it ends is what counts, not whether the pipe broke.
  child.stdin?.on('error', () => undefined).end(request.input);
  return group;
}

type StopReason = Exclude<CommandEnd['reason'], 'exited'>;

function stopRequested(
  request: CommandRequest,
  child: ChildProcess,
): { promise: Promise<StopReason>; dispose(): void } {
  const { promise, resolve } = Promise.withResolvers<StopReason>();
  const onAbort = () => resolve('interrupted');
  const timer = setTimeout(() => resolve('timed_out'), request.timeoutMs);
  const { limits } = request;
  const unwatch =
    limits && child.pid !== undefined
      ? watchTree(child.pid, WATCH_MS, (tree) => hold(tree, limits, resolve))
      : () => undefined;
  request.signal.addEventListener('abort', onAbort, { once: true });
  const dispose = () => {
    clearTimeout(timer);
    unwatch();
    request.signal.removeEventListener('abort', onAbort);
  };
  return { promise, dispose };
}

/** The kernel's own limits count per process or spare root; this one counts the whole tree, for every user. */
function hold(
  { descendants, residentBytes }: ProcessTree,
  limits: TreeLimits,
  stop: (reason: StopReason) => void,
): void {
  if (descendants.length > limits.processes) stop('too_many_processes');
  if (residentBytes > limits.memoryBytes) stop('too_much_memory');
}
