/** Whether answers match their questions: each answered once, in the way its type asks for. */
import type { FieldError, PromptAnswer, Question } from '../contract/api.ts';
import { Problem } from '../problem.ts';

/** Throws `invalid_request` that names each place. */
export function requireAnswers(questions: readonly Question[], answers: readonly PromptAnswer[]): void {
  const errors = [...mismatches(questions, answers), ...unanswered(questions, answers)];
  if (errors.length === 0) return;
  throw new Problem(
    'invalid_request',
    'The answers do not match the questions; see `errors`, and answer again.',
    {
      errors,
    },
  );
}

function mismatches(questions: readonly Question[], answers: readonly PromptAnswer[]): FieldError[] {
  return answers.flatMap((answer, index) => {
    const at = `/answers/${index}`;
    const question = questions.find(({ id }) => id === answer.question_id);
    if (!question)
      return [fieldError(`${at}/question_id`, `One of ${list(questions.map(({ id }) => id))}.`, 'enum')];
    if (answers.findIndex(({ question_id }) => question_id === question.id) !== index)
      return [fieldError(`${at}/question_id`, 'Each question is answered once.', 'uniqueItems')];
    const isLeftOpen = question.optional && Object.keys(answer).length === 1;
    return isLeftOpen ? [] : [...strayMembers(question, answer, at), ...mistakes(question, answer, at)];
  });
}

function unanswered(questions: readonly Question[], answers: readonly PromptAnswer[]): FieldError[] {
  return questions
    .filter(({ id }) => !answers.some(({ question_id }) => question_id === id))
    .map(({ id }) => fieldError('/answers', `An answer to the question ${id} too.`, 'required'));
}

/** Which members count for which type of question. */
const members: Readonly<Record<Question['type'], readonly string[]>> = {
  yes_no: ['yes'],
  single_choice: ['selected_ids', 'fill_in_text', 'notes'],
  multi_choice: ['selected_ids', 'fill_in_text', 'notes'],
  free_text: ['fill_in_text'],
};

function strayMembers({ type }: Question, answer: PromptAnswer, at: string): FieldError[] {
  return Object.keys(answer)
    .filter((name) => name !== 'question_id' && !members[type].includes(name))
    .map((name) =>
      fieldError(`${at}/${name}`, `Not for a question of type ${type}.`, 'additionalProperties'),
    );
}

function mistakes(question: Question, answer: PromptAnswer, at: string): FieldError[] {
  if (question.type === 'yes_no')
    return answer.yes === undefined ? [fieldError(`${at}/yes`, 'true or false.', 'required')] : [];
  if (question.type === 'free_text')
    return answer.fill_in_text
      ? []
      : [fieldError(`${at}/fill_in_text`, 'A text that is not empty.', 'required')];
  return choiceMistakes(question, answer, at);
}

function choiceMistakes(
  { type, choices = [] }: Question,
  { selected_ids = [], fill_in_text, notes = {} }: PromptAnswer,
  at: string,
): FieldError[] {
  const known = choices.map(({ id }) => id);
  const errors = selected_ids.flatMap((id, index) =>
    known.includes(id) ? [] : [fieldError(`${at}/selected_ids/${index}`, `One of ${list(known)}.`, 'enum')],
  );
  for (const id of Object.keys(notes).filter((key) => !known.includes(key)))
    errors.push(fieldError(`${at}/notes/${escaped(id)}`, `A note is on one of ${list(known)}.`, 'enum'));
  if (selected_ids.length === 0 && !fill_in_text)
    errors.push(fieldError(`${at}/selected_ids`, 'At least one choice, or a `fill_in_text`.', 'required'));
  if (type === 'single_choice' && selected_ids.length > 1)
    errors.push(fieldError(`${at}/selected_ids`, 'One choice only.', 'maxItems'));
  return errors;
}

function fieldError(pointer: string, message: string, code: string): FieldError {
  return { in: 'body', pointer, message, code };
}

function list(ids: readonly string[]): string {
  return ids.map((id) => `\`${id}\``).join(', ');
}

/** A name as a segment of a JSON pointer (RFC 6901 §3). */
function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}
