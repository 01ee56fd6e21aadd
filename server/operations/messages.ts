/** The Messages-style surface: the vendor's shapes outside, our runs and providers inside. */
import type {
  CreateMessageRequest,
  MessagesResponse,
  MessagesUsage,
  StopReason,
  Usage,
} from '../contract/api.ts';
import type { Call, Handler, ServerEvent, Services, SpentByCall } from '../handler.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { asker } from './asked-session.ts';
import { continueConversation } from './messages-conversation.ts';
import { type Answer, type AnswerPart, generationOf, spoken } from './messages-request.ts';
import { quotaNotice } from './quota-notice.ts';

/** How long to wait for the first piece, so that a provider's refusal can still be a status of its own. */
const firstPieceMs = 2000;

export const createMessage: Handler<'createMessage'> = async (call, services) => {
  if (services.draining()) throw new Problem('draining', 'The server is stopping; try again in a moment.');
  refuseWhatIsNotCarried(call.body);
  const model = await services.runtime.resolveModel(call.body.model);
  const answer = await openAnswer(call, model, services);
  const headers: Record<string, string> = {
    ...(answer.sessionId && { 'x-service-session-id': answer.sessionId }),
    ...quotaNotice(answer.notices),
  };
  if (call.body.stream) {
    const parts = await begun(answer.parts);
    return { status: 200, type: 'text/event-stream', headers, body: frames(call.body, parts) };
  }
  return { status: 200, headers, body: await collect(call.body, answer.parts) };
};

/** What would be lost in silence is refused; what merely tunes the answer is tolerated. */
function refuseWhatIsNotCarried(body: CreateMessageRequest & { tools?: unknown; thread?: unknown }): void {
  if (Array.isArray(body.tools) && body.tools.length > 0) throw unsupported('tools');
  if (body.thread !== undefined && body.thread !== null) throw unsupported('thread');
}

function unsupported(member: string): Problem {
  return new Problem(
    'invalid_request',
    `${member}: not supported by this release, which takes and gives text; leave it out.`,
    {
      errors: [
        {
          in: 'body',
          pointer: `/${member}`,
          message: 'is not supported by this release',
          code: 'unsupported',
        },
      ],
    },
  );
}

async function openAnswer(call: Call<'createMessage'>, model: string, services: Services): Promise<Answer> {
  const sessionId = call.headers['x-service-session-id'];
  if (sessionId !== undefined)
    return continueConversation(call, sessionId, model, generationOf(call.body), services);
  const { system, messages } = spoken(call.body);
  const { store, runtime } = services;
  const metered = await store.meteredCalls.begin(
    call.principal,
    model,
    asker(call.principal).apiKeyId ?? null,
  );
  const completion = {
    ...{ model, system, messages, generation: generationOf(call.body) },
    spent: (spending: SpentByCall) => store.meteredCalls.add(metered, spending),
  };
  const parts = answerParts(runtime.complete(completion, call.signal));
  return {
    parts: endedBy(parts, () => store.meteredCalls.end(metered)),
    ...{ sessionId: null, notices: metered.notices },
  };
}

/** Whatever becomes of the answer: read to its end, failed, or left. */
async function* endedBy<Part>(parts: AsyncIterable<Part>, end: () => Promise<void>): AsyncGenerator<Part> {
  try {
    yield* parts;
  } finally {
    await end();
  }
}

async function* answerParts(
  parts: AsyncIterable<AnswerPart | { readonly type: string }>,
): AsyncGenerator<AnswerPart> {
  for await (const part of parts)
    if (part.type === 'text' || part.type === 'finish') yield part as AnswerPart; // by its type
}

async function collect(
  body: CreateMessageRequest,
  parts: AsyncIterable<AnswerPart>,
): Promise<MessagesResponse> {
  let text = '';
  for await (const part of parts) {
    if (part.type === 'text') text += part.text;
    else
      return {
        ...opening(body, usageOf(part.usage)),
        content: text ? [{ type: 'text', text }] : [],
        ...ending(body, part),
      };
  }
  throw new Problem('request_timeout', 'The connection closed before the answer was complete.');
}

/** The frames in the exact order that the vendor's clients expect. */
async function* frames(
  body: CreateMessageRequest,
  parts: AsyncIterable<AnswerPart>,
): AsyncGenerator<ServerEvent> {
  yield frame('message_start', { message: opening(body, { input_tokens: 0, output_tokens: 0 }) });
  let open = false;
  for await (const part of parts) {
    if (part.type === 'text') {
      if (!open) yield frame('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
      open = true;
      yield frame('content_block_delta', { index: 0, delta: { type: 'text_delta', text: part.text } });
      continue;
    }
    if (open) yield frame('content_block_stop', { index: 0 });
    yield frame('message_delta', { delta: ending(body, part), usage: usageOf(part.usage) });
    yield frame('message_stop', {});
  }
}

function frame(type: string, data: Record<string, unknown>): ServerEvent {
  return { name: type, data: { type, ...data } };
}

function opening(body: CreateMessageRequest, usage: MessagesUsage): MessagesResponse {
  return {
    id: newId('message'),
    type: 'message',
    role: 'assistant',
    model: body.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  };
}

function ending(
  { stop_sequences }: CreateMessageRequest,
  { stopReason }: { readonly stopReason: StopReason },
) {
  const matched =
    stopReason === 'stop_sequence' && stop_sequences?.length === 1 ? stop_sequences[0] : undefined;
  return { stop_reason: stopReasons[stopReason], stop_sequence: matched ?? null };
}

/** The vendor's words for how an answer ended; our own tools are none of the client's business. */
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

function usageOf({ input_tokens, output_tokens, cached_input_tokens }: Usage): MessagesUsage {
  return {
    // The vendor counts what came from the cache apart from the rest.
    input_tokens: input_tokens - cached_input_tokens,
    output_tokens,
    cache_read_input_tokens: cached_input_tokens,
    cache_creation_input_tokens: 0,
  };
}

/** Waits a little for the first piece: what fails before it is an ordinary error, with a status. */
async function begun(parts: AsyncIterable<AnswerPart>): Promise<AsyncIterable<AnswerPart>> {
  const iterator = parts[Symbol.asyncIterator]();
  const first = iterator.next();
  const { promise: patience, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, firstPieceMs);
  await Promise.race([first, patience]).finally(() => clearTimeout(timer));
  return resumed(first, iterator);
}

async function* resumed(
  first: Promise<IteratorResult<AnswerPart>>,
  iterator: AsyncIterator<AnswerPart>,
): AsyncGenerator<AnswerPart> {
  try {
    for (let next = await first; !next.done; next = await iterator.next()) yield next.value;
  } finally {
    await iterator.return?.();
  }
}
