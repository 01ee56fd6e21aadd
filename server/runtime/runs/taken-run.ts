/** A run that was taken over from another process, or that this one had given up: whether it goes on here, and how it ends if not. */
import type { InterruptReason } from '../../contract/api.ts';
import type { Log } from '../../log.ts';
import { Problem } from '../../problem.ts';
import type { EventLog } from '../events/event-log.ts';
import type { Query } from '../query.ts';
import type { TakenRun, Transcript } from '../transcript.ts';
import { readProgress, resumptionsInVain } from './continuation.ts';
import { failRun, interruptRun, withdrawRun } from './run-end.ts';
import type { RunScope } from './run-scope.ts';
import type { OpenScope } from './run-scope-opener.ts';
import { isStoreAway } from './store-failure.ts';

export interface ResumingParts {
  readonly transcript: Transcript;
  readonly log: Log;
  readonly openScope: OpenScope;
  /** Names the workspace folder among those of all nodes; null where it is not there. */
  readonly workspacePlace: (workspaceId: string) => Promise<string | null>;
  /** Whether calls of this tool have to do with the workspace folder. */
  readonly needsFiles: (toolName: string) => boolean;
}

/** A run that brings its process down each time must not do so for ever. One that gets on outlives any number of stops. */
const mostResumptionsInVain = 20;

/** Each of them asks the model anew for what the disk has no room for, and that has to be paid for. */
const mostResumptionsOnFullDisk = 2;

/** Opens what the run works with; null where it has ended instead, with the reason why it does not go on. */
export async function openTaken(
  parts: ResumingParts,
  run: TakenRun,
  events: EventLog,
  { controller, foundNoRoom }: { readonly controller: AbortController; readonly foundNoRoom: boolean },
): Promise<RunScope | null> {
  const reason = await reasonNotToResume(parts, run);
  if (reason) await endTaken(parts, run, events, reason);
  // Small writes may go through where no answer does: a disk without any room keeps the run from being resumed at all.
  else if (foundNoRoom && (await isInVain(parts.transcript, run, mostResumptionsOnFullDisk)))
    await failTaken(parts, run, events, noRoom());
  else return openOrFail(parts, run, events, controller);
  return null;
}

/** Null where the run can go on in this process. */
async function reasonNotToResume(parts: ResumingParts, run: TakenRun): Promise<InterruptReason | null> {
  if (run.interrupt) return run.interrupt;
  // Who waited for the answer went away with the process.
  if (run.trigger === 'messages') return 'lease_lost';
  if (await isInVain(parts.transcript, run, mostResumptionsInVain)) return 'resumed_too_often';
  if ((await parts.workspacePlace(run.session.workspaceId)) === run.workspacePlace) return null;
  const { toolUses } = await readProgress(parts.transcript, run);
  return toolUses.some(({ name }) => parts.needsFiles(name)) ? 'workspace_unavailable' : null;
}

/** Most runs have been resumed so seldom that nothing has to be read. */
async function isInVain(transcript: Transcript, run: TakenRun, most: number): Promise<boolean> {
  if (run.resumptions < most) return false;
  return (await resumptionsInVain(transcript, run)) >= most;
}

function noRoom(): Problem {
  const asked = `${mostResumptionsOnFullDisk + 1} times`;
  return new Problem(
    'storage_full',
    `The disk of the database has no room for what the model answers, which was asked ${asked}; ask again once there is room.`,
  );
}

async function endTaken(
  { transcript, log }: ResumingParts,
  run: TakenRun,
  events: EventLog,
  reason: InterruptReason,
): Promise<void> {
  const stop = run.status === 'queued' ? withdrawRun : interruptRun;
  await stop(endingOf(run, transcript, log), events, await readProgress(transcript, run), reason);
}

/** Null where the settings have no such profile, model or provider any more: the run has failed then. */
async function openOrFail(
  parts: ResumingParts,
  run: TakenRun,
  events: EventLog,
  controller: AbortController,
): Promise<RunScope | null> {
  try {
    return await parts.openScope(queryOf(run), run.runId, controller);
  } catch (error) {
    if (isStoreAway(error)) throw error;
    await failTaken(parts, run, events, missingProvider(error, run));
    return null;
  }
}

async function failTaken(
  { transcript, log }: ResumingParts,
  run: TakenRun,
  events: EventLog,
  cause: unknown,
): Promise<void> {
  await failRun(endingOf(run, transcript, log), events, await readProgress(transcript, run), cause);
}

/** Whoever reads it has named the model long ago, and it was there. */
function missingProvider(error: unknown, { model, request }: TakenRun): unknown {
  if (!(error instanceof Problem)) return error;
  const named = error.code === 'not_found' && request?.providerSettingId !== undefined;
  if (!named && error.code !== 'model_not_found') return error;
  return new Problem(
    error.code,
    `The provider setting by which ${model} was asked has been taken away or changed; ask again. ${error.message}`,
    { cause: error },
  );
}

function endingOf({ runId, sessionId, model, request }: TakenRun, transcript: Transcript, log: Log) {
  const corpus = request?.corpus ?? null;
  return { runId, sessionId, transcript, log, corpus, model: { name: model } };
}

/** The query as it was asked, in the session as it is now. */
export function queryOf(run: TakenRun): Query {
  const { userId, trigger, agentSlug, model, permissionMode, onUnanswered } = run;
  return {
    session: { id: run.sessionId, ...run.session },
    ...{ userId, trigger, agentSlug, model, permissionMode, onUnanswered },
    ...(run.request && { request: run.request }),
    taken: true,
    messages: [],
    ...(run.agent && { agent: run.agent }),
  };
}
