/** Runs the real `service` command in folders of its own, for tests: nothing of the surroundings gets in. */
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
import { onTestFinished } from 'vitest';
import { type Ended, runToEnd, startProcess, type TestProcess } from './test-process.ts';

/** A person's home and a project in it, gone after the test. */
export interface TestHome {
  readonly home: string;
  readonly project: string;
  /** The variables of that person's shell. */
  readonly environment: Readonly<Record<string, string>>;
  /** Writes a file, its folders included, below `home`; gives its path. */
  write(path: string, content: string | object): string;
  /** Runs `service` in the project, to its end. */
  service(args: readonly string[], surroundings?: Surroundings): Promise<Ended>;
  /** Starts `service` in the project. */
  start(args: readonly string[], surroundings?: Surroundings): TestProcess;
}

/** What surrounds a command beside the home. */
export interface Surroundings {
  /** Standard input; empty where absent, and open for ever where null. */
  readonly input?: string | null;
  /** More variables, or others. */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/** Compiled code, as it stays on a person's machine. */
const { TEST_CODE_CACHE: codeCache = tmpdir() } = process.env;

/** The launcher, as a link on somebody's PATH would start it. */
export const launcher = join(import.meta.dirname, 'bin/service');

/** A new home with an empty project. The folder has a space in it: people have such folders. */
export function testHome(): TestHome {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'service home-')));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const project = join(home, 'project');
  mkdirSync(join(project, '.git'), { recursive: true });
  writeFileSync(join(project, '.git/HEAD'), 'ref: refs/heads/main\n');
  const environment = {
    HOME: home,
    PATH: process.env.PATH ?? '',
    LANG: 'C.UTF-8',
    XDG_CACHE_HOME: codeCache,
  };
  const placeOf = ({ cwd = project, input = '', variables }: Surroundings) => ({
    cwd,
    input,
    environment: { ...environment, ...variables },
  });
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
    service: (args, surroundings = {}) => runToEnd(launcher, args, placeOf(surroundings)),
    start: (args, surroundings = {}) => startProcess(launcher, args, placeOf(surroundings)),
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
