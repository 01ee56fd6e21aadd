/** Runs the command of a `$(command)` with the person's own shell and rights, bounded in time and output. */
import { type ChildProcess, spawn } from 'node:child_process';
import { endAtExit } from '../../children-at-exit.ts';
import { ExpansionError, shown } from './expansion-error.ts';

/** What a command runs in. */
export interface CommandSurroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly workingDirectory: string;
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number;
}

/** A secret is short; what prints more is another command than was meant. */
const maximumBytes = 64 * 1024;

/** What the command prints, without the line breaks at its end. Throws ExpansionError, which never shows what was printed. */
export async function runCommand(
  command: string,
  { environment, workingDirectory, signal, timeoutMs }: CommandSurroundings,
  template: string,
): Promise<string> {
  signal?.throwIfAborted();
  const failed = (how: string) =>
    new ExpansionError(`The command in ${shown(template)} ${how}`, 'Try it in a terminal.');
  const child = spawn('/bin/sh', ['-c', command], {
    cwd: workingDirectory,
    env: { ...environment },
    // What it says to standard error may hold the secret, too.
    stdio: ['ignore', 'pipe', 'ignore'],
    // A process group of its own, so that nothing of it is left behind at the time limit.
    detached: true,
  });
  endAtExit(child);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const chunks: Buffer[] = [];
  let bytes = 0;
  const stop = (reason: unknown) => {
    reject(reason);
    kill(child);
  };
  const timer = setTimeout(() => stop(failed(`did not end within ${timeoutMs / 1000} s`)), timeoutMs);
  const onAbort = () => stop(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maximumBytes) stop(failed(`printed more than ${maximumBytes / 1024} KiB`));
    else chunks.push(chunk);
  });
  child.once('error', (error: NodeJS.ErrnoException) => reject(failed(`cannot be started (${error.code})`)));
  // At the end of its output, as a shell waits for it.
  child.once('close', (code, signalName) => {
    if (code === 0) resolve(printed(chunks));
    else reject(failed(signalName ? `was ended by ${signalName}` : `ended with exit code ${code}`));
  });
  return promise.finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  });
}

/** As a shell does it: NUL is no text, and the line breaks at the end are not meant. */
function printed(chunks: readonly Buffer[]): string {
  const text = Buffer.concat(chunks).toString('utf8').replaceAll('\0', '');
  let end = text.length;
  // By hand: an expression would try each of many line breaks as the first of the last ones.
  while (text[end - 1] === '\n') end -= 1;
  return text.slice(0, end);
}

function kill(child: ChildProcess): void {
  // A process that left the group could hold the output open for ever.
  child.stdout?.destroy();
  child.unref();
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch (error) {
    // `as`: kill throws errno errors only. Gone already is what was wanted, and what sudo runs is another user's.
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
