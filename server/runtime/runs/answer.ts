/** Gets one answer out of the models of a run: however often it must be asked, and whichever of them gives it. */

import type { EventLog } from '../events/event-log.ts';
import type { AnswerTerms } from '../models/model.ts';
import { askPatiently, type PatientCall } from '../models/model-patience.ts';
import { estimateInput, isCounted, tokensOf, withoutHugeResults } from '../prompt/context-use.ts';
import { withPassages } from '../prompt/passages.ts';
import { withFiles } from '../prompt/shown-files.ts';
import { systemPrompt } from '../prompt/system-prompt.ts';
import type { Tool } from '../tools/tool.ts';
import { type Draft, isSeen, newDraft, writeDraft } from './draft.ts';
import type { Progress } from './progress.ts';
import type { RunScope } from './run-scope.ts';
import { keepUnfinished } from './unfinished.ts';

/** What is being written stands in `progress.draft`. */
export function writeAnswer(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  tools: readonly Tool[],
): Promise<Draft> {
  let asked = scope.model;
  const attempt = async () => {
    asked = scope.model;
    const draft = newDraft(asked.name);
    progress.draft = draft;
    // Read while the provider thinks: the list of models is large, and its answer has a price.
    scope.model.facts().catch(() => undefined);
    const conversation = await withFiles(scope, await shownTo(scope, progress));
    await writeDraft(scope, log, conversation, tools, draft, termsOf(scope, progress));
    return draft;
  };
  // Another may have taken its place by now, whose price says nothing of what this one has written.
  const told = (event: Told) =>
    keepUnfinished(scope, log, progress, asked, [{ name: 'runtime', data: event }]);
  const { models: choice, patience, signal } = scope;
  const hasBegun = () => isSeen(progress.draft);
  return askPatiently({ choice, patience, signal, attempt, hasBegun, told });
}

/** A call that was wanted has been made with the first answer; to want it again would never end. */
function termsOf({ terms: { toolChoice, ...always } }: RunScope, { steps }: Progress): AnswerTerms {
  return { ...always, ...(steps === 0 && toolChoice && { toolChoice }) };
}

type Told = Parameters<PatientCall<unknown>['told']>[0];

/** About how many tokens the model is given to read at the next call, or was at one that a process which is gone has made. */
export async function estimateReading(scope: RunScope, progress: Progress): Promise<number> {
  const messages = await shownTo(scope, progress);
  if (isCounted(messages)) return tokensOf(messages);
  const own = await scope.tools();
  const tools = own.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
  const system = await systemPrompt(scope, own);
  return estimateInput({ system, messages, tools: [...tools, ...scope.callerTools] });
}

/** The list of models is only needed where there is something to cut. */
async function shownTo({ model, corpus, runId }: RunScope, progress: Progress) {
  const conversation = withPassages(progress.conversation, corpus, runId);
  const hasResults = conversation.some(({ role }) => role === 'tool');
  return hasResults ? withoutHugeResults(conversation, (await model.facts()).contextWindow) : conversation;
}
