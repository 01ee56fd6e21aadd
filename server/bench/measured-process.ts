/** A process that is measured: the server, the relay beside it, or the upstream behind both. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Resources } from './tell-resources.ts';

export interface MeasuredProcess {
  readonly url: string;
  readonly pid: number;
  /** What it printed until it listened. */
  readonly printed: string;
  resources(collect?: 'collect'): Promise<Resources>;
  openDescriptors(): number;
  stop(): Promise<void>;
}

const preload = join(import.meta.dirname, 'tell-resources.ts');

/** Starts a program that prints its address; `ready` says when it has printed enough, `flags` are of Node. */
export async function startMeasured(
  program: string,
  args: readonly string[],
  ready: RegExp,
  environment: Readonly<Record<string, string>> = {},
  flags: readonly string[] = [],
): Promise<MeasuredProcess> {
  const child = spawn(
    process.execPath,
    ['--expose-gc', ...flags, '--import', preload, join(import.meta.dirname, program), ...args],
    {
      stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
      env: { PATH: process.env.PATH, ...environment },
    },
  );
  const exited = once(child, 'exit');
  const printed = await untilPrinted(child, ready);
  return {
    url: (/http:\/\/[\d.:]+/.exec(printed)?.[0] ?? '').replace('0.0.0.0', '127.0.0.1'),
    pid: child.pid ?? 0,
    printed,
    async resources(collect) {
      const answered = once(child, 'message');
      child.send(collect ?? 'tell');
      const [resources] = (await answered) as [Resources]; // what `tell-resources.ts` sends
      return resources;
    },
    openDescriptors: () => readdirSync(`/proc/${child.pid}/fd`).length,
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

function untilPrinted(child: ChildProcess, ready: RegExp): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let printed = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
    if (ready.test(printed)) resolve(printed);
  });
  child.once('exit', () => reject(new Error(`It did not start:\n${printed}`)));
  return promise;
}
