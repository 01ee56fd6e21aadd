/** A server's question to a person, as questions of the run whose tool call the server is working on. */
import type { ElicitRequestFormParams, ElicitResult } from '@modelcontextprotocol/client';
import type { PromptOutcome, Question, QuestionAnswer } from '../tools/tool.ts';
import { oneLine } from './failure.ts';

type Ask = (questions: readonly Question[], withdrawn: AbortSignal) => Promise<PromptOutcome>;
type Property = ElicitRequestFormParams['requestedSchema']['properties'][string];

/** So many questions a person is asked for one form, and so many of them at once; so many choices each may have. */
const mostProperties = 25;
const mostQuestions = 5;
const mostChoices = 5;
const longestText = 240;
const longestLabel = 200;
const longestDescription = 600;
const longestName = 1000;
/** Of a form as it was sent, and of how far its schema is nested: the deepest good one has five. */
const mostFormLength = 100_000;
const deepestForm = 10;
/** No answer is compared with so many names of choices by a person. */
const mostNamedChoices = 500;

/**
 * Puts the form to the person, question by question, until it is withdrawn. Nobody is asked what is more than a person can
 * answer.
 */
export async function elicit(
  server: string,
  asked: ElicitRequestFormParams,
  ask: Ask,
  withdrawn: AbortSignal,
): Promise<ElicitResult> {
  if (!isBearable(asked)) return { action: 'cancel' };
  const properties = Object.entries(asked.requestedSchema.properties);
  if (properties.length === 0) return await confirm(server, asked.message, ask, withdrawn);
  // The names are the server's: `__proto__` is one like others.
  const content: Record<string, string | number | boolean | string[]> = Object.create(null);
  for (let start = 0; start < properties.length; start += mostQuestions) {
    const batch = properties.slice(start, start + mostQuestions);
    const questions = batch.map(([name, property], at) =>
      questionOf(server, asked, `q${start + at + 1}`, name, property),
    );
    if (withdrawn.aborted) return { action: 'cancel' };
    const outcome = await ask(questions, withdrawn);
    if (outcome.status === 'declined') return { action: 'decline' };
    if (outcome.status !== 'answered') return { action: 'cancel' };
    for (const [at, [name, property]] of batch.entries()) {
      const answer = outcome.answers.find(({ question_id }) => question_id === questions[at]?.id);
      const value = answer && valueIn(property, answer);
      if (value !== undefined) content[name] = value;
    }
  }
  return { action: 'accept', content };
}

function isBearable(asked: ElicitRequestFormParams): boolean {
  if (!isShallow(asked, deepestForm) || JSON.stringify(asked).length > mostFormLength) return false;
  const properties = Object.entries(asked.requestedSchema.properties);
  return (
    properties.length <= mostProperties &&
    properties.every(
      ([name, property]) =>
        name.length > 0 && name.length <= longestName && choicesOf(property).length <= mostNamedChoices,
    )
  );
}

/** Without a call for each level: the levels are the server's. */
function isShallow(value: unknown, deepest: number): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > deepest) return false;
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []));
  }
  return true;
}

async function confirm(
  server: string,
  message: string,
  ask: Ask,
  withdrawn: AbortSignal,
): Promise<ElicitResult> {
  const question = { id: 'confirm', type: 'yes_no', text: textOf(server, message) } as const;
  const outcome = await ask([question], withdrawn);
  if (outcome.status !== 'answered') return { action: outcome.status === 'declined' ? 'decline' : 'cancel' };
  return outcome.answers[0]?.yes ? { action: 'accept', content: {} } : { action: 'decline' };
}

/** Who asks stands first: the words are the server's, not the agent's. */
function textOf(server: string, message: string): string {
  return oneLine(`[${server}] ${message}`, longestText - 1);
}

function questionOf(
  server: string,
  { message, requestedSchema }: ElicitRequestFormParams,
  // One of our own: what a server calls its fields need not be an id.
  id: string,
  name: string,
  property: Property,
): Question {
  const facts = [message, property.description].filter(Boolean).join(' ');
  const common = {
    id,
    text: textOf(server, property.title ?? name),
    description: oneLine(facts, longestDescription - 1),
    optional: !requestedSchema.required?.includes(name),
  };
  if (property.type === 'boolean') return { ...common, type: 'yes_no' };
  const choices = choicesOf(property);
  if (choices.length >= 2 && choices.length <= mostChoices)
    return {
      ...common,
      type: property.type === 'array' ? 'multi_choice' : 'single_choice',
      choices: choices.map(({ label }, at) => ({ id: choiceId(at), label })),
    };
  const listed = choices.length > 0 ? ` One of: ${choices.map(({ value }) => value).join(', ')}.` : '';
  return { ...common, type: 'free_text', description: oneLine(`${facts}${listed}`, longestDescription - 1) };
}

function choiceId(at: number): string {
  return `c${at + 1}`;
}

interface Choice {
  readonly value: string;
  readonly label: string;
}

/** The schema knows five ways to write a choice. */
function choicesOf(property: Property): readonly Choice[] {
  const plain = (values: readonly string[], names: readonly string[] = []) =>
    values.map((value, index) => ({ value, label: labelOf(names[index] ?? value) }));
  const titled = (options: readonly { readonly const: string; readonly title: string }[]) =>
    options.map(({ const: value, title }) => ({ value, label: labelOf(title) }));
  if (property.type === 'array')
    return 'enum' in property.items ? plain(property.items.enum) : titled(property.items.anyOf);
  if ('oneOf' in property) return titled(property.oneOf);
  if (!('enum' in property)) return [];
  return plain(property.enum, 'enumNames' in property ? property.enumNames : []);
}

function labelOf(text: string): string {
  return oneLine(text, longestLabel - 1) || '(empty)';
}

function valueIn(
  property: Property,
  { yes, selected_ids, fill_in_text }: QuestionAnswer,
): string | number | boolean | string[] | undefined {
  if (property.type === 'boolean') return yes;
  const choices = choicesOf(property);
  const selected = selected_ids?.flatMap((id) => choices.find((_, at) => choiceId(at) === id)?.value ?? []);
  if (property.type === 'array') return selected ?? fill_in_text?.split(/\s*,\s*/);
  const text = selected?.[0] ?? fill_in_text;
  if (text === undefined || text === '') return undefined;
  if (property.type === 'string') return text;
  const number = Number(text);
  return Number.isFinite(number) ? number : undefined;
}
