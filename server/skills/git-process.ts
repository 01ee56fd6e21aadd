/** Runs git in a scratch folder: nothing of the machine's settings, no prompt, no hook, no shell, and bounds on all of it. */
import { appendFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { findExecutable, limitingPrefix, startGroup } from '../runtime/runtime.ts';

/** A bare repository of nobody's, and git in it. */
export interface Git {
  /**
   * What git says. `onOutput` gets it instead where all of it is not wanted at once: it may throw to end git. Throws
   * `GitFailed`, or what the signal says.
   */
  run(
    args: readonly string[],
    options: { readonly signal: AbortSignal; readonly input?: string; onOutput(piece: Buffer): void },
  ): Promise<void>;
  /** A header of all its requests, which its arguments would tell every user of the machine. The repository must be there. */
  sendAlong(header: string): Promise<void>;
  remove(): Promise<void>;
}

/** What git said of why it failed: partly words of the other server. */
export class GitFailed extends Error {
  override name = 'GitFailed';
}

const mebibyte = 1024 * 1024;
/** What a repository of texts stays far below, and what no machine misses. */
const limits = {
  memoryBytes: 768 * mebibyte,
  fileBytes: 160 * mebibyte,
  cpuSeconds: 60,
  // Of the user, all of whose processes count.
  processes: 8192,
};
/** More of what it complains of nobody reads. */
const mostComplaint = 16_384;

/** Each of them for the one who reads what a stranger sends. */
const settings = [
  // No object that breaks the rules of git: names that lead elsewhere, trees out of order, links in the place of its files.
  'fetch.fsckObjects=true',
  'transfer.fsckObjects=true',
  // One pack instead of a file for each object.
  'fetch.unpackLimit=1',
  'pack.threads=1',
  'pack.windowMemory=64m',
  'core.bigFileThreshold=1m',
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'credential.helper=',
  'http.followRedirects=false',
  'http.proxy=',
  'fetch.recurseSubmodules=false',
  'submodule.recurse=false',
  'transfer.bundleURI=false',
  'protocol.version=2',
  'protocol.allow=never',
  'protocol.http.allow=always',
  'gc.auto=0',
  'maintenance.auto=false',
].flatMap((setting) => ['-c', setting]);

/** The program; null where this machine has none. */
export function findGit(): string | null {
  return findExecutable('git');
}

/** Whose scratch folder it is: what a dead process has left can be removed. */
export function ownerOfScratch(name: string): string {
  return decodeURIComponent(name.split('~', 1)[0] ?? '');
}

/** Throws where the folder cannot be made. */
export async function openGit(program: string, directory: string, owner: string): Promise<Git> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const folder = await mkdtemp(join(directory, `${encodeURIComponent(owner)}~`));
  const repository = join(folder, 'repository.git');
  const env = {
    PATH: process.env.PATH ?? '/usr/bin:/bin',
    HOME: folder,
    GIT_DIR: repository,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_LITERAL_PATHSPECS: '1',
    LC_ALL: 'C',
    NO_PROXY: '*',
  };
  return {
    async run(args, { signal, input = '', onOutput }) {
      signal.throwIfAborted();
      const [file = program, ...words] = [...limitingPrefix(limits), program, ...settings, ...args];
      const group = startGroup({
        ...{ file, args: words, cwd: folder, env, wrapped: false },
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      const { stdin, stdout, stderr } = pipesOf(group.child);
      let failure: unknown = null;
      const end = (error: unknown) => {
        failure ??= error;
        void group.endCertainly();
      };
      const onAbort = () => end(signal.reason);
      signal.addEventListener('abort', onAbort);
      try {
        // It may end before it has read all of it.
        stdin.on('error', () => undefined).end(input);
        const complaint = complaintOf(stderr);
        const read = eachOf(stdout, onOutput).catch(end);
        await group.exited;
        await read;
        if (failure !== null) throw failure;
        const said = await complaint;
        const { exitCode, signalCode } = group.child;
        if (exitCode !== 0) throw new GitFailed(`${said}\ngit ended with ${signalCode ?? exitCode}`);
      } finally {
        signal.removeEventListener('abort', onAbort);
        await group.endCertainly();
      }
    },
    sendAlong: (header) => appendFile(join(repository, 'config'), `[http]\n\textraHeader = ${header}\n`),
    remove: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  };
}

function pipesOf(child: { stdin: unknown; stdout: unknown; stderr: unknown }) {
  // `as`: all three are pipes, since they were asked for so.
  return child as { readonly stdin: Writable; readonly stdout: Readable; readonly stderr: Readable };
}

async function eachOf(stream: Readable, take: (piece: Buffer) => void): Promise<void> {
  for await (const piece of stream) take(piece);
}

async function complaintOf(stream: Readable): Promise<string> {
  let said = '';
  for await (const piece of stream) if (said.length < mostComplaint) said += String(piece);
  return said.slice(0, mostComplaint);
}
