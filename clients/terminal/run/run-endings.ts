/** What the end of a run says beside the answer. */
import type { QueryResponse } from '@service/client/api';
import { CommandFailure } from '../failures.ts';
import { knownIn } from '../known-values.ts';
import { notice } from '../output.ts';

interface Ending {
  readonly said?: string;
  /** Where notices are not shown: of a limit that was reached one of the run has told before. */
  readonly alone?: string;
  /** What stands before the command that goes on in the session, where that helps. */
  readonly goOn?: string;
}

const fromThere = 'To go on from there:';
const endings: Partial<Readonly<Record<QueryResponse['stop_reason'], Ending>>> = {
  max_tokens: {
    said: 'The answer is cut off: the model may write no more at once.',
    goOn: 'To have it go on:',
  },
  step_limit: { alone: 'The run took as many steps as it may.', goOn: fromThere },
  token_limit: { alone: 'The run used as many tokens as it may.', goOn: fromThere },
  cost_limit: { alone: 'The run cost as much as it may.', goOn: fromThere },
  quota_exceeded: { alone: 'A quota is used up.', goOn: 'To go on when there is more:' },
  loop_detected: { alone: 'The run was ended because it turned in circles.' },
  refusal: { said: 'The model declined to answer.' },
};

const interruptions: Readonly<Record<NonNullable<QueryResponse['interrupt_reason']>, string>> = {
  requested: 'The run was interrupted from elsewhere.',
  timed_out: 'The run took longer than its job allows.',
  replaced: 'The next run of its job took its place.',
  shutdown: 'The server was stopped, and the run with it.',
  lease_lost: 'The server died, and the run with it.',
  workspace_unavailable: 'The server died, and the one that took over does not reach the files of the run.',
  resumed_too_often: 'The server died at this run again and again; it is not tried any more.',
  client_disconnected: 'The connection was lost, and the run with it.',
  hook: 'A hook stopped the run.',
};

/**
 * Says what is odd about the end.
 * @param goOn - The command that goes on in the session of the run.
 */
export function remarkOn(
  done: QueryResponse,
  { alone, goOn }: { readonly alone: boolean; readonly goOn: string },
): void {
  const { stop_reason: reason, content } = done;
  const { said, alone: saidAlone, goOn: how } = knownIn<Ending>(endings, reason) ?? {};
  const words = [said ?? (alone ? saidAlone : undefined), how && `${how} ${goOn}`].filter(Boolean);
  if (words.length > 0) notice(words.join(' '));
  else if (reason === 'end_turn' && !content.some((part) => part.type === 'text' && part.text.trim()))
    notice('The model ended without a word.');
}

/** Throws where somebody else has stopped the run. */
export function failIfInterrupted({ status, interrupt_reason: reason }: QueryResponse): void {
  if (status !== 'interrupted') return;
  const known = knownIn(interruptions, reason ?? 'requested');
  throw new CommandFailure(known ?? `The run was interrupted (${reason}).`);
}
