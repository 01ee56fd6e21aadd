// The tool that puts questions to the person behind the run and returns the answers.
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import type { PromptOutcome, Question, QuestionAnswer, Tool } from './tool.ts';

const choice = z.strictObject({
  id: z.string().min(1).max(64),
  label: z.string().min(1).max(200),
  description: z.string().max(600).optional(),
});

const question = z
  .strictObject({
    id: z.string().min(1).max(64).describe('A name for the question, unique in this call'),
    type: z.enum(['yes_no', 'single_choice', 'multi_choice', 'free_text']),
    text: z.string().min(1).max(240).describe('The question'),
    description: z.string().max(600).optional().describe('What the person should know to answer'),
    choices: z.array(choice).min(2).max(5).optional().describe('Two to five, for the two choice types only'),
  })
  .superRefine((value, report) => {
    const offersChoices = value.type === 'single_choice' || value.type === 'multi_choice';
    const complain = (message: string) => report.addIssue({ code: 'custom', path: ['choices'], message });
    if (offersChoices && !value.choices) complain(`${value.type} needs choices`);
    if (!offersChoices && value.choices) complain(`${value.type} takes no choices`);
    if (!areUnique(value.choices ?? [])) complain('the ids of the choices have to differ');
  });

const input = z.strictObject({
  questions: z.array(question).min(1).max(5).refine(areUnique, 'the ids of the questions have to differ'),
});

/** Builds the `ask_user` tool. */
export function askUserTool(): Tool {
  return defineTool({
    name: 'ask_user',
    description:
      'Asks the person one to five questions at once and waits for the answers. Ask only what you cannot find out ' +
      'yourself. The person may decline.',
    // The same stored questions are waited for again; nobody is asked twice.
    idempotent: true,
    needsNoFiles: true,
    needsPermission: false,
    input,
    prepare: ({ questions }, context) => ({
      permission: null,
      run: async () => {
        const outcome = await context.ask(questions);
        return success(describe(questions, outcome), { status: outcome.status });
      },
    }),
  });
}

function areUnique(items: readonly { readonly id: string }[]): boolean {
  return new Set(items.map((item) => item.id)).size === items.length;
}

const WITHOUT_ANSWERS: Readonly<Record<Exclude<PromptOutcome['status'], 'answered'>, string>> = {
  declined: 'The person declined to answer.',
  expired: 'Nobody answered in time.',
  unasked: 'Nobody can be asked in this kind of query.',
  cancelled: 'The questions were not answered.',
};

function describe(questions: readonly Question[], outcome: PromptOutcome): string {
  if (outcome.status !== 'answered')
    return `${WITHOUT_ANSWERS[outcome.status]} Go on without the answers, or stop.`;
  const answers = new Map(outcome.answers.map((answer) => [answer.question_id, answer]));
  return questions
    .map((asked) => `${asked.text}\n${indent(answerText(asked, answers.get(asked.id)))}`)
    .join('\n\n');
}

function answerText(asked: Question, answer: QuestionAnswer | undefined): string {
  if (!answer) return '(not answered)';
  const parts = [
    ...(answer.yes === undefined ? [] : [answer.yes ? 'Yes' : 'No']),
    ...(answer.selected_ids ?? []).map((id) => selectedText(asked, id, answer.notes?.[id])),
    ...(answer.fill_in_text ? [answer.fill_in_text] : []),
  ];
  return parts.join('\n') || '(nothing chosen)';
}

function selectedText(asked: Question, id: string, note: string | undefined): string {
  const label = asked.choices?.find((offered) => offered.id === id)?.label ?? id;
  return note ? `${label} [${id}] (${note})` : `${label} [${id}]`;
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '  ');
}
