/** Runs the real `service` command in folders of its own, for tests: nothing of the surroundings gets in. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, onTestFinished } from 'vitest';

/** What a command wrote, once it has ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A person's home and a project in it, gone after the test. */
export interface TestHome {
  readonly home: string;
  readonly project: string;
  /** The variables of that person's shell. */
  readonly environment: Readonly<Record<string, string>>;
  /** Writes a file, its folders included, below `home`; gives its path. */
  write(path: string, content: string | object): string;
  /** Runs `service` in the project. */
  service(args: readonly string[], variables?: Readonly<Record<string, string | undefined>>): Promise<Ended>;
}

/** Compiled code that the tests of one file share: to compile everything for each home anew takes long. */
const caches = mkdtempSync(join(tmpdir(), 'service-caches-'));
afterAll(() => rmSync(caches, { recursive: true, force: true }));

/** The launcher, as a link on somebody's PATH would start it. */
export const launcher = join(import.meta.dirname, 'bin/service');

/** A new home with an empty project. The folder has a space in it: people have such folders. */
export function testHome(): TestHome {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'service home-')));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const project = join(home, 'project');
  mkdirSync(join(project, '.git'), { recursive: true });
  writeFileSync(join(project, '.git/HEAD'), 'ref: refs/heads/main\n');
  const environment = { HOME: home, PATH: process.env.PATH ?? '', LANG: 'C.UTF-8', XDG_CACHE_HOME: caches };
  return {
    home,
    project,
    environment,
    write(path, content) {
      const file = join(home, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
      return file;
    },
    service: (args, variables) =>
      runToEnd(launcher, args, { cwd: project, environment: { ...environment, ...variables } }),
  };
}

/** Where the sessions and the log of the project are; in a new home under a name that is made up here. */
export function dataFolder({ home, project }: Pick<TestHome, 'home' | 'project'>): string {
  const file = join(home, '.local/share/service/data-name');
  if (!existsSync(file)) {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, 'data-00112233445566778899\n', { mode: 0o600 });
  }
  return join(project, '.service', readFileSync(file, 'utf8').trim());
}

/** Runs any program until it ends. */
export async function runToEnd(
  file: string,
  args: readonly string[],
  {
    cwd,
    environment,
  }: { readonly cwd: string; readonly environment: Readonly<Record<string, string | undefined>> },
): Promise<Ended> {
  const child = spawn(file, args, { cwd, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: child.exitCode, stdout, stderr };
}
