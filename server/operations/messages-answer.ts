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
import { BlockWriter, type Finish } from './messages-written-blocks.ts';

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

/** The frames in the exact order that the vendor's clients expect. Left at any time, they leave the parts. */
export function frames(
  beginning: Beginning,
  parts: AsyncIterable<ModelPart>,
): AsyncIterableIterator<ServerEvent> {
  const source = parts[Symbol.asyncIterator]();
  // A generator that was left before it read anything leaves nothing.
  return leftWith(framesOf(beginning, { [Symbol.asyncIterator]: () => source }), () => source.return?.());
}

/** The same events; whoever leaves them before their end has that called, too, also before the first of them. */
export function leftWith<Event>(
  events: AsyncGenerator<Event>,
  onLeft: () => Promise<unknown> | undefined,
): AsyncIterableIterator<Event> {
  let over = false;
  return {
    async next() {
      try {
        const next = await events.next();
        over ||= next.done === true;
        return next;
      } catch (error) {
        over = true;
        throw error;
      }
    },
    async return() {
      const left = await events.return(undefined);
      if (!over) await onLeft();
      over = true;
      return left;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* framesOf(beginning: Beginning, parts: AsyncIterable<ModelPart>): AsyncGenerator<ServerEvent> {
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
  // A hook of the settings ended the run; whatever else interrupts one is told as a failure.
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
