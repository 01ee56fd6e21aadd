/** Reads a Messages request in our words: what was said, by whom, and how the answer is wanted. */
import type { CreateMessageRequest } from '../contract/api.ts';
import type { AnswerTerms, Generation, ModelMessage, ModelMessagePart } from '../handler.ts';
import { blocksOf, type Content, partsOfBlock, resultOf, textOf } from './messages-blocks.ts';
import { refusal, required } from './messages-refusal.ts';

type Said = Pick<CreateMessageRequest, 'system' | 'messages'>;

/** What was said, with the instructions apart. */
export interface Spoken {
  readonly system: string;
  readonly messages: readonly ModelMessage[];
}

/** The tool calls that results may answer, by id, with the names of their tools. */
export type OpenCalls = ReadonlyMap<string, string>;

/**
 * Instructions are said once, above the conversation, wherever the client put them. `before` are calls of a history that
 * the request does not repeat. Throws Problem.
 */
export function spoken(said: Said, before: OpenCalls = new Map()): Spoken {
  const reader = new ConversationReader(before);
  for (const [index, { role, content }] of said.messages.entries()) {
    const place = placeOf(content, index);
    if (role !== 'system') reader.read(role, required(content, place), place);
  }
  return { system: instructionsOf(said), messages: reader.end() };
}

/** Those of the request, and those that stand between its messages; `lasting` leaves out what is for one turn. */
export function instructionsOf({ system, messages }: Said, lasting = false): string {
  const lastOfUser = messages.findLastIndex(({ role }) => role === 'user');
  const later = messages.flatMap(({ role, content, clear_at: end }, index) => {
    const isOver = end === 'next_user_message' && (lasting || index < lastOfUser);
    return role !== 'system' || isOver ? [] : [textOf(content, placeOf(content, index))];
  });
  return [textOf(system, '/system'), ...later].filter(Boolean).join('\n\n');
}

function placeOf(content: Said['messages'][number]['content'], index: number): string {
  return typeof content === 'string' ? `/messages/${index}` : `/messages/${index}/content`;
}

/** The sampling settings of a request. */
export function generationOf(body: CreateMessageRequest): Generation {
  const effort = body.output_config?.effort;
  const thinks = body.thinking && body.thinking.type !== 'disabled';
  return {
    maxTokens: body.max_tokens,
    onlyStandard: true,
    ...(typeof body.temperature === 'number' && { temperature: body.temperature }),
    ...(typeof body.top_p === 'number' && { topP: body.top_p }),
    ...(typeof body.top_k === 'number' && { topK: body.top_k }),
    ...(body.stop_sequences?.length && { stopSequences: body.stop_sequences }),
    ...(effort && { reasoningEffort: effort }),
    ...(thinks && { think: true }),
  };
}

/** The schema that the answer has to match, by either of its names. */
export function answerSchemaOf(body: CreateMessageRequest): Pick<AnswerTerms, 'answerSchema'> {
  const format = body.output_config?.format ?? body.output_format;
  return format?.type === 'json_schema' && format.schema ? { answerSchema: format.schema } : {};
}

/** More are in no message of a session; several of the client's, and what results show, may become one. */
const mostParts = 10_000;

function refuseMany(parts: readonly ModelMessagePart[], pointer: string): void {
  if (parts.length > mostParts)
    throw refusal(pointer, `makes a message of more than ${mostParts} parts`, 'maxItems');
}

/** What the user says in one turn, where it begins. */
interface Turn {
  readonly pointer: string;
  readonly results: ModelMessagePart[];
  readonly rest: ModelMessagePart[];
}

/** Reads message after message, and keeps in mind which calls have no result yet. */
class ConversationReader {
  readonly #messages: ModelMessage[] = [];
  readonly #open = new Map<string, string>();
  readonly #before: OpenCalls;
  /** Of the newest answer. */
  #parts: ModelMessagePart[] = [];
  /** With results of some calls, while others still have none: they may come in messages of their own. */
  #held: Turn | null = null;
  #last = '';

  constructor(before: OpenCalls) {
    this.#before = before;
  }

  read(role: 'user' | 'assistant', content: Content, pointer: string): void {
    this.#last = pointer;
    if (role === 'assistant') this.#answer(content, pointer);
    else this.#prompt(content, pointer);
  }

  end(): readonly ModelMessage[] {
    this.#refuseUnanswered(this.#held?.pointer ?? this.#last);
    return this.#messages;
  }

  #answer(content: Content, pointer: string): void {
    if (this.#held) this.#refuseUnanswered(this.#held.pointer);
    // What stands behind a call and before its result is of the same answer: other vendors want the result next.
    const goesOn = this.#open.size > 0;
    if (!goesOn) this.#parts = [];
    const parts = this.#parts;
    for (const { block, place } of blocksOf(content, pointer)) {
      if (block.type === 'tool_result' || block.type === 'image' || block.type === 'document')
        throw refusal(`${place}/type`, `${block.type} stands in messages of the role user alone`, 'enum');
      for (const part of partsOfBlock(block, place)) {
        parts.push(part);
        if (part.type === 'tool_use') this.#call(part, place);
      }
    }
    refuseMany(parts, pointer);
    if (!goesOn && parts.length > 0) this.#messages.push({ role: 'assistant', parts });
  }

  /** Results name their calls by their ids: every provider refuses two calls of one id in an answer. */
  #call({ id, name }: Extract<ModelMessagePart, { type: 'tool_use' }>, place: string): void {
    if (this.#open.has(id))
      throw refusal(
        `${place}/id`,
        `is that of another tool_use of this answer: ${JSON.stringify(id)}`,
        'duplicate',
      );
    this.#open.set(id, name);
  }

  /** Results come before all else, as every vendor wants them; what they show besides text comes behind. */
  #prompt(content: Content, pointer: string): void {
    if (content.length === 0) throw refusal(pointer, 'must not be empty', 'minItems');
    const turn: Turn = this.#held ?? { pointer, results: [], rest: [] };
    const { results, rest } = turn;
    const before = results.length;
    for (const { block, place } of blocksOf(content, pointer)) {
      if (block.type === 'tool_use')
        throw refusal(`${place}/type`, 'tool_use stands in messages of the role assistant alone', 'enum');
      if (block.type !== 'tool_result')
        rest.push(...partsOfBlock(block, place).filter(({ type }) => type !== 'reasoning'));
      else {
        const { text, files } = resultOf(block, place);
        results.push({
          ...this.#answered(block.tool_use_id, place),
          content: text,
          is_error: block.is_error ?? false,
        });
        rest.push(...files);
      }
    }
    refuseMany(results, pointer);
    refuseMany(rest, pointer);
    if (results.length === before) this.#refuseUnanswered(pointer);
    this.#held = this.#open.size > 0 ? turn : null;
    if (this.#held) return;
    if (results.length > 0) this.#messages.push({ role: 'tool', parts: results });
    if (rest.length > 0) this.#messages.push({ role: 'user', parts: rest });
  }

  #answered(id: string | undefined, place: string) {
    const name = id === undefined ? undefined : (this.#open.get(id) ?? this.#before.get(id));
    if (id === undefined || name === undefined)
      throw refusal(
        `${place}/tool_use_id`,
        `answers no tool_use of the message before: ${JSON.stringify(id ?? null)}`,
        'orphan',
      );
    this.#open.delete(id);
    return { type: 'tool_result' as const, tool_use_id: id, name };
  }

  /** Every provider refuses a call without a result. */
  #refuseUnanswered(pointer: string): void {
    const [left] = this.#open.keys();
    if (left !== undefined)
      throw refusal(pointer, `the tool_use ${JSON.stringify(left)} has no tool_result behind it`, 'orphan');
  }
}
