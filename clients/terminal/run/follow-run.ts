/** One run from the question to its end: shown, asked about, and stopped when the person wishes. */
import type { ServiceClient } from '@service/client';
import type { QueryRequest, QueryResponse } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { type RunEvent, streamQuery } from '@service/client/stream';
import { CommandFailure } from '../failures.ts';
import type { Interrupt } from '../interrupts.ts';
import { describeDiagnostic, isTerminal, jsonText, notice, paint, print, shown } from '../output.ts';
import type { Project } from '../project.ts';
import { failureOfRun } from '../service-failures.ts';
import { shortIds } from '../session-ids.ts';
import { openKeyboard } from '../terminal-input.ts';
import type { Progress } from './progress.ts';
import { createRunDisplay, type RunDisplay, silentDisplay } from './run-display.ts';
import { createRunQuestions } from './run-questions.ts';

/** How a run is followed. */
export interface Following {
  /** Prints the answer alone, when it is there. */
  readonly quiet?: boolean;
  /** Prints every event instead. */
  readonly json?: boolean;
  readonly progress: Progress;
  readonly project: Project;
  /** Interrupts the run; what it had done by then is still shown. */
  readonly stop: AbortSignal;
}

/** Ends with the run; throws where it failed. */
export async function followRun(
  client: ServiceClient,
  query: QueryRequest,
  { quiet = false, json = false, progress, project, stop }: Following,
): Promise<void> {
  const display = quiet || json ? silentDisplay : createRunDisplay(progress);
  if (!quiet && !json) sayWhatChanges(project, display);
  if (!quiet) sayThatItStops(stop, display);
  const done = await watch(client, query, { display, json, stop });
  if (quiet && done) printAnswer(done);
  if (!quiet && !json && done) sayHowToGoOn(done);
  if (done && !stop.aborted) judge(done);
}

interface Watching {
  readonly display: RunDisplay;
  readonly json: boolean;
  readonly stop: AbortSignal;
}

/** Null where the run was stopped, and nothing more is known of it. */
async function watch(
  client: ServiceClient,
  query: QueryRequest,
  { display, json, stop }: Watching,
): Promise<QueryResponse | null> {
  const keyboard = openKeyboard();
  const questions = createRunQuestions(client, display, keyboard);
  const interrupt = interrupterOf(client, stop);
  try {
    for await (const event of streamQuery(client, query)) {
      interrupt.see(event);
      if (json) print(jsonText(event));
      display.show(event);
      if (event.event === 'runtime') questions.see(event.data);
      if (event.event === 'done') return event.data;
      if (event.event === 'error') throw failureOfRun(event.data.error);
    }
    return null;
  } finally {
    await questions.close();
    display.end();
    keyboard?.close();
  }
}

/** Interrupts the run once it is to stop, and as soon as its id is known. */
function interrupterOf(client: ServiceClient, stop: AbortSignal): { see(event: RunEvent): void } {
  let runId: string | null = null;
  const interrupt = () => {
    if (runId === null || !stop.aborted) return;
    const params = { path: { run_id: runId } };
    client.POST('/api/v1/runs/{run_id}/interrupt', { params }).catch((error: unknown) => {
      // It ended by itself meanwhile.
      if (error instanceof ServiceError && error.code === 'run_ended') return;
      notice(`The run could not be interrupted: ${error instanceof Error ? error.message : String(error)}`);
    });
  };
  stop.addEventListener('abort', interrupt, { once: true });
  return {
    see(event) {
      if (runId !== null || event.event !== 'runtime' || !('run_id' in event.data)) return;
      runId = event.data.run_id;
      interrupt();
    },
  };
}

/** A file that is mended or broken while the run goes on counts at once, and the person should know. */
function sayWhatChanges({ settings }: Project, display: RunDisplay): void {
  settings.onChange((_loaded, problems) => {
    for (const problem of problems) display.aside(describeDiagnostic(problem, process.stderr));
  });
}

/** Not where the reader has left: nobody asked for words then. */
function sayThatItStops(stop: AbortSignal, display: RunDisplay): void {
  const line = paint('dim', 'Stopping the run; the same again ends at once.', process.stderr);
  const say = () => stop.reason === ('signal' satisfies Interrupt) && display.aside(line);
  stop.addEventListener('abort', say, { once: true });
}

function printAnswer({ content }: QueryResponse): void {
  const answer = content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  print((isTerminal() ? shown(answer) : answer).replace(/\n$/, ''));
}

function sayHowToGoOn({ session_id: id }: QueryResponse): void {
  if (!isTerminal(process.stderr)) return;
  const line = `Session ${id}. To go on: service run --session ${shortIds([id])(id)} "…"`;
  process.stderr.write(`\n${paint('dim', line, process.stderr)}\n`);
}

/** What the end of a run says beside the answer. */
const ends: Partial<Readonly<Record<QueryResponse['stop_reason'], string>>> = {
  max_tokens: 'The answer is cut off: the model may write no more at once. Ask it to go on with --continue.',
  step_limit: 'The run took as many steps as it may. --continue goes on from there.',
  token_limit: 'The run used as many tokens as it may. --continue goes on from there.',
  cost_limit: 'The run cost as much as it may. --continue goes on from there.',
  loop_detected: 'The run was ended because it turned in circles.',
  refusal: 'The model declined to answer.',
};

const interruptions: Readonly<Record<NonNullable<QueryResponse['interrupt_reason']>, string>> = {
  requested: 'The run was interrupted from elsewhere.',
  shutdown: 'The server was stopped, and the run with it.',
  lease_lost: 'The server died, and the run with it.',
  workspace_unavailable: 'The server died, and the one that took over does not reach the files of the run.',
  resumed_too_often: 'The server died at this run again and again; it is not tried any more.',
  client_disconnected: 'The connection was lost, and the run with it.',
  hook: 'A hook stopped the run.',
};

function judge({ status, stop_reason, interrupt_reason }: QueryResponse): void {
  if (status === 'interrupted') throw new CommandFailure(interruptions[interrupt_reason ?? 'requested']);
  const remark = ends[stop_reason];
  if (remark) notice(remark);
}
