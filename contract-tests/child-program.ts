/** Runs a program as a child process: waits for the line that says it is ready, keeps what it prints, ends it by its id. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

export interface ProgramOptions {
  readonly environment?: NodeJS.ProcessEnv;
  readonly directory?: string;
  /** The user to run as, where this one is root. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** What the program prints once it can be used. */
  readonly ready: RegExp;
  readonly timeoutMs?: number;
}

export interface ChildProgram {
  readonly pid: number;
  /** What the program said when it was ready. */
  readonly ready: RegExpExecArray;
  /** All that it has printed so far. */
  output(): string;
  /** The exit code once it has ended, null before and after a signal. */
  exitCode(): number | null;
  /** Ends it by its id and waits; resolves with the exit code, null after a signal that it did not handle. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Starts `command` and waits until it is ready; if it ends first or takes too long, fails with what it printed. */
export async function startProgram(
  command: readonly [string, ...string[]],
  { environment, directory, user, ready, timeoutMs = 55_000 }: ProgramOptions,
): Promise<ChildProgram> {
  const [file, ...args] = command;
  const child = spawn(file, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(environment && { env: environment }),
    ...(directory && { cwd: directory }),
    ...user,
  });
  const exited = once(child, 'exit');
  const killWithUs = () => child.kill('SIGKILL');
  process.once('exit', killWithUs);
  child.once('exit', () => process.off('exit', killWithUs));
  const { output, match } = watch(child, ready);
  const found = await Promise.race([match, exited.then(() => 'ended'), late(timeoutMs)]);
  if (typeof found === 'string') {
    child.kill('SIGKILL');
    throw new Error(`${command.join(' ')} ${found} before it was ready:\n${output()}`);
  }
  return {
    pid: child.pid ?? 0,
    ready: found,
    output,
    exitCode: () => child.exitCode,
    async stop(signal = 'SIGTERM') {
      child.kill(signal);
      await exited;
      return child.exitCode;
    },
  };
}

function watch(child: ChildProcess, ready: RegExp) {
  let printed = '';
  let found: RegExpExecArray | null = null;
  const { promise: match, resolve } = Promise.withResolvers<RegExpExecArray>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      // Not once more after that: by and by a log is long.
      if (found) return;
      found = ready.exec(printed);
      if (found) resolve(found);
    });
  }
  return { output: () => printed, match };
}

function late(ms: number): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  setTimeout(() => resolve(`took more than ${ms} ms`), ms).unref();
  return promise;
}
