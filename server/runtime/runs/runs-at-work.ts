/** The runs that this process works on, begun here or taken over from another, until they have ended or are handed over. */
import type { InterruptReason } from '../../contract/api.ts';
import { newId } from '../../ids.ts';
import { Problem } from '../../problem.ts';
import { nameOwner } from '../../process-name.ts';
import type { EventHub } from '../events/event-hub.ts';
import { createEventLog, type EventLog } from '../events/event-log.ts';
import type { TitleWriter } from '../prompt/title-writer.ts';
import type { Asker } from '../providers/own-providers.ts';
import type { Query } from '../query.ts';
import type { NewMessage, NumberedEvent, RunEvent, TakenRun } from '../transcript.ts';
import { type LeaseTimes, startLeaseKeeper } from './lease-keeper.ts';
import { beginningOf, executeRun, type RunStart } from './run.ts';
import type { Preparing, RunScope } from './run-scope.ts';
import { abort } from './run-scope-opener.ts';
import { createSessionQueue, type QueuedRun } from './session-queue.ts';
import { isStoreFull } from './store-failure.ts';
import { openTaken, queryOf, type ResumingParts } from './taken-run.ts';

export interface StartedRun {
  readonly runId: string;
  readonly sessionId: string;
  readonly model: string;
  /** What is to be told to who asks: soft limits that are passed, in sentences. */
  readonly notices: readonly string[];
}

/** How many runs there may be before another is refused. */
export interface RunLimits {
  /** That wait in a session behind the one at work. */
  readonly queuedInSession: number;
  /** In this process, at work or waiting. */
  readonly inProcess: number;
}

/** What is under way in this process. */
export interface RunCounts {
  /** At work or waiting. */
  readonly active: number;
  readonly waiting: number;
  /** In the session where most wait. */
  readonly waitingInOneSession: number;
}

export interface RunsAtWork {
  /** Stores the query as a run and starts it, behind what its session is busy with. Throws Problem. */
  begin(query: Query): Promise<StartedRun>;
  /** Reads whether somebody wants the run to stop, if it is at work here. */
  heedInterrupt(runId: string): void;
  counts(): RunCounts;
  /** Hands over or interrupts what is at work, and waits until that is stored. */
  close(): Promise<void>;
}

export interface RunsAtWorkParts extends ResumingParts {
  readonly hub: EventHub;
  readonly preparing: Preparing;
  readonly titles: TitleWriter;
  readonly lease: LeaseTimes;
  readonly limits: RunLimits;
  /** Ends the commands that the run has left at work in the background. */
  readonly endCommandsOf: (runId: string) => Promise<void>;
  /** Whether other processes are to go on with the runs at work here when it closes; they are interrupted otherwise. */
  readonly handsOver: boolean;
}

interface ActiveRun {
  readonly controller: AbortController;
  /** Whether another process may go on with it when this one stops. */
  readonly goesOn: boolean;
  readonly finished: Promise<void>;
}

export function workOnRuns(parts: RunsAtWorkParts): RunsAtWork {
  const { transcript, hub, log, limits } = parts;
  const owner = nameOwner();
  const queue = createSessionQueue(hub, (run) => transcript.hasEarlierRun(run));
  const active = new Map<string, ActiveRun>();
  const starting = new Map<string, Promise<unknown>>();
  let closing = false;

  const handedOver = new Set<string>();
  /** Given up here, since what they had to store found no room. */
  const withoutRoom = new Set<string>();

  /**
   * Nothing is written any more to a run that this process gives up: what its end makes of tools and questions is no news,
   * though a store that was away may take it before anybody else has the run.
   */
  const interrupt = (runId: string, reason: InterruptReason): void => {
    if (reason === 'lease_lost' && active.has(runId)) transcript.letGo(runId);
    abort(active.get(runId)?.controller, reason);
  };

  const stop = (runId: string): void => {
    const hands = active.get(runId)?.goesOn ?? false;
    if (hands) handedOver.add(runId);
    interrupt(runId, hands ? 'lease_lost' : 'shutdown');
  };

  const goesOn = (query: Query): boolean => {
    if (!parts.handsOver || isWaitedFor(query)) return false;
    const root = query.agent && active.get(query.agent.rootRunId);
    return root?.goesOn ?? true;
  };

  const work = async (runId: string, lastEventId: number, carryOut: (events: EventLog) => Promise<void>) => {
    hub.begin(runId);
    const events = createEventLog(runId, transcript, lastEventId, (stored) => hub.stored(runId, stored));
    try {
      await carryOut(events);
      withoutRoom.delete(runId);
    } catch (error) {
      if (handedOver.has(runId)) return;
      if (isStoreFull(error)) withoutRoom.add(runId);
      else withoutRoom.delete(runId);
      // Its lease is not renewed any more: whichever process is well takes it over, this one included. By then none of its
      // calls may be at work here.
      interrupt(runId, 'lease_lost');
      log.error({ err: error, run_id: runId }, 'a run could not be stored');
    } finally {
      events.close();
      active.delete(runId);
      hub.forget(runId);
      hub.notify(runId);
    }
  };

  const inTurn = async (
    scope: RunScope,
    place: Pick<QueuedRun, 'runNumber' | 'isNext'>,
    title: string | null,
    run: () => Promise<void>,
  ) => {
    const { runId, sessionId, signal } = scope;
    await queue.enter({ ...place, sessionId, signal }, run);
    if (title !== null && !signal.aborted)
      parts.titles.begin({ sessionId, runId, title, asker: askerOf(scope) });
  };

  /** What an agent leaves at work nobody could ask for, nor end: its session is not the one that a person looks at. */
  const leavingNothing = async (runId: string, run: () => Promise<void>) => {
    try {
      await run();
    } finally {
      await parts.endCommandsOf(runId);
    }
  };
  const toEnd = ({ trigger }: Pick<Query, 'trigger'>, runId: string, run: () => Promise<void>) =>
    trigger === 'agent' ? leavingNothing(runId, run) : run();

  const start = async (runId: string, query: Query): Promise<StartedRun> => {
    if (closing) throw new Problem('draining', 'The server is stopping; try again in a moment.');
    if (active.size + starting.size >= limits.inProcess)
      throw new Problem('overloaded', 'This server works on as many runs as it can hold; try again soon.');
    const controller = new AbortController();
    // Until the run ends its closures keep this, and must name nothing of the query itself.
    const held = withShortTextsAlone(query);
    const [scope, workspacePlace] = await parts.preparing(async () => [
      await parts.openScope(held, runId, controller),
      await parts.workspacePlace(held.session.workspaceId),
    ]);
    const messages = query.messages.map(newMessage);
    const title = query.session.provisionalTitle ?? null;
    const { sessionId } = scope;
    const queued = [{ name: 'runtime' as const, data: queuedEvent(scope) }].map(numberedFrom(1));
    const beginning = beginningOf(scope).map(numberedFrom(2));
    const { runNumber, begun, notices } = await transcript.beginRun({
      id: runId,
      sessionId,
      userId: query.userId,
      ...(query.apiKeyId !== undefined && { apiKeyId: query.apiKeyId }),
      trigger: query.trigger,
      agentSlug: scope.profile.slug,
      model: scope.model.name,
      permissionMode: scope.permissionMode,
      onUnanswered: query.onUnanswered,
      messages,
      owner,
      queueLimit: limits.queuedInSession,
      workspacePlace,
      provisionalTitle: title,
      request: query.request ?? null,
      ...(query.approval && { approval: query.approval }),
      ...(query.agent && { agent: query.agent }),
      ...(query.occurrence && { occurrence: query.occurrence }),
      ...(query.newSession && { newSession: query.newSession }),
      ...(query.afterRun !== undefined && { afterRun: query.afterRun }),
      events: queued,
      beginning,
    });
    const from: RunStart = { promptMessageId: messages.at(-1)?.id ?? '', begun: begun === true };
    const stored = begun ? [...queued, ...beginning] : queued;
    hub.stored(runId, stored);
    const finished = work(runId, stored.length, (events) =>
      inTurn(scope, { runNumber, isNext: begun === true }, title, () =>
        toEnd(held, runId, () => executeRun(scope, events, from)),
      ),
    );
    active.set(runId, { controller, finished, goesOn: goesOn(held) });
    // The order to stop was given to those at work while this one was being stored.
    if (closing) stop(runId);
    return { runId, sessionId, model: scope.model.name, notices };
  };

  /** Goes on with a run that was taken over, or ends it with the reason why not. */
  const resume = (run: TakenRun): void => {
    const controller = new AbortController();
    const finished = work(run.runId, run.lastEventId, async (events) => {
      const scope = await openTaken(parts, run, events, {
        controller,
        foundNoRoom: withoutRoom.has(run.runId),
      });
      if (!scope) return;
      await inTurn(scope, { runNumber: run.runNumber }, run.provisionalTitle, () =>
        toEnd(run, run.runId, () => executeRun(scope, events, { taken: run })),
      );
    });
    active.set(run.runId, { controller, finished, goesOn: goesOn(queryOf(run)) });
    if (closing) stop(run.runId);
  };

  const handOver = async (runIds: readonly string[]): Promise<void> => {
    const left = await transcript.handOver(owner, runIds).catch((error: unknown) => ({ error }));
    const stay = 'error' in left ? runIds.length : left.length;
    const handed = runIds.length - stay;
    if (handed > 0) log.info({ runs: handed }, 'runs were handed over to whichever process takes them');
    if (stay > 0)
      log.warn(
        { runs: stay, ...('error' in left && { err: left.error }) },
        'runs are taken over only when their leases have run out',
      );
  };

  const ended = () => Promise.all([...active.values()].map(({ finished }) => finished));

  const keeper = startLeaseKeeper({
    ...parts.lease,
    owner,
    transcript,
    log,
    activeRuns: () => [...active.keys()],
    startingRuns: () => [...starting.keys()],
    room: () => (closing ? 0 : limits.inProcess - active.size),
    interrupt,
    resume,
  });

  return {
    async begin(query) {
      const runId = newId('run');
      const begun = start(runId, query);
      starting.set(runId, begun);
      return begun.finally(() => starting.delete(runId));
    },
    heedInterrupt(runId) {
      if (!active.has(runId)) return;
      transcript.readInterrupt(runId).then(
        (reason) => reason && interrupt(runId, reason),
        // The next renewal of the lease reads it again.
        (error: unknown) => log.error({ err: error, run_id: runId }, 'an interrupt could not be read'),
      );
    },
    counts: () => {
      const { inAll, inOneSession } = queue.waiting();
      return { active: active.size, waiting: inAll, waitingInOneSession: inOneSession };
    },
    async close() {
      closing = true;
      for (const runId of active.keys()) stop(runId);
      await Promise.allSettled(starting.values());
      await ended();
      await keeper.stop();
      // One that was just being taken over has begun meanwhile.
      await ended();
      // Not before all that it has begun here has ended: another process may begin at once.
      if (handedOver.size > 0) await handOver([...handedOver]);
    },
  };
}

/** Whether somebody waits for the answer on a connection, which ends with this process. */
function isWaitedFor({ trigger, onUnanswered, request }: Query): boolean {
  if (trigger === 'messages') return true;
  return trigger === 'api' && onUnanswered === 'deny' && !request?.summary;
}

/** As most are: to hold them costs less than to read them again. */
const mostHeld = 16_384;

/** Its files and long texts are read again when its turn has come: of many runs that wait, each would hold up to 50 MB. */
function withShortTextsAlone(query: Query): Query {
  const messages = query.messages.map(({ role, parts }) => ({
    role,
    parts: parts.filter((part) => part.type === 'text'),
  }));
  const length = messages.flatMap(({ parts }) => parts).reduce((sum, { text }) => sum + text.length, 0);
  return length > mostHeld ? { ...query, messages: [], stored: true } : { ...query, messages };
}

function queuedEvent({ runId, sessionId }: RunScope) {
  return { type: 'run_queued' as const, run_id: runId, session_id: sessionId };
}

function numberedFrom(first: number) {
  return (event: RunEvent, index: number): NumberedEvent => ({ ...event, seq: first + index });
}

function newMessage({ role, parts }: Pick<NewMessage, 'role' | 'parts'>): NewMessage {
  return { id: newId('message'), role, parts, model: null, stop_reason: null, usage: null };
}

/** Whose providers a run may use. */
function askerOf({ agents: { userId, workspaceId, key, providerSettingId } }: RunScope): Asker {
  return { userId, workspaceId, bound: key?.bound, providerSettingId };
}
