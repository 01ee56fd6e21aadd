/** The runs behind queries: list, read, interrupt, and their events again. */
import type { Run, RuntimeEvent } from '../contract/api.ts';
import type { Call, Handler, Principal, ServerEvent, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { requireKept } from './kept-events.ts';

export const listRuns: Handler<'listRuns'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.runs.list(principal, query),
});

export const getRun: Handler<'getRun'> = async ({ principal, path }, { store }) => {
  const found = await store.runs.find(principal, path.run_id);
  if (!found) throw missing();
  return { status: 200, body: found.run };
};

export const interruptRun: Handler<'interruptRun'> = async ({ principal, path }, { store, runtime }) => {
  const run = await store.runs.requestInterrupt(principal, path.run_id, 'requested');
  runtime.wake(path.run_id);
  return { status: 202, body: run };
};

export const streamRunEvents: Handler<'streamRunEvents'> = async (call, services) => {
  const { store, runtime } = services;
  const found = await store.runs.find(call.principal, call.path.run_id);
  if (!found) throw missing();
  const { run } = found;
  const after = cursorOf(call);
  if (after > run.last_event_id)
    throw new Problem(
      'invalid_request',
      `The run has no event ${after} yet; its newest is ${run.last_event_id}.`,
    );
  requireKept(found, after);
  // All that an ended run will ever say is stored: there is nothing to wait for.
  const follow = call.query.follow && run.ended_at === null;
  const events = runtime.follow(run.id, { after, follow, signal: call.signal });
  const wantsState = call.query.follow || after > 0;
  return {
    status: 200,
    type: 'text/event-stream',
    headers: { 'X-Run-Id': run.id },
    body: wantsState ? behind(await snapshotOf(run, call.principal, services), events) : events,
  };
};

async function* behind(first: ServerEvent, events: AsyncIterable<ServerEvent>): AsyncGenerator<ServerEvent> {
  yield first;
  yield* events;
}

/** How the run stands, for a client that was not there or has forgotten. It has no number, since it is not stored. */
async function snapshotOf(
  run: Run,
  principal: Principal,
  { store, runtime }: Services,
): Promise<ServerEvent<RuntimeEvent>> {
  const [permission_requests, prompt_requests, todos] = await Promise.all([
    store.permissions.pending(principal, run.id),
    store.prompts.pending(principal, run.id),
    runtime.todos(run.session_id, run.id),
  ]);
  return {
    name: 'runtime',
    data: {
      type: 'snapshot_given',
      run_id: run.id,
      session_id: run.session_id,
      run,
      permission_requests,
      prompt_requests,
      todos: todos.map((todo) => ({ ...todo })),
    },
  };
}

/** The header is what browsers send by themselves on a reconnect, so it is the newer of the two. */
function cursorOf({ headers, query }: Call<'streamRunEvents'>): number {
  return headers['Last-Event-ID'] === undefined ? (query.after ?? 0) : Number(headers['Last-Event-ID']);
}

function missing(): Problem {
  return new Problem('not_found', 'No run has this id, or it is not yours.');
}
