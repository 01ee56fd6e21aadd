/** Which messages of a session belong together: a prompt and what answered it, an answer and the results of its calls. */
import type { MessageRow } from './messages.ts';

type Placed = Pick<MessageRow, 'id' | 'role' | 'summary'>;

/**
 * The message with what means nothing without it. Runs are no bounds: what a client's own tools gave comes with the run
 * after that of their calls.
 */
export function boundTo<Row extends Placed>(row: Row, history: readonly Row[]): readonly Row[] {
  if (row.summary) return [row];
  return row.role === 'user' ? withAnswers(row, history) : wholeStep(row, history);
}

/** Up to the next prompt. A summary at the end answers nothing, and stands for all that was said before. */
function withAnswers<Row extends Placed>(prompt: Row, history: readonly Row[]): readonly Row[] {
  const after = history.slice(history.indexOf(prompt) + 1);
  const next = after.findIndex(({ role }) => role === 'user');
  const answers = next === -1 ? after : after.slice(0, next);
  return [prompt, ...answers.slice(0, answers.findLastIndex(({ summary }) => !summary) + 1)];
}

/** An answer with all results of its calls, whichever of them is named. */
function wholeStep<Row extends Placed>(row: Row, history: readonly Row[]): readonly Row[] {
  // A client may ask for a summary while it carries out a call.
  const said = history.filter(({ summary }) => !summary);
  const place = said.indexOf(row);
  const answer =
    row.role === 'tool' ? said.findLastIndex(({ role }, at) => at < place && role !== 'tool') : place;
  const begin = said[answer]?.role === 'assistant' ? answer : answer + 1;
  return said.slice(begin, endOfResults(said, place + 1));
}

/** Where the results end that begin at the place, if any do. */
export function endOfResults(history: readonly Pick<Placed, 'role'>[], begin: number): number {
  let end = begin;
  while (history[end]?.role === 'tool') end += 1;
  return end;
}
