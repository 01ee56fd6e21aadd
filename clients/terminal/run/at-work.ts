/** What every command has around its runs: the project, a service that answers, progress, and an end by Ctrl+C. */
import type { ServiceClient } from '@service/client';
import type { Session } from '@service/client/api';
import { noProvider } from '../askable-providers.ts';
import { type Connection, connectHere, connectTo, type LocalConnection } from '../connection.ts';
import { exitCodes } from '../failures.ts';
import { catchInterrupts } from '../interrupts.ts';
import { isDumb, isTerminal, notice } from '../output.ts';
import { openProject, openProjectForRun, type Project } from '../project.ts';
import { failureOf } from '../service-failures.ts';
import { noticeDiagnostics, withPlaces } from '../settings-notices.ts';
import { noProgress, type Progress, startProgress } from './progress.ts';
import { awaitTurn } from './session-turn.ts';

/** What the command line says about any run. */
export interface WorkWishes {
  readonly quiet?: boolean;
  readonly json?: boolean;
  readonly requireTrust?: boolean;
  readonly server?: string;
}

/** What a run is begun and followed with. */
export interface Work {
  readonly client: ServiceClient;
  /** See Connection. */
  readonly awaitsLogin: () => boolean;
  readonly progress: Progress;
  /** Null where the run is on a remote server, which never sees the files. */
  readonly project: Project | null;
  /** Aborted where the person wishes an end. */
  readonly stop: AbortSignal;
}

/** Sets the exit code by how the work ended; throws where it failed. */
export async function atWork(wishes: WorkWishes, act: (work: Work) => Promise<void>): Promise<void> {
  const { requireTrust = false, quiet = false, server } = wishes;
  const place = server ?? (await openProjectForRun({ trustRequired: requireTrust, quiet }));
  const project = typeof place === 'string' ? null : place;
  const progress = (await wantsProgress(project, wishes)) ? startProgress() : noProgress;
  const stop = new AbortController();
  const interrupts = catchInterrupts((what) => stop.abort(what));
  try {
    progress.show('Starting');
    const connection = await connect(place, wishes, progress);
    try {
      const { client, awaitsLogin } = connection;
      await act({ client, awaitsLogin, progress, project, stop: stop.signal });
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
    project?.settings.close();
    interrupts.release();
  }
}

/** How often is looked whether a session is free: here that costs nothing, elsewhere it is for others, too. */
const lookMs = { here: 250, elsewhere: 1000 };

/**
 * Waits until the session is free, and says so; a remote server lets runs wait by itself. There, too, a run that waits
 * for an answer would wait for ever where nobody saw its question: the terminal that it was begun from may be gone.
 */
export async function beginsAfter(
  client: ServiceClient,
  session: Session,
  { quiet, server }: WorkWishes,
  { progress, stop }: Pick<Work, 'progress' | 'stop'>,
): Promise<void> {
  const onWait = () => {
    progress.hide();
    if (!quiet) notice('Another run is at work in this session: this one begins after it.');
  };
  const onUnanswerable = () => {
    if (!quiet) notice('It waits for an answer, and there is no terminal here to ask for it at.');
  };
  if (server === undefined)
    await awaitTurn(client, session, { stop, lookMs: lookMs.here, onWait, onUnanswerable });
  else if (session.status === 'waiting')
    await awaitTurn(client, session, { stop, lookMs: lookMs.elsewhere, onWait, onUnanswerable });
}

/** @param place - The address of a remote server, or else the project. */
async function connect(
  place: string | Project,
  { quiet = false }: WorkWishes,
  progress: Progress,
): Promise<Connection> {
  if (typeof place === 'string') return await connectTo(place);
  const connection = await connectHere(place);
  progress.hide();
  if (!quiet) noticeProviders(connection, place);
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

/** `options.progress`, where there is a person to see it, on a terminal that can take a line back. */
async function wantsProgress(project: Project | null, { quiet, json }: WorkWishes): Promise<boolean> {
  if (quiet || json || !isTerminal(process.stderr) || isDumb()) return false;
  // For a remote server the settings say nothing but this: what cannot be read of them is no matter.
  const read = project ?? (await openProject().catch(() => null));
  if (project === null) read?.settings.close();
  return read?.loaded.config.options?.progress ?? true;
}
