/** Runs the command of one hook: what it is given, where it may run, and what its end means. */
import { randomBytes } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import type { ToolUse } from '../../contract/api.ts';
import type { Hook } from '../../contract/config.ts';
import { settingDefaults } from '../../contract/setting-defaults.ts';
import { type CommandEnd, type CommandRequest, runCommand } from '../commands/command.ts';
import { childEnvironment } from '../processes/child-environment.ts';
import type { RunScope } from '../runs/run-scope.ts';
import { clip, longestReason, noOpinion, type Opinion, readOpinion } from './hooks-opinion.ts';

/** How the command of a hook ended. */
export type HookEnd =
  | { readonly kind: 'opinion'; readonly opinion: Opinion }
  /** An exit code that means nothing to us. */
  | { readonly kind: 'unclear'; readonly why: string; readonly said: string }
  /** It could not do its work. */
  | { readonly kind: 'failed'; readonly why: string; readonly said: string };

const deniesCode = 2;
const haltsCode = 49;
/** By these the shell tells that it could not run the command, and from here on that a signal ended it. */
const cannotRunCodes = [126, 127];
const lastOrdinaryCode = 128;
const lastSignalCode = 128 + 64;

const defaultTimeoutS = settingDefaults['hooks.*[].timeout'];
/** Timers know no longer time. */
const longestTimeoutMs = 2 ** 31 - 1;
const mostOutputBytes = 1024 ** 2;
const mostComplaintBytes = 16 * 1024;
/** A hook has little to tidy up, and the run waits for it. */
const graceMs = 200;

/** Asks one hook about one call. Never rejects: what goes wrong is an end, too. */
export async function runHook(scope: RunScope, hook: Hook, call: ToolUse): Promise<HookEnd> {
  const output = createOutput();
  try {
    const cwd = await realpath(scope.workspacePath);
    const started = await startable(scope, hook, variables(scope, call, cwd), cwd);
    const end = await runCommand({
      ...started,
      input: JSON.stringify(given(scope, call, cwd)),
      timeoutMs: Math.min((hook.timeout ?? defaultTimeoutS) * 1000, longestTimeoutMs),
      graceMs,
      signal: AbortSignal.any([scope.signal, output.tooMuch]),
      onOutput: output.push,
    }).finally(started.release);
    return endOf(end, output, started.token, hook);
  } catch (error) {
    return { kind: 'failed', why: `it could not be started: ${reasonOf(error)}`, said: '' };
  }
}

/** What a hook reads from its standard input. */
function given({ sessionId, runId }: RunScope, { id, name, input }: ToolUse, cwd: string) {
  return {
    event: 'pre_tool_use',
    session_id: sessionId,
    run_id: runId,
    cwd,
    tool_name: name,
    tool_input: input,
    tool_call_id: id,
  };
}

function variables({ sessionId }: RunScope, { name, input }: ToolUse, cwd: string): Record<string, string> {
  return {
    SERVICE: '1',
    AGENT: 'service',
    AI_AGENT: 'service',
    SERVICE_EVENT: 'pre_tool_use',
    SERVICE_TOOL_NAME: name,
    SERVICE_SESSION_ID: sessionId,
    SERVICE_CWD: cwd,
    SERVICE_PROJECT_DIR: cwd,
    ...(typeof input.command === 'string' && { SERVICE_TOOL_INPUT_COMMAND: input.command }),
    ...(typeof input.file_path === 'string' && { SERVICE_TOOL_INPUT_FILE_PATH: input.file_path }),
  };
}

interface Startable extends Pick<CommandRequest, 'file' | 'args' | 'cwd' | 'env' | 'wrapped' | 'limits'> {
  /** What the output begins with once the hook itself has been reached. */
  readonly token: string;
  release(): void;
}

/** The command goes to a shell as it stands in the settings; nothing of the call is ever part of it. */
async function startable(
  scope: RunScope,
  { command }: Hook,
  environment: Record<string, string>,
  cwd: string,
): Promise<Startable> {
  const sandbox = scope.hookSandbox();
  if (!sandbox) {
    const env = childEnvironment(environment);
    const direct = { wrapped: false, token: '', release: () => undefined };
    return { file: '/bin/sh', args: ['-c', command], cwd, env, ...direct };
  }
  if ('unavailable' in sandbox)
    throw new Error(`hooks run here only in a sandbox, and ${sandbox.unavailable}`);
  // A sandbox that fails ends with a code of its own, which must not be taken for that of the hook.
  const token = randomBytes(16).toString('hex');
  const inside = ['/bin/sh', '-c', 'printf %s "$0" && exec /bin/sh -c "$1"', token, command];
  const wrapped = await sandbox.wrap(inside, { workspacePath: cwd, network: false, environment });
  return { ...wrapped, cwd: '/', env: {}, wrapped: true, token };
}

function endOf(end: CommandEnd, output: Output, token: string, hook: Hook): HookEnd {
  const stdout = output.stdout();
  const said = clip(output.stderr().trim(), longestReason);
  const failed = (why: string): HookEnd => ({ kind: 'failed', why, said });
  if (output.tooMuch.aborted) return failed(`it wrote more than ${mostOutputBytes} bytes`);
  if (end.reason !== 'exited') return failed(stopReasons[end.reason](hook));
  if (!stdout.startsWith(token)) return failed('the sandbox could not start it');
  const { exitCode } = end;
  if (exitCode === null) return failed(`the signal ${end.signalName} ended it`);
  if (exitCode === 0) return read(stdout.slice(token.length), failed);
  if (exitCode === deniesCode) return opinion({ decision: 'deny', reason: said });
  if (exitCode === haltsCode) return opinion({ halt: true, reason: said });
  if (cannotRunCodes.includes(exitCode)) return failed(`the shell could not run it (exit code ${exitCode})`);
  if (exitCode > lastOrdinaryCode && exitCode <= lastSignalCode)
    return failed(`a signal ended it (exit code ${exitCode})`);
  return { kind: 'unclear', why: `it ended with exit code ${exitCode}`, said };
}

const stopReasons: Readonly<Record<Exclude<CommandEnd['reason'], 'exited'>, (hook: Hook) => string>> = {
  timed_out: ({ timeout }) => `it took longer than ${timeout ?? defaultTimeoutS} s`,
  interrupted: () => 'the run was interrupted',
  too_many_processes: () => 'it started too many processes',
  too_much_memory: () => 'it used too much memory',
};

function read(stdout: string, failed: (why: string) => HookEnd): HookEnd {
  try {
    return { kind: 'opinion', opinion: readOpinion(stdout) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return failed(`its output cannot be used: ${error.message}`);
  }
}

function opinion(said: Partial<Opinion>): HookEnd {
  return { kind: 'opinion', opinion: { ...noOpinion, ...said } };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // The messages of the file system and of spawn hold paths and arguments, and with them the call's input.
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message;
}

interface Output {
  readonly push: (chunk: Buffer, from: 'stdout' | 'stderr') => void;
  readonly tooMuch: AbortSignal;
  stdout(): string;
  stderr(): string;
}

/** Holds what a hook writes, and gives up on one that writes without end. */
function createOutput(): Output {
  const limit = new AbortController();
  const chunks: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  const bytes = { stdout: 0, stderr: 0 };
  const most = { stdout: mostOutputBytes, stderr: mostComplaintBytes };
  const textOf = (from: 'stdout' | 'stderr') => Buffer.concat(chunks[from]).toString('utf8');
  return {
    push(chunk, from) {
      const room = most[from] - bytes[from];
      bytes[from] += chunk.length;
      if (room > 0) chunks[from].push(chunk.subarray(0, room));
      if (from === 'stdout' && bytes.stdout > mostOutputBytes) limit.abort();
    },
    tooMuch: limit.signal,
    stdout: () => textOf('stdout'),
    stderr: () => textOf('stderr'),
  };
}
