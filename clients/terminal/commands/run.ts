/** `service run`: asks the agent something, and shows what it does until it has answered. */
import type { ServiceClient } from '@service/client';
import type { QueryRequest, Session } from '@service/client/api';
import { noProvider } from '../askable-providers.ts';
import { type Connection, connectHere, connectTo, type LocalConnection } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { catchInterrupts } from '../interrupts.ts';
import { isTerminal, notice } from '../output.ts';
import { openProjectForRun, type Project } from '../project.ts';
import { followRun } from '../run/follow-run.ts';
import { noProgress, type Progress, startProgress } from '../run/progress.ts';
import { readPrompt } from '../run/prompt-input.ts';
import { awaitTurn } from '../run/session-turn.ts';
import { failureOf } from '../service-failures.ts';
import { findSession, latestSession } from '../session-ids.ts';
import { noticeDiagnostics, withPlaces } from '../settings-notices.ts';

/** The options of the command line. */
export interface RunWishes {
  readonly model?: string;
  readonly agent?: string;
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
  const prompt = await readPrompt(words);
  await runPrompt(() => prompt, wishes);
}

/** As `run`, with a prompt that follows from the project's settings. */
export async function runPrompt(promptFor: (project: Project) => string, wishes: RunWishes): Promise<void> {
  const { requireTrust = false, quiet = false, server } = wishes;
  const used = server === undefined;
  const project = await openProjectForRun({ trustRequired: requireTrust, used, quiet });
  const progress = chooseProgress(project, wishes);
  const stop = new AbortController();
  const interrupts = catchInterrupts((what) => stop.abort(what));
  try {
    progress.show('Starting');
    const connection = await connect(project, wishes, progress);
    const { client } = connection;
    try {
      await ask({ client, prompt: promptFor(project), wishes, progress, project, stop: stop.signal });
    } finally {
      await connection.close();
    }
    process.exitCode = interrupts.exitCode() ?? exitCodes.done;
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

async function connect(
  project: Project,
  { server, quiet = false }: RunWishes,
  progress: Progress,
): Promise<Connection> {
  if (server !== undefined) return await connectTo(server);
  const connection = await connectHere(project);
  progress.hide();
  if (!quiet) noticeProviders(connection, project);
  return connection;
}

/** What is odd about providers is known only now; of the settings themselves it was said before. */
function noticeProviders({ diagnostics, isDemonstration }: LocalConnection, { loaded }: Project): void {
  const said = new Set(loaded.diagnostics.map((one) => JSON.stringify(one)));
  const others = diagnostics.filter((one) => !said.has(JSON.stringify(one)));
  noticeDiagnostics(withPlaces(others, loaded));
  const { models, providers } = loaded.config;
  if (isDemonstration && (models || providers)) notice(`${noProvider.message} ${noProvider.remedy}`);
}

interface Asking {
  readonly client: ServiceClient;
  readonly prompt: string;
  readonly wishes: RunWishes;
  readonly progress: Progress;
  readonly project: Project;
  readonly stop: AbortSignal;
}

async function ask({ client, prompt, wishes, ...following }: Asking): Promise<void> {
  const { progress, stop } = following;
  const session = await chooseSession(client, wishes);
  const onWait = () => {
    progress.hide();
    if (!wishes.quiet) notice('Another run is at work in this session: this one begins after it.');
  };
  // A remote server lets runs wait by itself.
  if (session && wishes.server === undefined) await awaitTurn(client, session, { stop, onWait });
  stop.throwIfAborted();
  await followRun(client, queryOf(prompt, session, wishes), { ...wishes, ...following });
}

/** `options.progress`, where there is a person to see it. */
function chooseProgress({ loaded }: Project, { quiet, json }: RunWishes): Progress {
  const wanted = loaded.config.options?.progress ?? true;
  return wanted && !quiet && !json && isTerminal(process.stderr) ? startProgress() : noProgress;
}

function queryOf(prompt: string, session: Session | null, { model, agent, yolo }: RunWishes): QueryRequest {
  return {
    prompt,
    ...(session && { session_id: session.id }),
    ...(model !== undefined && { model }),
    ...(agent !== undefined && { agent_slug: agent }),
    ...(yolo && { permission_mode: 'bypass' }),
  };
}

/** Null for a new one. */
async function chooseSession(client: ServiceClient, wishes: RunWishes): Promise<Session | null> {
  if (wishes.session !== undefined) return await findSession(client, wishes.session);
  if (!wishes.continue) return null;
  const latest = await latestSession(client);
  if (latest) return latest;
  throw new CommandFailure('There is no session to go on in. Leave out --continue to begin one.');
}
