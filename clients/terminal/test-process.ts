/** Runs programs for tests, to their end or to talk with them: their input, their output so far, signals. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

/** What a program wrote, once it has ended and all of it has been read. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that runs. It is gone after the test. */
export interface TestProcess {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** Resolves once the condition holds; fails with what was written when it has not after some seconds. */
  until(condition: () => boolean | Promise<boolean>): Promise<void>;
  readonly ended: Promise<Ended>;
}

/** Where a program runs. */
export interface ProcessPlace {
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Standard input; empty where absent, and open for ever where null. */
  readonly input?: string | null;
}

/** Starts any program. */
export function startProcess(
  file: string,
  args: readonly string[],
  { cwd, environment, input = '' }: ProcessPlace,
): TestProcess {
  const child = spawn(file, args, { cwd, env: environment });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
    });
  // A program that ends before it has read its input is no failure of the test.
  child.stdin.on('error', () => undefined);
  if (input !== null) child.stdin.end(input);
  const ended = once(child, 'close').then(() => ({ code: child.exitCode, ...output }));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    child,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    ended,
    async until(condition) {
      for (const deadline = Date.now() + 60_000; !(await condition()); await sleep(10))
        if (child.exitCode !== null || Date.now() > deadline)
          throw new Error(`It did not come to that:\n${JSON.stringify(output)}`);
    },
  };
}

/** Runs any program until it ends. */
export async function runToEnd(file: string, args: readonly string[], place: ProcessPlace): Promise<Ended> {
  return await startProcess(file, args, place).ended;
}
