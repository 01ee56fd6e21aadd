/** A server's question to a person, as questions of the run whose tool call the server is working on. */
import type { ElicitRequestFormParams, ElicitResult } from '@modelcontextprotocol/client';
import type { PromptOutcome, Question, QuestionAnswer } from '../tools/tool.ts';
import { oneLine } from './failure.ts';

type Ask = (questions: readonly Question[]) => Promise<PromptOutcome>;
type Property = ElicitRequestFormParams['requestedSchema']['properties'][string];

/** So many questions a person is asked at once, and so many choices each may have. */
const mostQuestions = 5;
const mostChoices = 5;
const longestText = 240;
const longestLabel = 200;
const longestDescription = 600;

/** Puts the form to the person, question by question. */
export async function elicit(
  server: string,
  asked: ElicitRequestFormParams,
  ask: Ask,
): Promise<ElicitResult> {
  const properties = Object.entries(asked.requestedSchema.properties);
  if (properties.length === 0) return await confirm(server, asked.message, ask);
  const content: Record<string, string | number | boolean | string[]> = {};
  for (let start = 0; start < properties.length; start += mostQuestions) {
    const batch = properties.slice(start, start + mostQuestions);
    const outcome = await ask(batch.map(([name, property]) => questionOf(server, asked, name, property)));
    if (outcome.status === 'declined') return { action: 'decline' };
    if (outcome.status !== 'answered') return { action: 'cancel' };
    for (const [name, property] of batch) {
      const answer = outcome.answers.find(({ question_id }) => question_id === name);
      const value = answer && valueIn(property, answer);
      if (value !== undefined) content[name] = value;
    }
  }
  return { action: 'accept', content };
}

async function confirm(server: string, message: string, ask: Ask): Promise<ElicitResult> {
  const outcome = await ask([{ id: 'confirm', type: 'yes_no', text: textOf(server, message) }]);
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
  name: string,
  property: Property,
): Question {
  const required = requestedSchema.required?.includes(name) ?? false;
  const facts = [message, property.description, required ? null : 'May be left empty.']
    .filter(Boolean)
    .join(' ');
  const common = {
    id: name,
    text: textOf(server, property.title ?? name),
    description: oneLine(facts, longestDescription - 1),
  };
  if (property.type === 'boolean') return { ...common, type: 'yes_no' };
  const choices = choicesOf(property);
  if (choices.length >= 2 && choices.length <= mostChoices)
    return { ...common, type: property.type === 'array' ? 'multi_choice' : 'single_choice', choices };
  const listed = choices.length > 0 ? ` One of: ${choices.map(({ id }) => id).join(', ')}.` : '';
  return { ...common, type: 'free_text', description: oneLine(`${facts}${listed}`, longestDescription - 1) };
}

interface Choice {
  readonly id: string;
  readonly label: string;
}

/** The schema knows five ways to write a choice. */
function choicesOf(property: Property): readonly Choice[] {
  const plain = (values: readonly string[], names: readonly string[] = []) =>
    values.map((id, index) => ({ id, label: labelOf(names[index] ?? id) }));
  const titled = (options: readonly { readonly const: string; readonly title: string }[]) =>
    options.map(({ const: id, title }) => ({ id, label: labelOf(title) }));
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
  if (property.type === 'array') return selected_ids ? [...selected_ids] : fill_in_text?.split(/\s*,\s*/);
  const text = selected_ids?.[0] ?? fill_in_text;
  if (text === undefined || text === '') return undefined;
  if (property.type === 'string') return text;
  const number = Number(text);
  return Number.isFinite(number) ? number : undefined;
}
