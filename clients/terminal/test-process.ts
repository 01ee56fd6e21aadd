/** Starts the real `service` command and talks with it while it runs, for tests: its input, its output so far, signals. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, onTestFinished } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { launcher, type TestHome } from './test-command.ts';

/** Compiled once for all homes: a start without it takes twice as long. */
const caches = mkdtempSync(join(tmpdir(), 'service-caches-'));
afterAll(() => rmSync(caches, { recursive: true, force: true }));

/** The variables of this person's shell, for commands that are started many times. */
export function variablesOf({ environment }: TestHome): Readonly<Record<string, string>> {
  return { ...environment, XDG_CACHE_HOME: caches };
}

/** A command that runs. It is gone after the test. */
export interface TestProcess {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** Resolves once the condition holds; fails with what was written when it has not after some seconds. */
  until(condition: () => boolean | Promise<boolean>): Promise<void>;
  /** The exit code, once all that it wrote has been read. */
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

/** What surrounds a command. */
export interface Surroundings {
  /** Standard input; empty where absent, and open for ever where null. */
  readonly input?: string | null;
  readonly variables?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/** Starts `service` in the project of this home. */
export function startService(
  home: TestHome,
  args: readonly string[],
  { input = '', variables, cwd = home.project }: Surroundings = {},
): TestProcess {
  const child = spawn(launcher, args, { cwd, env: { ...variablesOf(home), ...variables } });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
    });
  // A command that ends before it has read its input is no failure of the test.
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
      for (const deadline = Date.now() + 15_000; !(await condition()); await sleep(10))
        if (child.exitCode !== null || Date.now() > deadline)
          throw new Error(`It did not come to that:\n${JSON.stringify(output)}`);
    },
  };
}

/** Runs `service` to its end with something on its standard input. */
export async function runService(home: TestHome, args: readonly string[], surroundings: Surroundings = {}) {
  return await startService(home, args, surroundings).ended;
}

/** A scripted model, `scripted:scripted-1`, that the global settings of this home name; with further settings beside it. */
export async function withScriptedModel(
  home: TestHome,
  rules: readonly object[],
  settings: object = {},
): Promise<Upstream> {
  const upstream = await startUpstream();
  onTestFinished(async () => void (await upstream.stop()));
  await upstream.script([...rules]);
  home.write('.config/service/service.json', {
    providers: {
      scripted: {
        type: 'openai-compat',
        base_url: `${upstream.url}/v1`,
        api_key: 'the-key-of-the-upstream',
        models: [{ id: 'scripted-1' }],
      },
    },
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
    ...settings,
  });
  return upstream;
}
