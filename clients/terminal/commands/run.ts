/** `service run`: asks the agent something, and shows what it does until it has answered. */
import type { ServiceClient } from '@service/client';
import type { QueryRequest } from '@service/client/api';
import { type Connection, connectHere, connectTo } from '../connection.ts';
import { CommandFailure } from '../failures.ts';
import { followRun } from '../follow-run.ts';
import { catchInterrupts } from '../interrupts.ts';
import { isTerminal } from '../output.ts';
import { noProgress, type Progress, startProgress } from '../progress.ts';
import { openProjectForRun, type Project } from '../project.ts';
import { readPrompt } from '../prompt-input.ts';
import { failureOf } from '../service-failures.ts';
import { findSession, latestSession } from '../session-ids.ts';

/** The options of the command line. */
export interface RunWishes {
  readonly model?: string;
  readonly session?: string;
  readonly continue?: boolean;
  readonly quiet?: boolean;
  readonly json?: boolean;
  readonly yolo?: boolean;
  readonly requireTrust?: boolean;
  readonly server?: string;
}

/** Runs to the end of the answer; how it ended is the exit code. */
export async function run(words: readonly string[], wishes: RunWishes): Promise<void> {
  const { requireTrust = false, quiet = false, server } = wishes;
  const prompt = await readPrompt(words);
  const used = server === undefined;
  const project = await openProjectForRun({ trustRequired: requireTrust, used, quiet });
  const progress = chooseProgress(project, wishes);
  const stop = new AbortController();
  const interrupts = catchInterrupts((what) => stop.abort(what));
  try {
    progress.show('Starting');
    const connection = await connect(project, server);
    try {
      const query = await queryOf(connection.client, prompt, wishes);
      stop.signal.throwIfAborted();
      await followRun(connection.client, query, { ...wishes, progress, project, stop: stop.signal });
    } finally {
      await connection.close();
    }
    process.exitCode = interrupts.exitCode() ?? process.exitCode;
  } catch (error) {
    const code = interrupts.exitCode();
    if (code === null) throw failureOf(error);
    process.exitCode = code;
  } finally {
    progress.hide();
    project.settings.close();
    interrupts.release();
  }
}

/** `options.progress`, where there is a person to see it. */
function chooseProgress({ loaded }: Project, { quiet, json }: RunWishes): Progress {
  const wanted = loaded.config.options?.progress ?? true;
  return wanted && !quiet && !json && isTerminal(process.stderr) ? startProgress() : noProgress;
}

async function connect(project: Project, server: string | undefined): Promise<Connection> {
  return server === undefined ? await connectHere(project) : await connectTo(server);
}

async function queryOf(client: ServiceClient, prompt: string, wishes: RunWishes): Promise<QueryRequest> {
  const session = await chooseSession(client, wishes);
  return {
    prompt,
    ...(session !== null && { session_id: session }),
    ...(wishes.model !== undefined && { model: wishes.model }),
    ...(wishes.yolo && { permission_mode: 'bypass' }),
  };
}

/** Null for a new one. */
async function chooseSession(client: ServiceClient, wishes: RunWishes): Promise<string | null> {
  if (wishes.session !== undefined) return (await findSession(client, wishes.session)).id;
  if (!wishes.continue) return null;
  const latest = await latestSession(client);
  if (latest) return latest.id;
  throw new CommandFailure('There is no session to go on in. Leave out --continue to begin one.');
}
