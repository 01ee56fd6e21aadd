/** Writes an answer in the shapes of the Messages API: block after block, streamed or whole, from the same pieces. */
import type {
  CreateMessageRequest,
  MessagesBlock,
  MessagesResponse,
  MessagesUsage,
  StopReason,
} from '../contract/api.ts';
import type { ModelPart, ServerEvent, TokenCount } from '../handler.ts';
import { Problem } from '../problem.ts';

type Finish = Extract<ModelPart, { type: 'finish' }>;

/** What is known of an answer before it begins. */
export interface Beginning {
  readonly body: CreateMessageRequest;
  readonly id: string;
  /** About how many tokens are read for it. */
  readonly estimate: number;
}

/** The whole answer. */
export async function collect(
  beginning: Beginning,
  parts: AsyncIterable<ModelPart>,
): Promise<MessagesResponse> {
  const { body } = beginning;
  const content: MessagesBlock[] = [];
  const blocks = new BlockWriter(showsThoughts(body));
  for await (const part of parts) {
    for (const event of blocks.write(part)) if (event.type === 'stop') content.push(event.block);
    if (part.type === 'finish')
      return { ...opening(beginning, usageOf(part.usage)), content, ...ending(body, part, blocks.calls) };
  }
  throw new Problem('request_timeout', 'The connection closed before the answer was complete.');
}

/** The frames in the exact order that the vendor's clients expect. */
export async function* frames(
  beginning: Beginning,
  parts: AsyncIterable<ModelPart>,
): AsyncGenerator<ServerEvent> {
  const { body, estimate } = beginning;
  // Clients measure by it how full the model's window is; what the provider has counted comes at the end.
  const usage = { input_tokens: estimate, output_tokens: 0 };
  yield frame('message_start', { message: opening(beginning, usage) });
  const blocks = new BlockWriter(showsThoughts(body));
  for await (const part of parts) {
    for (const event of blocks.write(part)) {
      const { index } = event;
      if (event.type === 'start') yield frame('content_block_start', { index, content_block: event.block });
      else if (event.type === 'delta') yield frame('content_block_delta', { index, delta: event.delta });
      else yield frame('content_block_stop', { index });
    }
    if (part.type === 'finish') {
      yield frame('message_delta', { delta: ending(body, part, blocks.calls), usage: usageOf(part.usage) });
      yield frame('message_stop', {});
    }
  }
}

type BlockEvent =
  | { readonly type: 'start'; readonly index: number; readonly block: MessagesBlock }
  | { readonly type: 'delta'; readonly index: number; readonly delta: Record<string, string> }
  | { readonly type: 'stop'; readonly index: number; readonly block: MessagesBlock };

/** One block after the other, though models may write several calls at once: what comes too early waits. */
class BlockWriter {
  /** How many calls the answer has. */
  calls = 0;
  readonly #showsThoughts: boolean;
  #index = -1;
  #open: MessagesBlock | null = null;
  #waiting: ModelPart[] = [];
  #said = '';

  constructor(showsThoughts: boolean) {
    this.#showsThoughts = showsThoughts;
  }

  *write(part: ModelPart): Generator<BlockEvent> {
    if (part.type === 'finish') yield* this.#end();
    else if (this.#belongsLater(part)) this.#waiting.push(part);
    else if (part.type === 'text') yield* this.#say('text', part.text);
    else if (part.type === 'reasoning') yield* this.#think(part);
    else if (part.type === 'tool_input') yield* this.#call(part.id, part.name, part.json);
    else if (part.type === 'tool_use') yield* this.#called(part);
  }

  /** A call is open until its arguments are complete. */
  #belongsLater(part: Exclude<ModelPart, Finish>): boolean {
    if (this.#open?.type !== 'tool_use') return false;
    return !('id' in part) || part.id !== this.#open.id;
  }

  *#think({ text, signature, redacted }: Extract<ModelPart, { type: 'reasoning' }>): Generator<BlockEvent> {
    if (!this.#showsThoughts) return;
    if (redacted !== undefined) {
      yield* this.#stop();
      yield this.#start({ type: 'redacted_thinking', data: redacted });
      yield* this.#stop();
    } else if (text !== '' || this.#open?.type !== 'thinking') yield* this.#say('thinking', text);
    if (signature !== undefined) yield* this.#stop({ type: 'thinking', thinking: this.#said, signature });
  }

  *#say(type: 'text' | 'thinking', text: string): Generator<BlockEvent> {
    if (this.#open?.type !== type) {
      yield* this.#stop();
      yield this.#start(type === 'text' ? { type, text: '' } : { type, thinking: '', signature: '' });
    }
    this.#said += text;
    yield this.#delta(
      type === 'text' ? { type: 'text_delta', text } : { type: 'thinking_delta', thinking: text },
    );
  }

  *#call(id: string, name: string, json: string): Generator<BlockEvent> {
    if (this.#open?.type !== 'tool_use') {
      yield* this.#stop();
      this.calls += 1;
      yield this.#start({ type: 'tool_use', id, name, input: {} });
      yield this.#delta({ type: 'input_json_delta', partial_json: '' });
    }
    this.#said += json;
    if (json !== '') yield this.#delta({ type: 'input_json_delta', partial_json: json });
  }

  *#called({ id, name, input }: Extract<ModelPart, { type: 'tool_use' }>): Generator<BlockEvent> {
    yield* this.#call(id, name, '');
    if (this.#said === '' && Object.keys(input).length > 0)
      yield* this.#call(id, name, JSON.stringify(input));
    yield* this.#stop({ type: 'tool_use', id, name, input });
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const part of waiting) yield* this.write(part);
  }

  /** A call whose arguments never became complete is closed as it is, and so are those behind it. */
  *#end(): Generator<BlockEvent> {
    while (this.#open) {
      yield* this.#stop();
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const part of waiting) yield* this.write(part);
    }
  }

  #start(block: MessagesBlock): BlockEvent {
    this.#index += 1;
    this.#open = block;
    this.#said = '';
    return { type: 'start', index: this.#index, block };
  }

  #delta(delta: Record<string, string>): BlockEvent {
    return { type: 'delta', index: this.#index, delta };
  }

  *#stop(whole?: MessagesBlock): Generator<BlockEvent> {
    const open = this.#open;
    if (!open) return;
    this.#open = null;
    // Clients wait for the signature, though only the vendor's own models give one.
    if (open.type === 'thinking')
      yield this.#delta({ type: 'signature_delta', signature: whole?.signature ?? '' });
    yield { type: 'stop', index: this.#index, block: whole ?? complete(open, this.#said) };
  }
}

function complete(open: MessagesBlock, said: string): MessagesBlock {
  if (open.type === 'text') return { ...open, text: said };
  return open.type === 'thinking' ? { ...open, thinking: said } : open;
}

function frame(type: string, data: Record<string, unknown>): ServerEvent {
  return { name: type, data: { type, ...data } };
}

/** Who did not ask for thoughts may not know what they are. */
function showsThoughts({ thinking }: CreateMessageRequest): boolean {
  return !!thinking && thinking.type !== 'disabled' && thinking.display !== 'omitted';
}

function opening({ body, id }: Beginning, usage: MessagesUsage): MessagesResponse {
  return {
    id,
    type: 'message',
    role: 'assistant',
    model: body.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  };
}

function ending({ stop_sequences }: CreateMessageRequest, { stopReason }: Finish, calls: number) {
  const matched =
    stopReason === 'stop_sequence' && stop_sequences?.length === 1 ? stop_sequences[0] : undefined;
  const reason = stopReasons[stopReason];
  // Not every provider says so where it calls tools, and our own tools are none of the client's business.
  const called = calls > 0 && reason === 'end_turn';
  return { stop_reason: called ? 'tool_use' : reason, stop_sequence: matched ?? null } as const;
}

/** The vendor's words for how an answer ended. */
const stopReasons: Readonly<Record<StopReason, MessagesResponse['stop_reason']>> = {
  end_turn: 'end_turn',
  max_tokens: 'max_tokens',
  stop_sequence: 'stop_sequence',
  refusal: 'refusal',
  tool_use: 'end_turn',
  step_limit: 'end_turn',
  token_limit: 'end_turn',
  cost_limit: 'end_turn',
  quota_exceeded: 'end_turn',
  loop_detected: 'end_turn',
  interrupted: 'end_turn',
  error: 'end_turn',
};

/** The vendor counts what came from the cache, and what went there, apart from the rest. */
function usageOf({
  input_tokens,
  output_tokens,
  cached_input_tokens,
  cacheWriteTokens = 0,
}: TokenCount): MessagesUsage {
  return {
    input_tokens: Math.max(input_tokens - cached_input_tokens - cacheWriteTokens, 0),
    output_tokens,
    cache_read_input_tokens: cached_input_tokens,
    cache_creation_input_tokens: cacheWriteTokens,
  };
}
