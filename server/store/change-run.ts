/** What one transaction may change of a run, and how its session follows. */
import type { Knex } from 'knex';
import type {
  ContextUse,
  InterruptReason,
  Message,
  RunError,
  RunStatus,
  SessionStatus,
  StopReason,
  Usage,
} from '../contract/api.ts';
import { addCost } from './costs.ts';
import { insertMessages, makeRoomBefore, type NewMessage } from './messages.ts';
import { meter, type Spender } from './meter.ts';
import { insertEvents, type NumberedEvent } from './run-events.ts';
import { beginPlan } from './run-plans.ts';
import type { RunRow } from './runs.ts';
import { addUsage, type SessionRow, saveSession, toUsage } from './session-rows.ts';
import { type Told, tellWorkspace } from './workspace-events.ts';

export interface RunOfSession {
  readonly runId: string;
  readonly sessionId: string;
}

export interface RunEnd extends RunOfSession {
  readonly status: 'completed' | 'failed' | 'interrupted';
  readonly stopReason: StopReason;
  readonly interruptReason: InterruptReason | null;
  readonly error: RunError | null;
  readonly messages: readonly NewMessage[];
  /** Of the unfinished step: added, as that of any step. */
  readonly usage: Usage;
  readonly cost?: Message['cost'];
  /** Who has used it, where no message tells. */
  readonly model?: string;
  /** Messages that no model is to be shown again. */
  readonly excluded?: readonly string[];
  /** Whether the same goes for the history that the caller brought with the run. */
  readonly excludesBrought?: boolean;
  readonly events: readonly NumberedEvent[];
}

/** What may happen to a run in one transaction. */
export interface RunChange {
  readonly events: readonly NumberedEvent[];
  readonly status?: RunStatus;
  readonly messages?: readonly NewMessage[];
  /** The message that they stand before; behind all that the run has if absent. */
  readonly before?: string;
  readonly usage?: Usage;
  readonly cost?: Message['cost'];
  /** Who has used it, where no message tells: another may have stood in for the one that was asked for. */
  readonly model?: string;
  readonly context?: ContextUse;
  readonly steps?: number;
  /** Whether all that was begun is now stored, up to the last of the events. */
  readonly committed?: boolean;
  readonly resumptions?: number;
  readonly end?: RunEnd;
}

export const noUsage: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

/**
 * Whoever cleared the queue was told that it does not begin, also where its process has not heard of that yet. Throws an
 * error named `RunStopped` with the reason.
 */
export function refuseStopped({ id, status, interrupt_requested: reason }: RunRow): void {
  if (status !== 'queued' || reason === null) return;
  throw Object.assign(new Error(`The run ${id} was stopped before it began.`), {
    name: 'RunStopped',
    reason,
  });
}

export async function applyChange(
  sql: Knex.Transaction,
  session: SessionRow,
  run: RunRow,
  change: RunChange,
  now: number,
): Promise<void> {
  const { events, status = run.status, messages = [], usage = noUsage, cost = 0, steps = 0, end } = change;
  const written = messages.map((message) => ({ ...message, run_id: run.id }));
  const { before } = change;
  const room = before === undefined ? null : await makeRoomBefore(sql, session.id, before, written.length);
  const { run_number, after } = room ?? { run_number: run.run_number, after: undefined };
  await insertMessages(sql, { ...run, run_number }, written, now, after);
  const last_event_id = await insertEvents(sql, run, events, now);
  if (end)
    tellWorkspace(sql, { sessionId: session.id, workspaceId: session.workspace_id }, [toldEnd(end)], now);
  await sql<RunRow>('runs')
    .where({ id: run.id })
    .update({
      ...addUsage(run, usage),
      ...addCost(run, cost),
      ...(end && endColumns(end, now)),
      status,
      steps: run.steps + steps,
      resumptions: change.resumptions ?? run.resumptions,
      committed_event_id: change.committed ? last_event_id : run.committed_event_id,
      started_at: run.started_at ?? (status === 'running' ? now : null),
      last_event_id,
    });
  if (run.started_at === null && status === 'running') await beginPlan(sql, run.id, now);
  const present = await sessionStatus(sql, session, run, { status, end });
  await followRun(sql, session, { ...change, present }, now);
  await meterChange(sql, run, { messages, usage, cost, model: change.model ?? null }, now);
}

async function meterChange(
  sql: Knex.Transaction,
  run: RunRow,
  {
    messages,
    usage,
    cost,
    model: asked,
  }: Required<Pick<RunChange, 'messages' | 'usage'>> &
    Pick<RunEnd, 'cost'> & { readonly model: string | null },
  now: number,
): Promise<void> {
  if (usage.input_tokens + usage.output_tokens === 0 && cost === 0) return;
  // Another model may have stood in for the one that was asked for.
  const model = asked ?? messages.findLast((message) => message.model !== null)?.model ?? run.model;
  await meter(sql, spenderOf(run), { requests: 0, model, usage, cost: cost ?? null }, now);
}

/** For whom a run uses what it uses. */
export function spenderOf(
  run: Pick<RunRow, 'organization_id' | 'workspace_id' | 'user_id' | 'api_key_id'>,
): Spender {
  return {
    organizationId: run.organization_id,
    workspaceId: run.workspace_id,
    userId: run.user_id,
    apiKeyId: run.api_key_id,
  };
}

function toldEnd({ runId, sessionId, status, stopReason, interruptReason, error }: RunEnd): Told {
  const event = {
    type: 'run_ended',
    run_id: runId,
    session_id: sessionId,
    ...{ status, stop_reason: stopReason, interrupt_reason: interruptReason, error },
  } as const;
  return { type: event.type, runId, event };
}

function endColumns({ stopReason, interruptReason, error }: RunEnd, now: number) {
  return {
    stop_reason: stopReason,
    interrupt_reason: interruptReason,
    error: error && JSON.stringify(error),
    ended_at: now,
  };
}

/** The session shows what its runs do and have used; it is only touched where that changes something a caller sees. */
async function followRun(
  sql: Knex.Transaction,
  session: SessionRow,
  change: RunChange & { readonly present: SessionStatus },
  now: number,
): Promise<void> {
  const { messages = [], usage = noUsage, cost = 0, context } = change;
  const { status, message_count, context_used, context_window, summary_message_id } = session;
  const changes = {
    status: change.present,
    message_count: message_count + messages.length,
    ...addUsage(session, usage),
    ...addCost(session, cost),
    context_used: context ? context.used : context_used,
    context_window: context ? context.window : context_window,
    summary_message_id: messages.findLast(({ summary }) => summary)?.id ?? summary_message_id,
  };
  const shown = { status, message_count, ...toUsage(session), ...addCost(session, 0) };
  const before = { ...shown, context_used, context_window, summary_message_id };
  if (JSON.stringify(changes) === JSON.stringify(before)) return;
  await saveSession(sql, session, changes, now);
}

/** The other runs of the session are looked at only where this one has waited, or ends: else they change nothing. */
async function sessionStatus(
  sql: Knex.Transaction,
  session: SessionRow,
  before: RunRow,
  { status, end }: Pick<RunRow, 'status'> & { readonly end: RunEnd | undefined },
): Promise<SessionStatus> {
  if (!end && status.startsWith('waiting')) return 'waiting';
  if (!end && !before.status.startsWith('waiting')) return session.status;
  return statusWith(await openRuns(sql, session.id));
}

/** Of the runs in a session that have not ended. */
export async function openRuns(sql: Knex.Transaction, sessionId: string): Promise<readonly RunStatus[]> {
  return await sql<RunRow>('runs').where({ session_id: sessionId, ended_at: null }).pluck('status');
}

/** Of a session with these open runs. */
export function statusWith(active: readonly RunStatus[]): SessionStatus {
  if (active.some((status) => status.startsWith('waiting'))) return 'waiting';
  return active.length > 0 ? 'running' : 'idle';
}

/**
 * The last event is always a new one, since a run ends only once. A process that never had the answer to its write before
 * counts from before it; taken for that write's repetition, the end would be told to nobody.
 */
export function behind({ last_event_id }: RunRow, events: readonly NumberedEvent[]): NumberedEvent[] {
  return events.map((event, index) => ({ ...event, seq: Math.max(event.seq, last_event_id + 1 + index) }));
}
