/** The stream of one run: shown, asked about, and stopped when the person wishes. */
import { randomUUID } from 'node:crypto';
import type { ServiceClient } from '@service/client';
import type { Plan, QueryRequest, QueryResponse } from '@service/client/api';
import { BrokenStreamError } from '@service/client/errors';
import { type RunEvent, type StreamOptions, streamQuery, streamRunEvents } from '@service/client/stream';
import type { Interrupt } from '../interrupts.ts';
import { jsonText, notice, paint, print } from '../output.ts';
import { failureOfRun } from '../service-failures.ts';
import { openKeyboard } from '../terminal-input.ts';
import { deliver, type Send } from './answers.ts';
import { createConnectionWords } from './connection-words.ts';
import type { RunDisplay } from './run-display.ts';
import { createRunQuestions } from './run-questions.ts';

/** What begins a run: a query, or somebody else who has begun it. */
export type Beginning = { readonly query: QueryRequest } | { readonly runId: string };

/** How a run is watched. */
export interface Watching {
  readonly display: RunDisplay;
  /** Prints every event. */
  readonly json: boolean;
  /** Says nothing beside the answer. */
  readonly quiet: boolean;
  /** See Connection. */
  readonly awaitsLogin: () => boolean;
  /** Interrupts the run. */
  readonly stop: AbortSignal;
  /** Told the session of the run as soon as it is known. */
  readonly onSession: (sessionId: string) => void;
}

/** How a run has ended. */
export interface Ended {
  readonly done: QueryResponse;
  /** The last version of the plan that it wrote. */
  readonly plan: Plan | null;
}

/** Ends with the run: null where it was stopped and nothing more is known of it. Throws where it failed. */
export async function watchRun(
  client: ServiceClient,
  beginning: Beginning,
  { display, json, quiet, awaitsLogin, stop, onSession }: Watching,
): Promise<Ended | null> {
  const keyboard = openKeyboard();
  const questions = createRunQuestions(client, display, keyboard);
  const over = new AbortController();
  const onStop = () => {
    if (over.signal.aborted) return;
    questions.giveUp();
    if (!quiet) sayThatItStops(stop, display);
  };
  stop.addEventListener('abort', onStop, { once: true });
  const interrupt = interrupterOf(client, stop, over.signal);
  const connection = createConnectionWords(display, awaitsLogin);
  let plan: Plan | null = null;
  try {
    for await (const event of eventsOf(client, beginning, { onConnection: connection.changed })) {
      interrupt.see(event);
      if (event.event === 'runtime' && event.data.type === 'run_queued') onSession(event.data.session_id);
      if (json) print(jsonText(event));
      display.show(event);
      if (event.event === 'runtime') questions.see(event.data);
      plan = waiting(event) ?? plan;
      if (event.event === 'done') return { done: event.data, plan };
      if (event.event === 'error') throw failureOfRun(event.data.error);
    }
    return null;
  } catch (failure) {
    over.abort(failure);
    throw failure;
  } finally {
    over.abort();
    stop.removeEventListener('abort', onStop);
    connection.close();
    await questions.close();
    display.end();
    keyboard?.close();
  }
}

function eventsOf(
  client: ServiceClient,
  beginning: Beginning,
  options: StreamOptions,
): AsyncGenerator<RunEvent> {
  return 'query' in beginning
    ? // With a key of its own the question can be sent again where the network loses the answer, and begins one run.
      streamQuery(client, beginning.query, { ...options, idempotencyKey: randomUUID() })
    : streamRunEvents(client, beginning.runId, options);
}

/** Interrupts the run once it is to stop, and as soon as its id is known. */
function interrupterOf(
  client: ServiceClient,
  stop: AbortSignal,
  over: AbortSignal,
): { see(event: RunEvent): void } {
  let runId: string | null = null;
  const interrupt = () => {
    if (runId === null || !stop.aborted || over.aborted) return;
    const params = { path: { run_id: runId } };
    const send: Send = (late) =>
      client.POST('/api/v1/runs/{run_id}/interrupt', { params, signal: AbortSignal.any([over, late]) });
    const fail = (why: Error) => notice(`The run could not be interrupted: ${why.message}`);
    deliver(send, over, { what: 'interrupt' }).then(
      (refusal) => refusal && fail(refusal),
      // Else it ended by itself meanwhile.
      (reason: unknown) => reason instanceof BrokenStreamError && fail(reason),
    );
  };
  // Not with `over` as the signal of the listener: of two such listeners Node forgets how to remove the first.
  stop.addEventListener('abort', interrupt, { once: true });
  return {
    see(event) {
      if (runId !== null || event.event !== 'runtime' || !('run_id' in event.data)) return;
      runId = event.data.run_id;
      interrupt();
    },
  };
}

/** Not where the reader has left: nobody asked for words then. */
function sayThatItStops(stop: AbortSignal, display: RunDisplay): void {
  const line = paint('dim', 'Stopping the run; the same again ends at once.', process.stderr);
  if (stop.reason === ('signal' satisfies Interrupt)) display.aside(line);
}

/** A plan that the run has written, and that somebody has to decide about. */
function waiting(event: RunEvent): Plan | null {
  if (event.event !== 'runtime' || event.data.type !== 'plan_updated') return null;
  return event.data.plan.status === 'proposed' ? event.data.plan : null;
}
