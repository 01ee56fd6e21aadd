// Runs one command with a limit of time, and leaves none of its processes behind.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { processesWithEnvironment, processTree } from './process-tree.ts';

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
  const mark = `SERVICE_COMMAND=${randomBytes(12).toString('hex')}`;
  const child = start(request, mark);
  const exited = Promise.withResolvers<void>();
  child.once('exit', () => exited.resolve());
  child.once('error', exited.reject);
  const closed = Promise.withResolvers<void>();
  child.once('close', () => closed.resolve());
  const stop = stopRequested(request, child);
  try {
    const reason = await Promise.race([exited.promise.then(() => 'exited' as const), stop.promise]);
    if (reason !== 'exited') await endPolitely(child, request, exited.promise);
    await endCertainly(child, mark, exited.promise);
    await Promise.race([closed.promise, delay(DRAIN_MS, undefined, { ref: false })]);
    return { reason, exitCode: child.exitCode, signalName: child.signalCode };
  } finally {
    stop.dispose();
    child.stdin?.destroy();
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}

function start(request: CommandRequest, mark: string): ChildProcess {
  const [name, value] = mark.split('=');
  const child = spawn(request.file, request.args, {
    cwd: request.cwd,
    // The mark finds processes that left the group and lost their parent.
    env: { ...request.env, [String(name)]: value },
    stdio: [request.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    // A session and process group of its own, so that the group can be signalled.
    detached: true,
  });
  child.stdout?.on('data', (chunk: Buffer) => request.onOutput(chunk, 'stdout'));
  child.stderr?.on('data', (chunk: Buffer) => request.onOutput(chunk, 'stderr'));
  // A command need not read its input: how it ends is what counts, not whether the pipe broke.
  child.stdin?.on('error', () => undefined).end(request.input);
  return child;
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
  const watch = limits && setInterval(() => watchTree(child, limits, resolve), WATCH_MS);
  request.signal.addEventListener('abort', onAbort, { once: true });
  const dispose = () => {
    clearTimeout(timer);
    clearInterval(watch);
    request.signal.removeEventListener('abort', onAbort);
  };
  return { promise, dispose };
}

/** The kernel's own limits count per process or spare root; this one counts the whole tree, for every user. */
function watchTree(child: ChildProcess, limits: TreeLimits, stop: (reason: StopReason) => void): void {
  if (child.pid === undefined) return;
  const { descendants, residentBytes } = processTree(child.pid);
  if (descendants.length > limits.processes) stop('too_many_processes');
  if (residentBytes > limits.memoryBytes) stop('too_much_memory');
}

async function endPolitely(
  child: ChildProcess,
  request: CommandRequest,
  exited: Promise<void>,
): Promise<void> {
  if (child.pid === undefined) return;
  const { descendants } = processTree(child.pid);
  for (const pid of descendants) sendSignal(pid, 'SIGTERM');
  // A wrapper that ends takes the command with it at once, which would leave no time to end politely.
  if (!request.wrapped) sendSignal(-child.pid, 'SIGTERM');
  await Promise.race([exited, delay(request.graceMs ?? GRACE_MS, undefined, { ref: false })]);
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
