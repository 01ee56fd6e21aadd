/** What the end of a run says beside the answer. */
import type { QueryResponse } from '@service/client/api';
import { CommandFailure } from '../failures.ts';
import { notice } from '../output.ts';

/** Of a limit that was reached a notice of the run has told before. */
const ends: Partial<Readonly<Record<QueryResponse['stop_reason'], string>>> = {
  max_tokens: 'The answer is cut off: the model may write no more at once. Ask it to go on with --continue.',
  step_limit: '--continue goes on from there.',
  token_limit: '--continue goes on from there.',
  cost_limit: '--continue goes on from there.',
  quota_exceeded: '--continue goes on from there when there is more.',
  refusal: 'The model declined to answer.',
};
/** Where notices are not shown. */
const endsAlone: typeof ends = {
  step_limit: 'The run took as many steps as it may. --continue goes on from there.',
  token_limit: 'The run used as many tokens as it may. --continue goes on from there.',
  cost_limit: 'The run cost as much as it may. --continue goes on from there.',
  quota_exceeded: 'A quota is used up. --continue goes on from there when there is more.',
  loop_detected: 'The run was ended because it turned in circles.',
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

/** Says what is odd about the end. */
export function remarkOn(done: QueryResponse, { alone }: { readonly alone: boolean }): void {
  const { stop_reason: reason, content } = done;
  const remark = (alone ? endsAlone[reason] : undefined) ?? ends[reason];
  if (remark) notice(remark);
  else if (reason === 'end_turn' && !content.some((part) => part.type === 'text' && part.text.trim()))
    notice('The model ended without a word.');
}

/** Throws where somebody else has stopped the run. */
export function failIfInterrupted({ status, interrupt_reason: reason }: QueryResponse): void {
  if (status === 'interrupted') throw new CommandFailure(interruptions[reason ?? 'requested']);
}
