/** Puts the questions of the agent to the person at the terminal. */
import type { PromptAnswer, PromptReply, PromptRequest, Question } from '@service/client/api';
import { knownIn } from '../known-values.ts';
import { brief, paint, printable, shown } from '../output.ts';
import type { Keyboard } from '../terminal-input.ts';
import type { Answered } from './answers.ts';

/** Characters, as the contract counts them. */
const longestAnswer = 10_000;

/**
 * Asks one question after the other; ending the input (Ctrl+D) declines them all.
 * @param asker - Which agent of the agent asks; null where it is that one itself.
 */
export async function askPrompt(
  { questions }: PromptRequest,
  asker: string | null,
  keyboard: Keyboard,
  signal: AbortSignal,
): Promise<Answered<PromptReply>> {
  const answers: PromptAnswer[] = [];
  if (asker !== null) say(paint('dim', `${brief(asker, 60)} asks:`, process.stderr));
  for (const question of questions) {
    const answer = await askOne(question, keyboard, signal);
    if (answer === null)
      return { reply: { cancelled: true }, said: paint('dim', '  → declined', process.stderr) };
    answers.push({ question_id: question.id, ...answer });
  }
  return { reply: { answers }, said: null };
}

type Answer = Omit<PromptAnswer, 'question_id'>;

async function askOne(question: Question, keyboard: Keyboard, signal: AbortSignal): Promise<Answer | null> {
  let ask = () => say(textOf(question));
  const hint = knownIn(hints, question.type) ?? inOwnWords;
  const more = question.optional ? '(Enter: leave it open) ' : '';
  for (;;) {
    const line = await keyboard.readLine(`  ${more}${hint} `, signal, { ask });
    if (line === null) return null;
    if (question.optional && line.trim() === '') return {};
    const answer = readAnswer(question, line.trim());
    const length = Array.from(answer?.fill_in_text ?? '').length;
    if (answer && length <= longestAnswer) return answer;
    const why = answer
      ? `An answer has at most ${longestAnswer} characters, and this one ${length}.`
      : 'That is no answer here.';
    ask = () => say(paint('dim', `  ${why} Ctrl+D declines to answer.`, process.stderr));
  }
}

function textOf({ text, description, choices }: Question): string {
  const lines = (choices ?? []).map(({ label, description: about }, index) => {
    const more = about ? paint('dim', `  ${printable(about)}`, process.stderr) : '';
    return `  ${index + 1}  ${printable(label)}${more}`;
  });
  const asked = paint('yellow', `? ${shown(text)}`, process.stderr);
  return [asked, ...(description ? [`  ${shown(description)}`] : []), ...lines].join('\n');
}

const hints: Readonly<Record<Question['type'], string>> = {
  yes_no: '[y/n]',
  single_choice: 'A number, or your own words:',
  multi_choice: 'Numbers with commas between, or your own words:',
  free_text: '>',
};

/** For the question of a newer server, of a type that has no other answer here. */
const inOwnWords = 'In your own words:';

/** What a line says; null where it is no answer to this question. */
function readAnswer({ type, choices = [] }: Question, line: string): Answer | null {
  if (line === '') return null;
  if (type === 'free_text' || knownIn(hints, type) === null) return { fill_in_text: line };
  if (type === 'yes_no') {
    if (!/^(y|yes|n|no)$/i.test(line)) return null;
    return { yes: /^y/i.test(line) };
  }
  if (!/^[\d\s,]+$/.test(line)) return { fill_in_text: line };
  const numbers = [
    ...new Set(
      line
        .split(/[\s,]+/)
        .filter(Boolean)
        .map(Number),
    ),
  ];
  const chosen = numbers.flatMap((number) => choices[number - 1]?.id ?? []);
  const fits = chosen.length === numbers.length && (type === 'multi_choice' || chosen.length === 1);
  return fits && chosen.length > 0 ? { selected_ids: chosen } : null;
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}
