/** How much the next call of a session reads, by what providers have counted with its answers. */
import type { Usage } from '../contract/api.ts';
import type { MessageRow } from './messages.ts';

/** As their provider has counted it with the newest of the answers, which come first. */
export function countedIn(answers: readonly Pick<MessageRow, 'usage' | 'summary' | 'stop_reason'>[]): number {
  for (const { usage, summary, stop_reason } of answers) {
    // What was used by an answer that broke off is estimated.
    if (stop_reason === 'interrupted' || stop_reason === 'error') continue;
    const counted: Usage | null = JSON.parse(usage ?? 'null');
    const { input_tokens, output_tokens } = counted ?? { input_tokens: 0, output_tokens: 0 };
    // Of a summary only what was written is read from now on.
    const tokens = summary ? output_tokens : input_tokens + output_tokens;
    // An import may say anything up to that of each.
    if (tokens > 0) return Math.min(tokens, Number.MAX_SAFE_INTEGER);
  }
  return 0;
}
