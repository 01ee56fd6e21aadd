/** Starts the real server as a process of its own, for tests: a free port, its own folder, none of the surrounding environment. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { ClientConfig } from './contract/config.ts';
import { findExecutable } from './runtime/processes/executable.ts';

/** A server that listens. Whatever happens in the test, it ends with it. */
export interface ServerProcess {
  readonly url: string;
  readonly pid: number;
  /** The key that this start printed for the operator; empty where it printed none. */
  readonly key: string;
  /**
   * From the start of the process to the line that says where it listens; without the time that it waited for a
   * processor, which busy machines have for others.
   */
  readonly startedInMs: number;
  /** Standard output so far: the summary. */
  printed(): string;
  /** Standard error so far: the log. */
  log(): string;
  signal(name: NodeJS.Signals): void;
  /** The exit code; null where a signal ended it that it did not handle. */
  readonly exited: Promise<number | null>;
  /** SIGTERM, and the exit code. */
  stop(): Promise<number | null>;
  kill9(): Promise<void>;
}

export interface ServerOptions {
  /** Holds `data` and `config`; see `temporaryFolder`. */
  readonly folder: string;
  readonly args?: readonly string[];
  /** SERVICE_* variables and whatever else the server is to find; undefined takes one away. */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  /** A program and its arguments that the server is started through; it has to give way to the server. */
  readonly through?: readonly string[];
}

const program = join(import.meta.dirname, 'start.mjs');
const startLimitMs = 30_000;

/** A folder that is gone after the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'service-process-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes the global service.json that the servers of this folder read. */
export async function writeSettings(folder: string, settings: object | string): Promise<string> {
  const file = join(folder, 'config/service.json');
  await mkdir(join(folder, 'config'), { recursive: true });
  await writeFile(file, typeof settings === 'string' ? settings : JSON.stringify(settings));
  return file;
}

/** Settings by which the scripted upstream is the one provider, `scripted:scripted-1`; its answers cost something. */
export function scriptedSettings(upstreamUrl: string): ClientConfig {
  return {
    providers: {
      scripted: {
        type: 'openai-compat',
        base_url: `${upstreamUrl}/v1`,
        api_key: 'the-key-of-the-upstream',
        models: [{ id: 'scripted-1', cost_per_1m_in: 1, cost_per_1m_out: 3 }],
      },
    },
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
  };
}

/** A search path with nothing on it but these programs: bubblewrap is then as good as not installed. */
export async function withoutBubblewrap(...programs: readonly string[]): Promise<{ readonly PATH: string }> {
  const folder = await temporaryFolder();
  for (const name of programs) await symlink(findExecutable(name) ?? name, join(folder, name));
  return { PATH: folder };
}

/** Starts the server and waits until it listens; if it ends instead, fails with what it wrote. */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const { child, output, exited, ownMs } = launch(program, ['--port', '0', ...(options.args ?? [])], options);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const url = await Promise.race([listening(child, output, ownMs), exited.then(() => null)]);
  const startedInMs = ownMs();
  if (url === null) throw new Error(`The server did not start:\n${output.stdout}\n${output.stderr}`);
  return {
    url: url.replace('//0.0.0.0:', '//127.0.0.1:'),
    pid: child.pid ?? 0,
    startedInMs,
    get key() {
      return /\bsk-[\w-]{40,}/.exec(output.stdout)?.[0] ?? '';
    },
    printed: () => output.stdout,
    log: () => output.stderr,
    signal: (name) => void child.kill(name),
    exited,
    async stop() {
      child.kill('SIGTERM');
      return await exited;
    },
    async kill9() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** What a program of the server wrote, once it has ended by itself. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the server, or another program of it, until it ends: help, faults, and the commands beside it. */
export async function runToEnd(options: ServerOptions & { readonly program?: string }): Promise<Ended> {
  const file = options.program === undefined ? program : join(import.meta.dirname, options.program);
  const { child, output, exited, ownMs } = launch(file, options.args ?? [], options);
  const late = setInterval(() => ownMs() > startLimitMs && child.kill('SIGKILL'), 500);
  const code = await exited;
  clearInterval(late);
  return { code, ...output };
}

interface Launched {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  readonly exited: Promise<number | null>;
  /** How long it has had a processor, or waited for anything else. */
  readonly ownMs: () => number;
}

function launch(
  file: string,
  args: readonly string[],
  { folder, variables, through = [] }: ServerOptions,
): Launched {
  const [command = '', ...words] = [...through, process.execPath, file, ...args];
  const startedAt = performance.now();
  const child = spawn(command, words, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    // Nothing of the surroundings: a provider's key there would be found and used.
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      NODE_COMPILE_CACHE: process.env.TEST_CODE_CACHE,
      SERVICE_DATA_DIR: join(folder, 'data'),
      SERVICE_GLOBAL_CONFIG: join(folder, 'config'),
      ...variables,
    },
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
    });
  const ownMs = () => performance.now() - startedAt - waitedForProcessorMs(child.pid);
  // `close` comes when all that it wrote has been read, too.
  return { child, output, ownMs, exited: once(child, 'close').then(() => child.exitCode) };
}

/** How long the main thread was ready to run and did not get to; 0 where the kernel does not count that. */
function waitedForProcessorMs(pid: number | undefined): number {
  try {
    const [, waitedNs] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ');
    return Number(waitedNs) / 1e6;
  } catch {
    return 0;
  }
}

function listening(
  { stdout }: ChildProcess,
  output: Launched['output'],
  ownMs: () => number,
): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const look = () => {
    const url = /^service \S+ is listening on (\S+)\n[\s\S]*^ {2}database /m.exec(output.stdout)?.[1];
    if (url) resolve(url);
  };
  stdout?.on('data', look);
  const late = setInterval(() => ownMs() > startLimitMs && resolve(null), 500);
  late.unref();
  return promise.finally(() => clearInterval(late));
}
