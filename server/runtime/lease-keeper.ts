/** Keeps the leases of this process's runs, hears of interrupts from other nodes, and ends the runs of processes that died. */
import type { Clock } from '../clock.ts';
import type { InterruptReason, MessagePart } from '../contract/api.ts';
import type { Log } from '../log.ts';
import { addCosts } from './cost.ts';
import { noUsage } from './model.ts';
import type { AbandonedRun, Lease, NewMessage, NumberedEvent, RunEvent, Transcript } from './transcript.ts';

/** How long a lease is good without renewal, and how often it is renewed. */
export interface LeaseTimes {
  readonly leaseMs: number;
  readonly renewMs: number;
}

export interface LeaseKeeperOptions extends LeaseTimes {
  /** Names this process among all that share the database. */
  readonly owner: string;
  readonly transcript: Transcript;
  readonly clock: Clock;
  readonly log: Log;
  /** The runs at work here. */
  readonly activeRuns: () => readonly string[];
  readonly interrupt: (runId: string, reason: InterruptReason) => void;
  /** Told when an abandoned run was ended here. */
  readonly ended: (runId: string) => void;
}

export interface LeaseKeeper {
  /** A lease from now. */
  lease(): Lease;
  stop(): Promise<void>;
}

export function startLeaseKeeper(options: LeaseKeeperOptions): LeaseKeeper {
  const failed = (error: unknown) => options.log.error({ err: error }, 'leases could not be renewed');
  // A process may leave many runs behind: while they are ended one after the other, the leases of those at work here are
  // renewed all the same.
  const ending = oneAtATime(() => endAbandonedRuns(options).catch(failed));
  const renewing = oneAtATime(() => renew(options).then(ending.start).catch(failed));
  const timer = setInterval(renewing.start, options.renewMs);
  timer.unref();
  renewing.start();
  return {
    lease: () => leaseOf(options),
    async stop() {
      clearInterval(timer);
      await renewing.settled();
      await ending.settled();
    },
  };
}

/** A store that is slow is not asked again before it has answered. */
function oneAtATime(work: () => Promise<void>) {
  let turn: Promise<void> | null = null;
  return {
    start: () => {
      turn ??= work().finally(() => {
        turn = null;
      });
    },
    settled: async () => turn,
  };
}

function leaseOf({ owner, clock, leaseMs }: LeaseKeeperOptions): Lease {
  return { owner, expiresAt: new Date(clock.now().getTime() + leaseMs) };
}

async function renew(options: LeaseKeeperOptions): Promise<void> {
  const active = options.activeRuns();
  const kept = active.length > 0 ? await options.transcript.renewLeases(leaseOf(options), active) : [];
  const held = new Set(kept.map(({ runId }) => runId));
  for (const { runId, interrupt } of kept) if (interrupt) options.interrupt(runId, interrupt);
  // A lease that is gone belongs to another process by now: this one must stop touching the run.
  for (const runId of active) if (!held.has(runId)) options.interrupt(runId, 'lease_lost');
}

/** To be called just after the leases were renewed, so that none of those taken is at work here. */
async function endAbandonedRuns(options: LeaseKeeperOptions): Promise<void> {
  const abandoned = await options.transcript.takeAbandonedRuns(options.clock.now(), leaseOf(options));
  for (const run of abandoned) {
    await endAbandoned(options, run).catch((error: unknown) => {
      // One run that cannot be ended must not keep the others from it; its lease runs out again.
      options.log.error({ err: error, run_id: run.runId }, 'a run whose process had died could not be ended');
    });
  }
}

/** Nobody works on the run any more: it ends as interrupted, with all that was streamed of it stored. */
async function endAbandoned(
  { transcript, log, ended }: LeaseKeeperOptions,
  run: AbandonedRun,
): Promise<void> {
  const events = await allEvents(transcript, run.runId);
  const unfinished = unfinishedMessage(events, run.model);
  const stored = await transcript.readMessages(run.sessionId);
  const ofRun = stored.filter((message) => message.run_id === run.runId);
  const parts = unfinished?.parts ?? ofRun.findLast(({ role }) => role === 'assistant')?.parts ?? [];
  const done: RunEvent = {
    name: 'done',
    data: {
      id: unfinished?.id ?? ofRun.at(-1)?.id ?? '',
      run_id: run.runId,
      session_id: run.sessionId,
      model: run.model,
      status: 'interrupted',
      content: parts.filter((part) => part.type === 'text' || part.type === 'reasoning'),
      usage: usageOf(events),
      cost: costOf(events),
      stop_reason: 'interrupted',
      interrupt_reason: 'lease_lost',
      tool_uses: partsOf(ofRun, 'tool_use'),
      tool_results: partsOf(ofRun, 'tool_result'),
      rag_results: [],
    },
  };
  await transcript.endRun({
    runId: run.runId,
    sessionId: run.sessionId,
    status: 'interrupted',
    stopReason: 'interrupted',
    interruptReason: 'lease_lost',
    error: null,
    messages: unfinished ? [unfinished] : [],
    usage: noUsage,
    events: [{ ...done, seq: (events.at(-1)?.seq ?? run.lastEventId) + 1 }],
  });
  log.warn({ run_id: run.runId }, 'a run whose process had died was ended');
  ended(run.runId);
}

function partsOf<Type extends MessagePart['type']>(
  messages: readonly { readonly parts: readonly MessagePart[] }[],
  type: Type,
): Extract<MessagePart, { type: Type }>[] {
  const parts = messages.flatMap((message) => message.parts);
  return parts.filter((part): part is Extract<MessagePart, { type: Type }> => part.type === type);
}

async function allEvents(transcript: Transcript, runId: string): Promise<NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for (;;) {
    const page = await transcript.readEvents(runId, events.at(-1)?.seq ?? 0, 1000);
    events.push(...page);
    if (page.length < 1000) return events;
  }
}

/** The text that was streamed after the last stored step. */
function unfinishedMessage(events: readonly NumberedEvent[], model: string): NewMessage | null {
  const lastStep = events.findLastIndex(
    ({ name, data }) => name === 'runtime' && data.type === 'step_finished',
  );
  const deltas = events
    .slice(lastStep + 1)
    .flatMap((event) =>
      event.name === 'message' && event.data.type !== 'tool_input_delta' ? [event.data] : [],
    );
  const [first] = deltas;
  if (!first) return null;
  const parts: MessagePart[] = [];
  for (const { type, text } of deltas) {
    const kind = type === 'text_delta' ? 'text' : 'reasoning';
    const last = parts.at(-1);
    if (last?.type === kind) last.text += text;
    else parts.push({ type: kind, text });
  }
  return {
    id: first.message_id,
    role: 'assistant',
    parts,
    model,
    stop_reason: 'interrupted',
    usage: noUsage,
  };
}

function costOf(events: readonly NumberedEvent[]) {
  return addCosts(
    ...events.flatMap((event) =>
      event.name === 'runtime' && event.data.type === 'step_finished' ? [event.data.cost] : [],
    ),
  );
}

function usageOf(events: readonly NumberedEvent[]) {
  const steps = events.flatMap((event) =>
    event.name === 'runtime' && event.data.type === 'step_finished' ? [event.data.usage] : [],
  );
  return steps.reduce(
    (sum, usage) => ({
      input_tokens: sum.input_tokens + usage.input_tokens,
      output_tokens: sum.output_tokens + usage.output_tokens,
      cached_input_tokens: sum.cached_input_tokens + usage.cached_input_tokens,
    }),
    noUsage,
  );
}
