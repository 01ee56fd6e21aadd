/** A run from the question to its end, and those that carry out what it has planned. */
import type { ServiceClient } from '@service/client';
import type { QueryRequest, QueryResponse } from '@service/client/api';
import { describeUse } from '../amounts.ts';
import { citedIn } from '../corpora/citations.ts';
import { nextCommand } from '../next-command.ts';
import { describeDiagnostic, isTerminal, notice, paint, print, printable, shown } from '../output.ts';
import type { Project } from '../project.ts';
import { keepLatest } from '../server-sessions.ts';
import { shortIds } from '../session-ids.ts';
import { openKeyboard } from '../terminal-input.ts';
import { decideOnPlan } from './plan-decision.ts';
import type { Progress } from './progress.ts';
import { createRunDisplay, type RunDisplay, silentDisplay } from './run-display.ts';
import { failIfInterrupted, remarkOn } from './run-endings.ts';
import { type Beginning, type Ended, watchRun } from './watch-run.ts';

/** How a run is followed. */
export interface Following {
  /** Prints the answer alone, when it is there. */
  readonly quiet?: boolean;
  /** Prints every event instead. */
  readonly json?: boolean;
  /** Nothing is asked of the runs that follow either. */
  readonly yolo?: boolean;
  /** The model of the runs that follow. */
  readonly model?: string;
  /** The remote server, as it has to be named to go on there. */
  readonly server?: string;
  /** The query in which the agent plans anew, told why. */
  readonly planAgain: (sessionId: string, why: string) => QueryRequest;
  /** See Connection. */
  readonly awaitsLogin: () => boolean;
  readonly progress: Progress;
  /** Whose settings the run goes by; null where it is on a remote server. */
  readonly project: Project | null;
  /** Interrupts the run; what it had done by then is still shown. */
  readonly stop: AbortSignal;
}

/** Ends with the last of the runs; throws where one failed. */
export async function followRun(
  client: ServiceClient,
  beginning: Beginning,
  following: Following,
): Promise<void> {
  const { quiet = false, json = false, progress, project, stop } = following;
  const alone = quiet || json;
  const display = alone ? silentDisplay : createRunDisplay(progress);
  if (project !== null && !alone) sayWhatChanges(project, display);
  for (let next: Beginning | null = beginning; next !== null; ) {
    const ended: Ended | null = await watchOne(client, next, following, display);
    if (ended === null) return;
    if (quiet && !json) printAnswer(ended.done);
    if (!alone) sayWhatIsCited(ended.done, display);
    if (!stop.aborted) remarkOn(ended.done, { alone, goOn: goOnCommand(ended.done.session_id, following) });
    next = alone ? null : await whatFollows(client, ended, following);
    if (next === null && !alone) sayHowToGoOn(ended.done.session_id, following, ended.done);
    if (!stop.aborted) failIfInterrupted(ended.done);
  }
}

/** Where it fails, the session stays, with what was said and done before. */
async function watchOne(
  client: ServiceClient,
  beginning: Beginning,
  following: Following,
  display: RunDisplay,
): Promise<Ended | null> {
  const { quiet = false, json = false, server, awaitsLogin, stop } = following;
  let session: string | null = null;
  let kept: Promise<void> | undefined;
  const onSession = (id: string) => {
    session = id;
    if (server !== undefined) kept ??= keepLatest(server, id);
  };
  try {
    return await watchRun(client, beginning, { display, json, quiet, awaitsLogin, stop, onSession });
  } catch (failure) {
    if (session !== null && !quiet && !json) sayHowToGoOn(session, following);
    throw failure;
  } finally {
    await kept;
  }
}

/** The run that comes of a plan; null where there is none, or the person has not approved it. */
async function whatFollows(
  client: ServiceClient,
  { done, plan }: Ended,
  following: Following,
): Promise<Beginning | null> {
  if (plan === null) return null;
  const keyboard = done.status === 'completed' && !following.stop.aborted ? openKeyboard() : null;
  try {
    const next = keyboard && (await decideOnPlan(client, plan, keyboard, following));
    if (next === null) sayHowToDecide(plan.id, following);
    return next === 'decided' ? null : next;
  } catch (failure) {
    sayHowToDecide(plan.id, following);
    sayHowToGoOn(done.session_id, following, done);
    throw failure;
  } finally {
    keyboard?.close();
  }
}

/** A file that is mended or broken while the run goes on counts at once, and the person should know. */
function sayWhatChanges({ settings }: Project, display: RunDisplay): void {
  settings.onChange((_loaded, problems) => {
    for (const problem of problems) display.aside(describeDiagnostic(problem, process.stderr));
  });
}

/** A number in brackets says nothing to whoever has not seen the passages. */
function sayWhatIsCited(done: QueryResponse, display: RunDisplay): void {
  for (const line of citedIn(done)) display.aside(paint('dim', printable(line), process.stderr));
}

function printAnswer({ content }: QueryResponse): void {
  const answer = content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  print((isTerminal() ? shown(answer) : answer).replace(/\n$/, ''));
}

function goOnCommand(id: string, { server }: Following): string {
  return nextCommand('run', server, `--session ${shortIds([id])(id)} "…"`);
}

function sayHowToGoOn(id: string, following: Following, done?: QueryResponse): void {
  if (!isTerminal(process.stderr)) return;
  const used = done ? [`The run: ${describeUse(done.usage, done.cost)}`] : [];
  const lines = [`Session ${id}. To go on: ${goOnCommand(id, following)}`, ...used];
  process.stderr.write(
    `\n${paint('dim', lines.map((line) => printable(line)).join('\n'), process.stderr)}\n`,
  );
}

function sayHowToDecide(planId: string, { server }: Following): void {
  const short = shortIds([planId])(planId);
  const approve = nextCommand('plans approve', server, short);
  const reject = nextCommand('plans reject', server, `${short} "why"`);
  notice(`The plan waits. To have it carried out: ${approve}. To refuse it: ${reject}.`);
}
