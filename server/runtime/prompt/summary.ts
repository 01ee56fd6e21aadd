/** Sums a conversation up before the model's window is full; from then on the summary stands for what was said before. */
import type { ContextUse, MessagePart, RuntimeEvent } from '../../contract/api.ts';
import { newId } from '../../ids.ts';
import type { EventLog } from '../events/event-log.ts';
import { ModelFailure, type ModelMessage } from '../models/model.ts';
import { askPatiently } from '../models/model-patience.ts';
import { addPart, countOf, type Draft, isSeen, newDraft, unfinishedAnswer } from '../runs/draft.ts';
import type { Progress } from '../runs/progress.ts';
import type { RunScope } from '../runs/run-scope.ts';
import { spend, spendingOf, usageUpdated } from '../runs/spending.ts';
import { keepUnfinished } from '../runs/unfinished.ts';
import { estimateInput, estimatePreamble, isCounted, isNearlyFull, tokensOf } from './context-use.ts';
import { fromSummary, isSummary, unansweredOf } from './conversation.ts';
import { summaryInstructions, summaryRequest } from './summary-request.ts';
import { systemPrompt } from './system-prompt.ts';

type Reason = Extract<RuntimeEvent, { type: 'session_summarized' }>['reason'];

/** What failed is paid for and may fail again: it is not tried before each of the steps that the window has room for. */
const stepsAfterFailure = 5;

/** Sums up where the window is nearly full. Where that fails the run goes on with what it has. */
export async function summarizeWhenFull(scope: RunScope, log: EventLog, progress: Progress): Promise<void> {
  if (!(await isWanted(scope))) return;
  const { contextWindow } = await scope.model.facts();
  if (contextWindow === null || !isNearlyFull(await usedOf(scope, progress), contextWindow)) return;
  const { steps, summaryFailedAt = Number.NEGATIVE_INFINITY } = progress;
  if (steps - summaryFailedAt < stepsAfterFailure) return;
  const parted = await partAtPrompt(scope, progress);
  if (!parted) return;
  try {
    await writeDown(scope, log, progress, parted, 'window_full');
  } catch (error) {
    if (!(error instanceof ModelFailure)) throw error;
    progress.summaryFailedAt = steps;
    scope.log.warn({ err: error, run_id: scope.runId }, 'a session could not be summed up');
    const message = `The conversation nearly fills the model's window, and could not be summed up: ${error.message}`;
    await log.push({ name: 'runtime', data: { type: 'notice_given', message } });
  }
}

/**
 * Sums up where the provider would not take the conversation for its length. Throws the given error where that does not
 * help, and where whoever reads the answer has seen its beginning and cannot take it back.
 */
export async function summarizeAfterRefusal(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  error: unknown,
): Promise<void> {
  const tooLong = error instanceof ModelFailure && error.remedy === 'shorten';
  if (!tooLong || scope.signal.aborted) throw error;
  if (isSeen(progress.draft) && !scope.patience.forgetsBeginnings) throw error;
  const parted = (await isWanted(scope)) ? await partAtPrompt(scope, progress) : null;
  if (!parted) throw error;
  await keepUnfinished(scope, log, progress, scope.model, []);
  await writeDown(scope, log, progress, parted, 'prompt_refused').catch((failure: unknown) => {
    if (!(failure instanceof ModelFailure)) throw failure;
    // What the person has to know is why the conversation was refused; the log of the provider has the rest.
    throw error;
  });
}

/** How often in a row a summary may be needed again at once before nothing more is expected of it. */
const mostInARow = 3;

/** Whether summaries no longer help: each is followed by a step that fills the window again. */
export function isSummarizingInVain({ summarizedAt = [], steps }: Progress): boolean {
  const first = summarizedAt.at(-mostInARow);
  return first !== undefined && steps - first <= mostInARow;
}

/** Sums all of it up, as a person has asked. Throws ModelFailure. */
export async function summarize(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  wishes: string | null,
): Promise<void> {
  const parted = { past: progress.conversation, prompt: null, unanswered: [], before: null };
  await writeDown(scope, log, progress, parted, 'requested', wishes);
}

/** A conversation at the place up to which it is summed up. */
interface Parted {
  readonly past: readonly ModelMessage[];
  /** What the run was asked for, where that is among the past: the model must still know it in the person's own words. */
  readonly prompt: readonly MessagePart[] | null;
  /** What the run was asked for and has not answered yet: it stays as it is. */
  readonly unanswered: readonly ModelMessage[];
  /** The first message of that. */
  readonly before: string | null;
}

/** Null where nothing would be gained. */
async function partAtPrompt(
  { transcript, sessionId, runId }: RunScope,
  { conversation }: Progress,
): Promise<Parted | null> {
  const stored = await transcript.readMessages(sessionId, runId);
  const { first, shown } = unansweredOf(stored, runId);
  const place = conversation.length - shown.length;
  const past = conversation.slice(0, place);
  if (past.every(isSummary)) return null;
  // What was counted with a call among them is of the conversation as it was.
  const unanswered = conversation.slice(place).map(({ tokens: _ofBefore, ...message }) => message);
  const prompt = stored.findLast(({ role, run_id }) => role === 'user' && run_id === runId)?.parts ?? null;
  return { past, unanswered, before: first, prompt: first === null ? prompt : null };
}

/** Has the model write the summary, stores it, and goes on from it. Throws ModelFailure. */
async function writeDown(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  { past, prompt, unanswered, before }: Parted,
  reason: Reason,
  wishes: string | null = null,
): Promise<void> {
  const draft = await writeWhole(scope, log, progress, { past, wishes, halved: reason === 'prompt_refused' });
  if (scope.signal.aborted) return await payFor(scope, progress, draft);
  const text = textOf(draft);
  const facts = await scope.model.facts();
  const spending = spendingOf(facts, countOf(draft));
  const parts: MessagePart[] = [{ type: 'text', text }];
  const id = newId('message');
  const conversation = [...fromSummary(text, prompt), ...unanswered];
  const context = { used: tokensOf(conversation), window: facts.contextWindow };
  const message = {
    ...{ id, role: 'assistant' as const, parts, model: scope.model.name, stop_reason: 'end_turn' as const },
    ...spending,
    summary: true,
  };
  const told = [summarized(id, reason, context), usageUpdated(progress, spending, context)];
  await log.commit(
    told.map((data) => ({ name: 'runtime' as const, data })),
    (events) =>
      scope.transcript.commitStep({
        runId: scope.runId,
        sessionId: scope.sessionId,
        messages: [message],
        ...(before !== null && { before }),
        ...spending,
        context,
        steps: 0,
        events,
      }),
  );
  progress.conversation = conversation;
  progress.messageId = id;
  progress.summarizedAt = [...(progress.summarizedAt ?? []), progress.steps];
  spend(progress, spending);
  if (reason === 'requested') progress.answer = parts;
}

function summarized(messageId: string, reason: Reason, context: ContextUse) {
  return { type: 'session_summarized' as const, message_id: messageId, reason, context };
}

async function isWanted(scope: RunScope): Promise<boolean> {
  const { options } = await scope.settings();
  return !options?.disable_auto_summarize;
}

async function usedOf(scope: RunScope, { conversation }: Progress): Promise<number> {
  const used = tokensOf(conversation);
  if (isCounted(conversation)) return used;
  const tools = await scope.tools();
  return used + estimatePreamble(await systemPrompt(scope, tools), tools);
}

/** What is summed up: see `summaryRequest`. */
interface Summed {
  readonly past: readonly ModelMessage[];
  readonly wishes: string | null;
  readonly halved: boolean;
}

/** Where nobody knows the window, it is only known by a refusal that the whole is too long. */
async function writeWhole(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  summed: Summed,
): Promise<Draft> {
  try {
    return await writeSummary(scope, log, progress, summed);
  } catch (error) {
    const isTooLong = error instanceof ModelFailure && error.remedy === 'shorten';
    if (!isTooLong || summed.halved || (await scope.model.facts()).contextWindow !== null) throw error;
    return writeSummary(scope, log, progress, { ...summed, halved: true });
  }
}

/** What it writes is for the model, and not streamed: people read it as a message. It is incomplete where the run was stopped. */
async function writeSummary(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  { past, wishes, halved }: Summed,
): Promise<Draft> {
  const { signal } = scope;
  const attempt = async () => {
    const { contextWindow } = await scope.model.facts();
    // How long the answer may be, and where it is to stop, says nothing of what everything before it becomes.
    const { maxTokens: _ofAnswer, stopSequences: _inAnswer, ...generation } = scope.generation;
    const request = {
      ...generation,
      system: summaryInstructions(wishes),
      messages: summaryRequest(past, contextWindow ?? { halved }),
      tools: [],
    };
    const draft = newDraft(scope.model.name);
    draft.reads = estimateInput(request);
    try {
      for await (const part of scope.model.stream(request, signal)) addPart(draft, part);
      if (!signal.aborted) requireWhole(draft);
      return draft;
    } catch (error) {
      await payFor(scope, progress, draft);
      throw error;
    }
  };
  const told = (data: RuntimeEvent) => log.push({ name: 'runtime', data });
  const { models: choice, patience } = scope;
  return askPatiently({ choice, patience, signal, attempt, hasBegun: () => false, told });
}

/** The provider wants to be paid for what came to nothing, too. */
async function payFor(scope: RunScope, progress: Progress, draft: Draft): Promise<void> {
  const { usage, cost } = await unfinishedAnswer(draft, scope.model, 'interrupted');
  if (usage.input_tokens + usage.output_tokens === 0) return;
  await scope.transcript.addUsage(scope, { model: draft.model, usage, cost }, 'run');
  spend(progress, { usage, cost });
}

function textOf({ parts }: Draft): string {
  return parts
    .flatMap((part) => (part.type === 'text' ? [part.text] : []))
    .join('')
    .trim();
}

/** The half of a summary would stand for the whole conversation, for good. */
function requireWhole(draft: Draft): void {
  const isCut = draft.finish?.stopReason === 'max_tokens';
  if (textOf(draft) !== '' && !isCut) return;
  throw new ModelFailure(
    'provider_failed',
    'replace',
    `The model wrote ${isCut ? 'a summary without an end' : 'no summary'}; try again, or choose another model.`,
  );
}
