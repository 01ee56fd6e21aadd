/** Which beginnings of answers count no longer: their process died, and their run has then answered from the start. */
import type { Message } from './contract/api.ts';

type Spoken = Pick<Message, 'role' | 'run_id' | 'stop_reason'>;

/**
 * Of messages in their order those that nobody is to be shown as said; `atWork` is a run that is about to answer. A
 * beginning that a person stopped is the last word of its run, and stays.
 */
export function givenAnew<Given extends Spoken>(
  messages: readonly Given[],
  atWork?: string,
): ReadonlySet<Given> {
  const found = new Set<Given>();
  const answering = new Set<string | undefined>([atWork]);
  // From the end, so that each message is looked at once.
  for (const message of messages.toReversed()) {
    const { role, run_id, stop_reason } = message;
    if (role !== 'assistant' || run_id === null) continue;
    if (stop_reason === 'interrupted' && answering.has(run_id)) found.add(message);
    answering.add(run_id);
  }
  return found;
}
