/** Asks by OpenAI's chat completions, and reads the answer by hand: what the AI SDK does with each piece is most of what it costs. */
import { StringDecoder } from 'node:string_decoder';
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
} from '@ai-sdk/provider';
import { generateId, StreamingToolCallTracker } from '@ai-sdk/provider-utils';
import { textOf } from '../../outbound/outbound.ts';
import { parseHeld } from '../json-crowd.ts';
import { lineBytes, mostCalls, mostHeldBytes } from './answer-bounds.ts';
import { errorWithin } from './error-within.ts';
import { dropLate } from './left-answer.ts';
import type { AnsweringModel, LanguageCall, RequestBody } from './provider-factory.ts';
import { tooLong } from './provider-failures.ts';
import { refusalOf } from './refusal.ts';
import { tokensInSilence } from './silence.ts';

type StreamPart = LanguageModelV4StreamPart;

/** The body of a request in the words of chat completions. */
export type WriteBody = (options: LanguageModelV4CallOptions) => Promise<RequestBody>;

export function chatCompletions(connection: LanguageCall, write: WriteBody): AnsweringModel {
  return {
    async doStream({ whole = false, ...options }) {
      // Nobody reads it before its end; what takes longer is streamed, so that silence can be told from work.
      const atOnce = whole && (options.maxOutputTokens ?? Number.POSITIVE_INFINITY) <= tokensInSilence;
      const body = await write(options);
      const { abortSignal } = options;
      const streamed = { stream_options: { include_usage: true }, ...body, stream: true };
      const answer = await connection.call(
        `${(connection.baseUrl ?? '').replace(/\/$/, '')}/chat/completions`,
        {
          method: 'POST',
          headers: headersOf(connection),
          body: JSON.stringify(changed(atOnce ? body : streamed, connection)),
          signal: abortSignal,
        },
      );
      if (answer.status < 200 || answer.status > 299) throw await refusalOf(answer);
      const type = String(answer.headers['content-type'] ?? '');
      // A few answer as they like to, whatever they are asked for.
      const inOne = atOnce ? !type.startsWith('text/event-stream') : type.startsWith('application/json');
      return { stream: inOne ? wholeAnswer(answer.body) : piecesOf(answer.body) };
    },
  };
}

export function headersOf({
  apiKey,
  headers,
}: Pick<LanguageCall, 'apiKey' | 'headers'>): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(apiKey && { authorization: `Bearer ${apiKey}` }),
    ...headers,
  };
}

function changed(body: RequestBody, { changeBody }: LanguageCall): RequestBody {
  return changeBody ? changeBody(body) : body;
}

/** What is read of an answer, or of a piece of one; servers that imitate OpenAI leave out what they like. */
interface Piece {
  readonly choices?: readonly Choice[];
  readonly usage?: Usage | null;
  readonly error?: unknown;
}

interface Choice {
  readonly delta?: Said | null;
  readonly message?: Said | null;
  readonly finish_reason?: string | null;
}

interface Said {
  readonly content?: string | readonly ContentPart[] | null;
  readonly refusal?: unknown;
  readonly reasoning_content?: string | null;
  readonly reasoning?: string | null;
  readonly tool_calls?: readonly ToolCall[] | null;
}

interface ContentPart {
  readonly type?: string;
  readonly text?: unknown;
  readonly thinking?: readonly { readonly text?: unknown }[];
}

interface ToolCall {
  readonly index?: number | null;
  readonly id?: string | null;
  readonly function?: { readonly name?: string | null; readonly arguments?: string | null };
  readonly extra_content?: { readonly google?: { readonly thought_signature?: string | null } | null } | null;
}

interface Usage {
  readonly prompt_tokens?: number | null;
  readonly completion_tokens?: number | null;
  readonly total_tokens?: number | null;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number | null } | null;
  readonly completion_tokens_details?: { readonly reasoning_tokens?: number | null } | null;
}

async function* wholeAnswer(body: AsyncIterable<Buffer>): AsyncGenerator<StreamPart> {
  const answer = new AnswerReader();
  yield* answer.read(parseHeld(await textOf(body, mostHeldBytes)) as Piece);
  yield* answer.end();
}

/** Says nothing, and is heard. */
const stillAtWork: StreamPart = { type: 'raw', rawValue: null };

async function* piecesOf(body: AsyncIterableIterator<Buffer>): AsyncGenerator<StreamPart> {
  const events = new EventReader();
  const answer = new AnswerReader();
  let complete = false;
  try {
    while (!complete) {
      const { done, value } = await body.next();
      complete = done === true;
      const read = done ? [] : events.read(value);
      let isQuiet = true;
      for (const data of read) {
        complete ||= data === '[DONE]';
        if (complete) continue;
        for (const part of answer.read(parseHeld(data) as Piece)) {
          isQuiet = false;
          yield part;
        }
      }
      // By comments, or pieces without a word, gateways say that the provider behind them is still at work.
      if (isQuiet) yield stillAtWork;
    }
    for (const part of answer.end()) yield part;
  } finally {
    if (complete) dropLate(body);
    else await body.return?.().catch(() => undefined);
  }
}

/** The data of server-sent events, however the network has cut them. */
class EventReader {
  readonly #decoder = new StringDecoder('utf8');
  /** The beginning of a line that has not ended. */
  #line = '';
  #data: string[] = [];
  /** How much the lines of the event take that has not ended. */
  #length = 0;

  read(chunk: Buffer): string[] {
    const text = this.#decoder.write(chunk);
    const events: string[] = [];
    let start = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      const line = withoutReturn(this.#line + text.slice(start, end));
      this.#line = '';
      start = end + 1;
      this.#length += line.length + lineBytes;
      if (line.startsWith('data:')) this.#data.push(line.slice(line.charCodeAt(5) === 0x20 ? 6 : 5));
      else if (line === '') {
        if (this.#data.length > 0) events.push(this.#data.join('\n'));
        this.#data = [];
        this.#length = 0;
      }
    }
    this.#line += text.slice(start);
    if (this.#line.length + this.#length > mostHeldBytes)
      throw new Error('An event of the answer has no end');
    return events;
  }
}

function withoutReturn(line: string): string {
  return line.charCodeAt(line.length - 1) === 0x0d ? line.slice(0, -1) : line;
}

/** Of thoughts in the field by which they can be sent back. */
const takenBack: SharedV4ProviderMetadata = { openaiCompatible: { isTakenBack: true } };

/** Puts what a model says into the parts of the AI SDK. */
class AnswerReader {
  #parts: StreamPart[] = [];
  #thinking = false;
  #refused = false;
  #reason: string | null = null;
  #usage: Usage | null = null;
  /** Calls whose name has not come yet, by their index, and the indexes of those whose name has. */
  readonly #nameless = new Map<number, ToolCall>();
  readonly #named = new Set<number>();
  #calls: StreamingToolCallTracker<ToolCallDelta> | null = null;
  /** How many calls have begun. */
  #begun = 0;

  /** Throws what the provider says instead. */
  read(piece: Piece): readonly StreamPart[] {
    this.#parts = [];
    if (piece.error != null) throw errorWithin(piece.error);
    if (!Array.isArray(piece.choices)) throw new Error('A piece of the answer has no choices');
    this.#usage = piece.usage ?? this.#usage;
    const choice: Choice | undefined = piece.choices[0];
    // Some say nothing by an empty one.
    this.#reason = choice?.finish_reason || this.#reason;
    const said = choice?.delta ?? choice?.message;
    if (said) this.#hear(said);
    return this.#parts;
  }

  end(): readonly StreamPart[] {
    this.#parts = [];
    for (const call of this.#nameless.values()) this.#tracker().processDelta(deltaOf(call));
    this.#calls?.flush();
    const finishReason = finishOf(this.#reason, this.#refused);
    this.#parts.push({ type: 'finish', finishReason, usage: usageOf(this.#usage) });
    return this.#parts;
  }

  #hear({ content, refusal, reasoning_content, reasoning, tool_calls }: Said): void {
    if (reasoning_content != null) this.#think(reasoning_content, takenBack);
    else this.#think(reasoning ?? '');
    if (typeof content === 'string') this.#say(content);
    else
      for (const part of content ?? []) {
        if (part.type === 'text' && typeof part.text === 'string') this.#say(part.text);
        if (part.type === 'thinking') this.#think(thoughtIn(part));
      }
    if (typeof refusal === 'string' && refusal !== '') {
      this.#refused = true;
      this.#say(refusal);
    }
    // Of pieces without index and id each is compared with all calls.
    if ((tool_calls?.length ?? 0) > mostCalls) throw tooLong();
    for (const call of tool_calls ?? []) this.#call(call);
  }

  #say(delta: string): void {
    if (delta !== '') this.#parts.push({ type: 'text-delta', id: 'text', delta });
  }

  #think(delta: string, providerMetadata?: SharedV4ProviderMetadata): void {
    if (delta === '') return;
    if (!this.#thinking)
      this.#parts.push({
        type: 'reasoning-start',
        id: 'reasoning',
        ...(providerMetadata && { providerMetadata }),
      });
    this.#thinking = true;
    this.#parts.push({ type: 'reasoning-delta', id: 'reasoning', delta });
  }

  /** Some send the arguments before the name that they are for. */
  #call(call: ToolCall): void {
    const { index } = call;
    if (index == null || this.#named.has(index)) this.#tracker().processDelta(deltaOf(call));
    else {
      const before = this.#nameless.get(index);
      const whole = before ? joined(before, call) : call;
      if (whole.function?.name == null) this.#nameless.set(index, whole);
      else {
        this.#nameless.delete(index);
        this.#named.add(index);
        this.#tracker().processDelta(deltaOf(whole));
      }
    }
  }

  #take(part: StreamPart): void {
    if (part.type === 'tool-input-start') this.#begun += 1;
    if (this.#begun > mostCalls) throw tooLong();
    this.#parts.push(part);
  }

  /** The SDK's own: which piece belongs to which call is a science where servers leave out index and id. */
  #tracker(): StreamingToolCallTracker<ToolCallDelta> {
    this.#calls ??= new StreamingToolCallTracker<ToolCallDelta>(
      { enqueue: (part) => this.#take(part as StreamPart) }, // it makes nothing else
      {
        generateId,
        extractMetadata: ({ thoughtSignature }) =>
          thoughtSignature ? { google: { thoughtSignature } } : undefined,
        buildToolCallProviderMetadata: (metadata) => metadata,
      },
    );
    return this.#calls;
  }
}

interface ToolCallDelta extends Pick<ToolCall, 'index' | 'id' | 'function'> {
  /** What Google signs a call by, through servers that imitate OpenAI. */
  readonly thoughtSignature?: string | null | undefined;
}

function deltaOf({ index, id, function: called, extra_content }: ToolCall): ToolCallDelta {
  const thoughtSignature = extra_content?.google?.thought_signature;
  return {
    ...(index != null && { index }),
    ...(id != null && { id }),
    ...(called && { function: called }),
    thoughtSignature,
  };
}

function joined(before: ToolCall, more: ToolCall): ToolCall {
  const [id, extra_content] = [
    before.id ?? more.id ?? null,
    before.extra_content ?? more.extra_content ?? null,
  ];
  const name = more.function?.name ?? null;
  const json = `${before.function?.arguments ?? ''}${more.function?.arguments ?? ''}`;
  return { ...more, id, extra_content, function: { name, arguments: json } };
}

function thoughtIn({ thinking = [] }: ContentPart): string {
  return thinking.map(({ text }) => (typeof text === 'string' ? text : '')).join('');
}

function finishOf(raw: string | null, refused: boolean): LanguageModelV4FinishReason {
  if (raw === null) return { unified: 'other', raw: undefined };
  return { unified: raw === 'stop' && refused ? 'content-filter' : (reasons[raw] ?? 'other'), raw };
}

const reasons: Readonly<Record<string, LanguageModelV4FinishReason['unified']>> = {
  stop: 'stop',
  length: 'length',
  content_filter: 'content-filter',
  function_call: 'tool-calls',
  tool_calls: 'tool-calls',
  // Mistral, where the window of the model is full.
  model_length: 'length',
  // Gateways and Mistral, vLLM with SGLang, DeepSeek: what there is of such an answer is not all of it.
  error: 'error',
  abort: 'error',
  insufficient_system_resource: 'error',
};

function usageOf(usage: Usage | null): LanguageModelV4Usage {
  const [total, written] = [usage?.prompt_tokens ?? undefined, writtenOf(usage)];
  const cacheRead = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  const reasoning = usage?.completion_tokens_details?.reasoning_tokens ?? undefined;
  const noCache = total === undefined ? undefined : total - cacheRead;
  return {
    inputTokens: { total, noCache, cacheRead, cacheWrite: undefined },
    outputTokens: { total: written, text: undefined, reasoning },
  };
}

/** xAI, and Google where it imitates OpenAI, count what was thought in the sum alone. */
function writtenOf(usage: Usage | null): number | undefined {
  const { prompt_tokens: read, completion_tokens: written, total_tokens: sum } = usage ?? {};
  if (typeof read !== 'number' || typeof written !== 'number' || typeof sum !== 'number')
    return written ?? undefined;
  return Math.max(written, sum - read);
}
