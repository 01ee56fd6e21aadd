// The tool that runs a shell command in the workspace, inside the sandbox where there is one.
import { realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { type CommandEnd, runCommand } from '../commands/command.ts';
import type { Sandbox, WrappedCommand } from '../processes/sandbox.ts';
import { shellPath } from '../processes/shell.ts';
import { becomingOwner } from '../processes/workspace-owner.ts';
import { BoundedOutput, PacedProgress } from './bounded-output.ts';
import { defineTool, failure, interrupted, success } from './define-tool.ts';
import type { Job, Jobs, Launch } from './jobs.ts';
import { recordingChanges } from './known-files.ts';
import type { Tool, ToolContext, ToolOutput } from './tool.ts';

/** How the `bash` tool runs commands. */
export interface BashOptions {
  /** Null only where commands may run without one. */
  readonly sandbox: Sandbox | null;
  readonly allowNetwork: boolean;
  /** Folders outside of the workspace that commands in the sandbox may read, and start programs from; none if absent. */
  readonly readablePaths?: readonly string[];
  readonly jobs: Jobs;
  /** How long a command is waited for that does not say how long it may take; a minute if absent. */
  readonly patienceS?: number;
}

const PATIENCE_S = 60;
const MAX_TIMEOUT_S = 600;
/** When a command in the background is stopped in any case. */
const LONGEST_JOB_S = 6 * 60 * 60;
const MAX_OUTPUT_LENGTH = 30_000;
/** The kernel takes no argument over 128 KB. */
const MAX_COMMAND_BYTES = 120_000;
const DEFAULT_SEARCH_PATH = '/usr/local/bin:/usr/bin:/bin';

const input = z.strictObject({
  command: z
    .string()
    .min(1)
    .refine((command) => !command.includes('\0'), 'must not contain a NUL character')
    .refine(
      (command) => Buffer.byteLength(command) <= MAX_COMMAND_BYTES,
      `at most ${MAX_COMMAND_BYTES} bytes`,
    )
    .describe('The command, as for bash -c'),
  description: z
    .string()
    .max(200)
    .optional()
    .describe('What the command does, in a few words for the person who allows it'),
  timeout_seconds: z
    .int()
    .min(1)
    .max(MAX_TIMEOUT_S)
    .optional()
    .describe('When to stop it; it is then waited for until its end'),
  run_in_background: z
    .boolean()
    .default(false)
    .describe('Start it and go on at once: for servers, watchers and all that does not end by itself'),
});

type Command = z.output<typeof input>;

/** Builds the `bash` tool. */
export function bashTool(given: BashOptions): Tool {
  const options = { patienceS: PATIENCE_S, readablePaths: [], ...given };
  return defineTool({
    name: 'bash',
    description: `${commandNote(options)} ${options.sandbox ? sandboxNote(options) : ''}`.trim(),
    idempotent: false,
    needsPermission: true,
    input,
    prepare(call, context) {
      const description = call.description ?? `Run: ${call.command.slice(0, 200)}`;
      const { run_in_background, ...asked } = call;
      // What is as usual need not be read by whoever decides.
      const params = run_in_background ? call : asked;
      const permission = { action: 'execute', description, path: context.workspacePath, params } as const;
      return { permission, run: () => recordingChanges(context, () => run(call, options, context)) };
    },
  });
}

type Patience = Pick<Required<BashOptions>, 'patienceS'>;

function commandNote({ patienceS }: Patience): string {
  return (
    `Runs a shell command in the workspace and returns its output (both streams, cut in the middle at ` +
    `${MAX_OUTPUT_LENGTH} characters) and exit code. One that takes longer than ${patienceS} s goes on in the background ` +
    'as a job, as one with run_in_background does at once: see job_output and job_kill. With timeout_seconds ' +
    `(at most ${MAX_TIMEOUT_S}) it is waited for and stopped then instead. Each call starts anew in the ` +
    'workspace folder: of earlier ones neither folder nor variables are left. There is no terminal and no input; every ' +
    'process it starts ends with it.'
  );
}

function sandboxNote({ allowNetwork, readablePaths = [] }: BashOptions): string {
  const network = allowNetwork ? '' : ' and there is no network';
  const readable = readablePaths.length > 0 ? `; ${readablePaths.join(', ')} can be read` : '';
  return (
    `It runs in a sandbox: outside the workspace nothing can be written${network}${readable}; .git/hooks, .git/config, ` +
    'service.json, .service.json and .service are read-only, and git init works only in a subfolder.'
  );
}

async function run(call: Command, options: Required<BashOptions>, context: ToolContext): Promise<ToolOutput> {
  const workspace = await realpath(context.workspacePath);
  const started = await startable(call.command, workspace, context.readableFolders, options);
  if ('refused' in started) return failure(started.refused);
  const output = new BoundedOutput(MAX_OUTPUT_LENGTH);
  const progress = new PacedProgress(context.progress);
  let watched = true;
  const launch: Launch = (signal, onOutput) => {
    // One for both: a character may be written half before it goes to the background.
    const decoder = new StringDecoder('utf8');
    const take = (text: string) => {
      if (text === '') return;
      if (!watched) return onOutput(text);
      output.push(text);
      progress.push(text);
    };
    return runCommand({
      ...started,
      timeoutMs: (call.timeout_seconds ?? LONGEST_JOB_S) * 1000,
      signal,
      onOutput: (chunk) => take(decoder.write(chunk)),
    })
      .then((end) => withLimit(end, started))
      .finally(() => {
        take(decoder.end());
        started.release();
      });
  };
  const { sessionId, runId, signal } = context;
  const job = options.jobs.start({
    sessionId,
    runId,
    place: workspace,
    command: call.command,
    timeoutSeconds: call.timeout_seconds,
    launch,
    signal,
  });
  if (!job) {
    started.release();
    return failure(
      'Too many commands are at work already. End one with job_kill, or wait for one with job_output.',
    );
  }
  const end = await waitFor(job, call.run_in_background ? 0 : patienceMs(call, options), progress);
  watched = false;
  if (!end) {
    job.leave();
    return success(inBackground(job, output.text(), call, options), { job_id: job.id });
  }
  options.jobs.forget(context.sessionId, job.id);
  return resultOf(end, output.text(), call);
}

/** Null when it is still at work after that time; without one its end is awaited. */
async function waitFor(
  job: Job,
  patience: number | null,
  progress: PacedProgress,
): Promise<CommandEnd | null> {
  const timer = new AbortController();
  try {
    if (patience === null) return await job.ended;
    const over = delay(patience, null, { signal: timer.signal, ref: false }).catch(() => null);
    return await Promise.race([job.ended, over]);
  } finally {
    timer.abort();
    progress.end();
  }
}

/** A command that says how long it may take is waited for as long; others go on by themselves. */
function patienceMs({ timeout_seconds }: Command, { patienceS }: Patience): number | null {
  return timeout_seconds === undefined ? patienceS * 1000 : null;
}

function inBackground(job: Job, output: string, call: Command, { patienceS }: Patience): string {
  const text = output.trim() === '' ? '' : `${withoutLastBreaks(output)}\n`;
  const why = call.run_in_background ? 'It runs' : `After ${patienceS} s it goes on`;
  return `${text}(${why} in the background as ${job.id}. job_output gives what it writes from now on; job_kill ends it.)`;
}

/** What the kernel refused a command is the likely reason of its failure. */
function withLimit(end: CommandEnd, { exceeded }: Startable): CommandEnd {
  if (end.reason !== 'exited') return end;
  const limit = exceeded();
  // A shell tries again what it could not start, but what was killed for its memory is missing, whatever the last part says.
  if (end.exitCode === 0 && limit !== 'too_much_memory') return end;
  return { ...end, reason: limit ?? end.reason };
}

interface Startable extends Pick<WrappedCommand, 'file' | 'args' | 'exceeded' | 'release'> {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly wrapped: boolean;
}

async function startable(
  command: string,
  workspace: string,
  visiblePaths: readonly string[],
  { sandbox, allowNetwork, readablePaths }: BashOptions,
): Promise<Startable | { refused: string }> {
  const shell = shellPath;
  // The inner shell writes both streams into one pipe, which keeps their order.
  const args = ['-c', 'exec "$0" -c "$1" 2>&1', shell, command] as const;
  try {
    if (!sandbox) return await unconfined([shell, ...args], workspace);
    const wrapped = await sandbox.wrap([shell, ...args], {
      workspacePath: workspace,
      network: allowNetwork,
      visiblePaths,
      readablePaths,
    });
    return { ...wrapped, cwd: '/', env: {}, wrapped: true };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return {
      refused: `${sandbox ? 'The sandbox cannot' : 'Nothing can'} run commands here: ${error.message}`,
    };
  }
}

/** Only where one person is served. Without a sandbox, another user is all that stands between the commands of a server of root and its files. */
async function unconfined(command: readonly string[], workspace: string): Promise<Startable> {
  const owner = await becomingOwner(workspace, true);
  const [file = '', ...args] = [...owner, ...command];
  // The home of root is closed to that user, who has none.
  const home = owner.length === 0 ? homedir() : '/nonexistent';
  const none = { exceeded: () => null, release: () => undefined, wrapped: false };
  return { file, args, cwd: workspace, env: plainEnvironment(workspace, home), ...none };
}

/** Without a sandbox: search path and home are the user's own, everything else of the server's environment stays out. */
function plainEnvironment(workspace: string, home: string): Readonly<Record<string, string>> {
  const path = process.env.PATH ?? DEFAULT_SEARCH_PATH;
  // In the temporary folder other users of the machine could plant start files, in the workspace a stranger's repository.
  return { PATH: path, HOME: home, PWD: workspace, LANG: 'C.UTF-8', TERM: 'dumb' };
}

function resultOf(end: CommandEnd, output: string, call: Command): ToolOutput {
  if (end.reason === 'interrupted') return interrupted(output);
  const text = output.trim() === '' ? '(no output)' : withoutLastBreaks(output);
  const content = `${text}\n${endNote(end, call)}`;
  const metadata = { exit_code: end.exitCode, reason: end.reason };
  return end.reason === 'exited' && end.exitCode === 0
    ? success(content, metadata)
    : failure(content, metadata);
}

/** By hand: an expression would try each of thousands of line breaks as the first of the last ones. */
function withoutLastBreaks(output: string): string {
  let end = output.length;
  while (output[end - 1] === '\n') end -= 1;
  return output.slice(0, end);
}

function stoppedNote({ timeout_seconds }: Pick<Command, 'timeout_seconds'>): string {
  if (timeout_seconds === undefined) return `(Stopped after ${LONGEST_JOB_S / 3600} hours.)`;
  return `(Stopped after ${timeout_seconds} s. A longer timeout_seconds is possible, up to ${MAX_TIMEOUT_S}.)`;
}

const stuckNote =
  '(It could not be started, or has not ended though it was killed, as where it waits for a lost disk.)';

/** How a command ended, as the model is told. */
export function endNote(end: CommandEnd, call: Pick<Command, 'timeout_seconds'>): string {
  switch (end.reason) {
    case 'timed_out':
      return stoppedNote(call);
    case 'too_many_processes':
      return '(Stopped: it started too many processes.)';
    case 'too_much_memory':
      return '(Stopped: it used too much memory.)';
    default:
      if (end.exitCode !== null) return `(Exit code ${end.exitCode}.)`;
      return end.signalName === null ? stuckNote : `(Ended by ${end.signalName}.)`;
  }
}
