// The bubblewrap sandbox: a command sees the system's programs and one workspace, and nothing else of the machine.
import { execFile } from 'node:child_process';
import { lstatSync, realpathSync, type Stats, statSync } from 'node:fs';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { TreeLimits } from '../commands/command.ts';
import {
  type ControlGroup,
  type ControlGroups,
  type ControlGroupsUnavailable,
  detectControlGroups,
} from './control-groups.ts';
import { findExecutable } from './executable.ts';
import { guardProtectedNames } from './sandbox-guard.ts';
import { becomingOwner } from './workspace-owner.ts';

/** What one command in the sandbox may use. */
export interface SandboxLimits extends TreeLimits {
  /** The largest file it may write. */
  readonly fileBytes: number;
  /** Processor time of one process. */
  readonly cpuSeconds: number;
  /** The size of its `/tmp`, which lives in memory. */
  readonly temporaryBytes: number;
}

/** What the operator may change about the sandbox. */
export interface SandboxSettings {
  readonly limits?: Partial<SandboxLimits>;
  /** Real paths of what stays invisible even where a visible folder holds it: the data directory above all, and the key. */
  readonly hiddenPaths?: readonly string[];
  /** Whether a command in root's own folder is root's own, asked at each; it is if absent. */
  readonly mayBeRoot?: () => boolean;
}

/** How one command is to be wrapped. */
export interface WrapOptions {
  /** Real path of the one folder that the command may see and, unless `readOnly`, change. */
  readonly workspacePath: string;
  readonly network: boolean;
  readonly readOnly?: boolean;
  /** Whether it is a program of the service itself, which runs nothing of others: it may be root where the folder is root's. */
  readonly isOwnProgram?: boolean;
  /** Further files or folders to show, for reading. */
  readonly visiblePaths?: readonly string[];
  /**
   * Folders of the machine to show, for reading and for starting programs, but for what is hidden: one may hold the
   * workspace itself. What of the PATH of this process lies in them comes first on that of the command.
   */
  readonly readablePaths?: readonly string[] | undefined;
  /** Variables besides those that every command gets. */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * Whether further variables come through descriptor 3, as `--setenv`, name and value, each ended by a NUL: arguments
   * can be read by every user of the machine.
   */
  readonly sealedEnvironment?: boolean;
}

/** A command to start in place of the given one. */
export interface WrappedCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly limits: TreeLimits;
  /** Which limit the kernel has held it to; null where none, or where the kernel does not count. */
  exceeded(): 'too_many_processes' | 'too_much_memory' | null;
  /** To be called once every process of the command has ended. */
  release(): void;
}

/** A sandbox that was seen to work on this machine. */
export interface Sandbox {
  readonly kind: 'bubblewrap';
  /** Null where the kernel bounds what all processes of a command use together; else why it bounds each alone. */
  readonly totalsUnbounded: string | null;
  /**
   * The argument vector that runs `command` inside.
   * @throws Error when the workspace cannot be protected; the message says why.
   */
  wrap(command: readonly string[], options: WrapOptions): Promise<WrappedCommand>;
}

/** Why there is no sandbox. */
export interface SandboxUnavailable {
  readonly unavailable: string;
}

const DEFAULT_LIMITS: SandboxLimits = {
  processes: 256,
  memoryBytes: 4 * 1024 ** 3,
  fileBytes: 1024 ** 3,
  cpuSeconds: 600,
  temporaryBytes: 512 * 1024 ** 2,
};

const PROBE_TIMEOUT_MS = 10_000;
/** An ordinary user inside; outside it is the server's own user. */
const SANDBOX_ID = '1000';
const SEARCH_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const SYSTEM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib64', '/lib32', '/libx32'];
/** What programs need to find libraries, commands, certificates and the time zone; no host's secrets lie there. */
const SYSTEM_SETTINGS = [
  '/etc/ld.so.cache',
  '/etc/ld.so.conf',
  '/etc/ld.so.conf.d',
  '/etc/alternatives',
  '/etc/ssl/certs',
  '/etc/ssl/openssl.cnf',
  '/etc/pki/tls/certs',
  '/etc/pki/ca-trust/extracted',
  '/etc/ca-certificates',
  '/etc/localtime',
  '/etc/timezone',
  '/etc/mime.types',
];
/** Written for the sandbox, because the host's name its users and its neighbours. */
const OWN_SETTINGS = ['passwd', 'group', 'hosts', 'nsswitch.conf'];

/** Tries the sandbox once, with the very arguments that commands will get. */
export async function detectSandbox(settings: SandboxSettings = {}): Promise<Sandbox | SandboxUnavailable> {
  if (process.platform !== 'linux') return { unavailable: 'bubblewrap exists only on Linux' };
  const bwrap = findExecutable('bwrap');
  if (!bwrap) return { unavailable: 'bubblewrap (bwrap) is not installed' };
  const groups = detectControlGroups();
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'service-sandbox-'));
  try {
    // In a folder of this process's own, which may be root's.
    const probing = bubblewrap(bwrap, { ...settings, mayBeRoot: () => true }, groups);
    const probe = await probing.wrap(['/bin/sh', '-c', 'exit 0'], { workspacePath: folder, network: false });
    await promisify(execFile)(probe.file, probe.args, { env: {}, timeout: PROBE_TIMEOUT_MS }).finally(
      probe.release,
    );
    return bubblewrap(bwrap, settings, groups);
  } catch (error) {
    return { unavailable: `bubblewrap does not work here: ${reasonOf(error)}` };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const said = 'stderr' in error ? String(error.stderr).trim() : '';
  // Ubuntu 22.04 and RHEL 9 have such a one.
  if (said.includes('Unknown option --disable-userns')) return 'it is older than 0.8';
  return said.split('\n')[0] || error.message;
}

function bubblewrap(
  bwrap: string,
  settings: SandboxSettings,
  groups: ControlGroups | ControlGroupsUnavailable,
): Sandbox {
  const limits = { ...DEFAULT_LIMITS, ...settings.limits };
  const limiter = limitingPrefix(limits);
  return {
    kind: 'bubblewrap',
    totalsUnbounded: 'unavailable' in groups ? groups.unavailable : null,
    async wrap(command, options) {
      assertSeparate(options.workspacePath);
      const readable = readableFolders(options.readablePaths ?? [], settings.hiddenPaths ?? []);
      const mayBeRoot = options.isOwnProgram || (settings.mayBeRoot?.() ?? true);
      const owner = await becomingOwner(options.workspacePath, mayBeRoot);
      const guard = options.readOnly ? null : guardProtectedNames(options.workspacePath);
      try {
        const args = [
          ...isolation(options, readable),
          ...systemFiles(limits, options),
          ...readable.flatMap(({ folder }) => ['--ro-bind', folder, folder]),
          ...linksTo(readable),
          ...hiddenBefore(settings, options, readable),
          ...workspaceFiles(options),
          ...(guard?.args ?? []),
          ...hiddenInside(settings, options),
          // One that was removed meanwhile keeps no command from running.
          ...(options.visiblePaths ?? []).flatMap((path) => ['--ro-bind-try', path, path]),
          // Last: `/` and `/dev` are file systems in memory and must take no more files. `/proc/sys` obeys whoever is
          // root outside, and a server may be: `kernel.core_pattern` would be a way out.
          ...['--remount-ro', '/proc', '--remount-ro', '/dev', '--remount-ro', '/'],
          ...['--chdir', options.workspacePath, '--', ...limiter, ...command],
        ];
        const group = 'unavailable' in groups ? null : groups.open(limits);
        const [file, ...before] = [...entering(group), ...owner, bwrap];
        return {
          // There is always at least one word.
          file: file as string,
          args: [...before, ...args],
          // Where the kernel counts memory, pages that processes share count once.
          limits: group ? { ...limits, memoryBytes: Number.POSITIVE_INFINITY } : limits,
          exceeded: () => group?.exceeded() ?? null,
          release() {
            try {
              guard?.release();
            } finally {
              void group?.close();
            }
          },
        };
      } catch (error) {
        // No command will end and take the placeholders away.
        guard?.release();
        throw error;
      }
    },
  };
}

/** Puts itself into the group, and becomes the command. */
function entering(group: ControlGroup | null): readonly string[] {
  if (!group) return [];
  const script = group.entrances.map((_, index) => `echo $$ > "$${index + 1}"`).join(' && ');
  return [
    '/bin/sh',
    '-c',
    `${script} && shift ${group.entrances.length} && exec "$@"`,
    'sh',
    ...group.entrances,
  ];
}

function isolation(options: WrapOptions, readable: readonly ReadableFolder[]): readonly string[] {
  const environment = {
    PATH: [...programFolders(readable), SEARCH_PATH].join(':'),
    HOME: '/tmp',
    LANG: 'C.UTF-8',
    TERM: 'dumb',
    ...options.environment,
  };
  return [
    ...['--unshare-all', '--unshare-user', '--disable-userns', ...(options.network ? ['--share-net'] : [])],
    ...['--uid', SANDBOX_ID, '--gid', SANDBOX_ID, '--hostname', 'sandbox', '--cap-drop', 'ALL'],
    ...['--die-with-parent', '--new-session', '--clearenv'],
    ...Object.entries(environment).flatMap(([name, value]) => ['--setenv', name, value]),
    ...(options.sealedEnvironment ? ['--args', '3'] : []),
  ];
}

/** A folder of the machine that is shown for reading, by where it lies and as it was named. */
interface ReadableFolder {
  readonly folder: string;
  readonly named: string;
}

/** Those that are there. Throws where one would show what is hidden, or cover what the sandbox has of its own. */
function readableFolders(
  given: readonly string[],
  hiddenPaths: readonly string[],
): readonly ReadableFolder[] {
  return given.flatMap((path) => {
    const named = resolve(path);
    const stats = statSync(named, { throwIfNoEntry: false });
    if (!stats) return [];
    // Hidden are places and no names: a link must not lead past them.
    const folder = realpathSync(named);
    const why = stats.isDirectory() ? whyNotReadable(folder, hiddenPaths) : 'it is no folder';
    if (why !== null) throw new Error(`tools.bash.readable_paths cannot name ${path}: ${why}`);
    return [{ folder, named }];
  });
}

function whyNotReadable(folder: string, hiddenPaths: readonly string[]): string | null {
  const isAtOrIn = (place: string) => folder === place || isBelow(place, folder);
  if (hiddenPaths.some(isAtOrIn)) return 'the service keeps its own data there';
  const isOwn = ['/', '/dev', '/dev/shm', '/tmp'].includes(folder);
  if (isOwn || ['/proc', '/sys', '/etc', '/run'].some(isAtOrIn))
    return 'commands have their own there, or nothing; name the folders in it that they need';
  return null;
}

/** Those that were named by way of a link are found by that name, too. */
function linksTo(readable: readonly ReadableFolder[]): readonly string[] {
  const shown = [...SYSTEM_FOLDERS, ...readable.flatMap(({ folder, named }) => [folder, named])];
  return readable
    .filter(({ folder, named }) => named !== folder && !shown.some((place) => isBelow(place, named)))
    .flatMap(({ folder, named }) => ['--symlink', folder, named]);
}

function programFolders(readable: readonly ReadableFolder[]): readonly string[] {
  if (readable.length === 0) return [];
  const folders = (process.env.PATH ?? '').split(delimiter).flatMap(realPathsOf);
  return folders.filter((path) => readable.some(({ folder }) => path === folder || isBelow(folder, path)));
}

/** None where nothing is that this user may come to: of a PATH that is no fault. */
function realPathsOf(path: string): readonly string[] {
  try {
    return path === '' ? [] : [realpathSync(path)];
  } catch {
    return [];
  }
}

function systemFiles(limits: SandboxLimits, options: WrapOptions): readonly string[] {
  const size = ['--size', String(limits.temporaryBytes)];
  const etc = join(import.meta.dirname, 'sandbox-etc');
  const network = options.network ? ['--ro-bind-try', '/etc/resolv.conf', '/etc/resolv.conf'] : [];
  return [
    ...SYSTEM_FOLDERS.flatMap(systemFolder),
    ...SYSTEM_SETTINGS.flatMap((path) => ['--ro-bind-try', path, path]),
    ...OWN_SETTINGS.flatMap((name) => ['--ro-bind', join(etc, name), `/etc/${name}`]),
    ...network,
    ...['--proc', '/proc', '--dev', '/dev', ...size, '--tmpfs', '/dev/shm', ...size, '--tmpfs', '/tmp'],
  ];
}

/** On merged systems `/bin` and its like are links into `/usr`; they stay links. */
function systemFolder(path: string): readonly string[] {
  const stats: Stats | undefined = lstatSync(path, { throwIfNoEntry: false });
  if (!stats) return [];
  return stats.isSymbolicLink() ? ['--symlink', `usr${path}`, path] : ['--ro-bind', path, path];
}

function workspaceFiles(options: WrapOptions): readonly string[] {
  return [options.readOnly ? '--ro-bind' : '--bind', options.workspacePath, options.workspacePath];
}

/** Hidden folders below one that is shown, which may well hold the workspace itself. */
function hiddenBefore(
  settings: SandboxSettings,
  options: WrapOptions,
  readable: readonly ReadableFolder[],
): readonly string[] {
  const shown = [...SYSTEM_FOLDERS, ...readable.map(({ folder }) => folder)];
  const hidden = (settings.hiddenPaths ?? []).filter((path) => shown.some((folder) => isBelow(folder, path)));
  return hidden.filter((path) => !isBelow(options.workspacePath, path)).flatMap(mask);
}

function hiddenInside(settings: SandboxSettings, options: WrapOptions): readonly string[] {
  const hidden = (settings.hiddenPaths ?? []).filter((path) => isBelow(options.workspacePath, path));
  return hidden.flatMap(mask);
}

function mask(path: string): readonly string[] {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (!stats) return [];
  return stats.isDirectory() ? ['--size', '65536', '--tmpfs', path] : ['--ro-bind', '/dev/null', path];
}

function isBelow(folder: string, path: string): boolean {
  return path.startsWith(`${folder}/`);
}

/** A workspace that holds the system's folders would show the whole machine. */
function assertSeparate(workspacePath: string): void {
  const taken = [
    ...SYSTEM_FOLDERS,
    '/etc',
    '/proc',
    '/dev',
    '/sys',
    '/tmp',
    '/root',
    '/home',
    '/run',
    '/var',
  ];
  const wrong = taken.some((folder) => folder === workspacePath || isBelow(workspacePath, folder));
  if (wrong || workspacePath === '/')
    throw new Error(`${workspacePath} cannot be a workspace: it is a folder of the system`);
}

/** The words in front of a command that bound it. Data rather than address space: runtimes reserve much more than they use. */
export function limitingPrefix(limits: Omit<SandboxLimits, 'temporaryBytes'>): readonly string[] {
  const prlimit = ['/usr/bin/prlimit', '/bin/prlimit'].find((path) =>
    lstatSync(path, { throwIfNoEntry: false }),
  );
  if (prlimit) {
    const { memoryBytes, processes, fileBytes, cpuSeconds } = limits;
    const values = {
      data: memoryBytes,
      nproc: processes,
      fsize: fileBytes,
      cpu: cpuSeconds,
      nofile: 4096,
      core: 0,
    };
    return [prlimit, ...Object.entries(values).map(([name, value]) => `--${name}=${value}`), '--'];
  }
  const kilobytes = (bytes: number) => Math.ceil(bytes / 1024);
  const words = `-d ${kilobytes(limits.memoryBytes)} -u ${limits.processes} -f ${kilobytes(limits.fileBytes)}`;
  return ['/bin/bash', '-c', `ulimit ${words} -t ${limits.cpuSeconds} -n 4096 -c 0 && exec "$@"`, 'bash'];
}
