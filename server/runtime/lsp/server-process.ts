/** Starts the process of a language server, in the sandbox where many people share the runtime. */
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { delimiter, dirname } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { LanguageServer as LanguageServerEntry } from '../../contract/config.ts';
import type { TreeLimits } from '../commands/command.ts';
import { readPaced } from '../commands/paced-output.ts';
import { childEnvironment, variablesNamed } from '../processes/child-environment.ts';
import { type ProcessGroup, startGroup } from '../processes/process-group.ts';
import type { ProcessTree } from '../processes/process-tree.ts';
import type { Sandbox, SandboxUnavailable } from '../processes/sandbox.ts';
import { watchTree } from '../processes/tree-watch.ts';
import { findNamed, findOnPath, foldersOutside } from './search-path.ts';
import { ownTypeScript, type ServerDefinition } from './server-choice.ts';

/** Where a language server is started. */
export interface ServerPlace {
  readonly workspacePath: string;
  /** The folder of the project; the workspace or a folder in it. */
  readonly root: string;
  /** Null for one person, whose own programs they are. */
  readonly sandbox: Sandbox | SandboxUnavailable | null;
}

/** A language server that runs. */
export interface ServerProcess {
  readonly input: Writable;
  readonly output: Readable;
  /** Whether it sees this process: it may then end when this one does. */
  readonly seesUs: boolean;
  readonly initOptions: Record<string, unknown>;
  readonly settings: Record<string, unknown>;
  /** Whether the process itself is still there: what it has said last may yet have to be read. */
  isThere(): boolean;
  /** Resolves once it has ended by itself or was ended, with the last that it wrote to its standard error. */
  readonly ended: Promise<string>;
  /** Ends it and all that it started. */
  end(): Promise<void>;
}

/** Where toolchains and caches are, besides what every such process inherits. */
const inherited = [
  'XDG_CACHE_HOME',
  'GOPATH',
  'GOROOT',
  'GOBIN',
  'GOCACHE',
  'JAVA_HOME',
  'RUSTUP_HOME',
  'CARGO_HOME',
];
const watchMs = 1000;
/** A language server of a large project needs much; one without any bound would take the machine along. */
const ownLimits: TreeLimits = { processes: 256, memoryBytes: 8 * 1024 ** 3 };
const graceMs = 1000;
const mostComplaint = 4000;
/** Somebody that it has started, and that could not be ended, may hold its standard error open. */
const mostHearingMs = 500;

/** Rejects with an error whose message says why it cannot be started. */
export async function startServerProcess(
  definition: ServerDefinition,
  entry: LanguageServerEntry | null,
  place: ServerPlace,
): Promise<ServerProcess> {
  const command = commandOf(definition, entry, place);
  const environment = { ...definition.known?.env, ...entry?.env };
  const { sandbox } = place;
  if (sandbox && 'unavailable' in sandbox)
    throw new Error(`language servers run here only in a sandbox, and ${sandbox.unavailable}`);
  if (!sandbox) {
    const env = { ...ownEnvironment(place, entry !== null), ...environment };
    const started = { file: command.file, args: command.args, cwd: place.root, env };
    const group = startGroup({ ...started, stdio: 'pipe', wrapped: false });
    return running(group, command, { limits: ownLimits, wrapped: false });
  }
  const wrapped = await sandbox.wrap([command.file, ...command.args], {
    workspacePath: place.workspacePath,
    network: false,
    // It reads: what it knows it tells us, and what it has to keep it keeps in memory.
    readOnly: true,
    visiblePaths: [realpathSync(command.file)],
    environment,
  });
  const { file, args } = wrapped;
  try {
    const group = startGroup({ file, args, cwd: '/', env: {}, stdio: 'pipe', wrapped: true });
    return running(group, command, { limits: wrapped.limits, wrapped: true, release: wrapped.release });
  } catch (error) {
    wrapped.release();
    throw error;
  }
}

interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly initOptions: Record<string, unknown>;
  readonly settings: Record<string, unknown>;
}

function commandOf(
  { name, known }: ServerDefinition,
  entry: LanguageServerEntry | null,
  { workspacePath, sandbox }: ServerPlace,
): Command {
  const program = entry?.command ?? known?.command;
  if (!program) throw new Error(`no command is known for it: set lsp.${name}.command`);
  const searchPath = entry?.env?.PATH ?? process.env.PATH ?? '';
  const file = entry ? findNamed(program, workspacePath, searchPath) : findOnPath(program, workspacePath);
  if (file === null) throw new Error(`there is no program ${JSON.stringify(program)}`);
  return {
    file,
    args: entry?.args ?? known?.args ?? [],
    initOptions: {
      ...known?.init_options,
      ...(entry || sandbox ? {} : safeTypeScript(known?.name, file, workspacePath)),
      ...entry?.init_options,
    },
    settings: { ...known?.settings, ...entry?.options },
  };
}

/** Unnamed, the server for TypeScript takes the TypeScript that is installed with it, never that of the project. */
function safeTypeScript(
  name: string | undefined,
  file: string,
  workspacePath: string,
): Record<string, unknown> {
  if (name !== 'typescript-language-server') return {};
  const path = ownTypeScript(file, workspacePath);
  if (path === null) throw new Error('there is no TypeScript besides that of the project');
  return { tsserver: { path } };
}

function ownEnvironment({ workspacePath }: ServerPlace, named: boolean): Record<string, string> {
  // What a server that nobody named runs must not come from the workspace either.
  const { PATH = '' } = process.env;
  const searchPath = named ? PATH : foldersOutside(workspacePath, PATH).join(delimiter);
  // A server that is a script looks for node.
  const path = [searchPath, dirname(process.execPath)].filter(Boolean).join(delimiter);
  return childEnvironment({ ...variablesNamed(inherited), PATH: path });
}

interface Running {
  readonly limits: TreeLimits;
  readonly wrapped: boolean;
  release?(): void;
}

function running(
  group: ProcessGroup,
  command: Command,
  { limits, wrapped, release }: Running,
): ServerProcess {
  const { child } = group;
  const { stdin, stdout, stderr } = child;
  if (!stdin || !stdout || !stderr) throw new Error('it has no pipes'); // asked for above
  let complaint = '';
  // A pipe that breaks is heard to its end as well.
  const heard = once(stderr, 'close').catch(() => undefined);
  readPaced(stderr, (chunk) => {
    complaint = (complaint + chunk.toString('utf8')).slice(-mostComplaint);
  });
  // Whoever waits for an answer learns of a broken pipe by the end of the process.
  stdin.on('error', () => undefined);
  const hold = ({ descendants, residentBytes }: ProcessTree) => {
    if (descendants.length <= limits.processes && residentBytes <= limits.memoryBytes) return;
    complaint = 'it used too much memory or started too many processes';
    void end();
  };
  const unwatch = child.pid === undefined ? () => undefined : watchTree(child.pid, watchMs, hold);
  const ended = group.exited.then(
    async () => {
      // What it started does not outlive it.
      await group.endCertainly().catch(() => undefined); // its limits hold for what is left
      // A process has ended before the last of what it said is read.
      await Promise.race([heard, delay(mostHearingMs)]);
      return complaint.trim();
    },
    (error: Error) => `it could not be started: ${error.message}`,
  );
  void ended.then(() => {
    unwatch();
    release?.();
  });
  const isThere = () => child.exitCode === null && child.signalCode === null;
  let ending: Promise<void> | null = null;
  const end = () => {
    ending ??= endNow();
    return ending;
  };
  const endNow = async () => {
    if (isThere()) {
      await group.endPolitely(graceMs).catch(() => undefined); // it could not be started
      await group.endCertainly().catch(() => undefined);
    }
    for (const pipe of [stdin, stdout]) pipe.destroy();
    await ended;
    stderr.destroy();
  };
  const { initOptions, settings } = command;
  return { input: stdin, output: stdout, seesUs: !wrapped, initOptions, settings, isThere, ended, end };
}
