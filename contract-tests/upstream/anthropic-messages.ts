// Anthropic's Messages API: how an answer looks on its wire, plain and streamed.
import { createHash } from 'node:crypto';
import { readMessagesRequest } from './anthropic-messages-request.ts';
import { type Answer, bearer, type Dialect, fragments, newId, Refusal, sse, type Usage } from './dialect.ts';
import { inputTokens } from './prompt.ts';

export const anthropicMessages: Dialect = {
  name: 'anthropic_messages',
  apiKey(headers) {
    const key = headers['x-api-key'];
    return typeof key === 'string' && key !== '' ? key : bearer(headers);
  },
  read(body, headers) {
    const { model, prompt, binding } = readMessagesRequest(body, headers);
    return {
      prompt,
      whole: (answer) => ({
        ...emptyMessage(model),
        ...ending(answer),
        content: blocks(answer, binding),
        usage: usage(answer.usage),
      }),
      frames: (answer) => frames(model, answer, binding),
    };
  },
  headers: (requestId) => ({
    'request-id': requestId,
    'anthropic-organization-id': '00000000-0000-4000-8000-000000000000',
  }),
  newRequestId: () => newId('req_011', 21),
  errorBody,
  keepAlive: event({ type: 'ping' }),
  errorFrame: (refusal) => sse(errorBody(refusal, newId('req_011', 21)), 'error'),
  modelList: (ids, next) => ({
    data: ids.map(modelInfo),
    has_more: next !== null,
    first_id: ids.at(0) ?? null,
    last_id: ids.at(-1) ?? null,
  }),
  model: modelInfo,
  count: (body, headers) => ({
    input_tokens: inputTokens(readMessagesRequest(body, headers, 'count_tokens').prompt),
  }),
  noKey: () => new Refusal(401, 'x-api-key header is required'),
};

const errorTypes: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

function errorBody(refusal: Refusal, requestId: string): unknown {
  const other = refusal.status < 500 ? 'invalid_request_error' : 'api_error';
  const type = refusal.type ?? errorTypes[refusal.status] ?? other;
  return { type: 'error', error: { type, message: refusal.message }, request_id: requestId };
}

function modelInfo(id: string): unknown {
  const limits = { max_input_tokens: 200_000, max_tokens: 64_000 };
  return { type: 'model', id, display_name: id, created_at: '2026-01-01T00:00:00Z', ...limits };
}

function emptyMessage(model: string) {
  return {
    id: newId('msg_01', 22),
    type: 'message',
    role: 'assistant',
    model,
    content: [] as unknown[], // Typed so that the finished blocks may take its place.
    stop_reason: null as string | null, // Typed so that the stop reason may take its place.
    stop_sequence: null as string | null, // The same.
    stop_details: null,
    container: null,
    diagnostics: null,
  };
}

function ending(answer: Answer) {
  return { stop_reason: answer.stopReason, stop_sequence: answer.stopSequence };
}

/** This vendor counts what came from the cache apart from the rest of the input. */
function usage(counted: Usage) {
  return {
    input_tokens: counted.input - counted.cached - counted.keptForAnHour,
    cache_creation_input_tokens: counted.keptForAnHour,
    cache_read_input_tokens: counted.cached,
    cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: counted.keptForAnHour },
    output_tokens: counted.output,
    output_tokens_details: { thinking_tokens: counted.reasoning },
    server_tool_use:
      counted.searches > 0 ? { web_search_requests: counted.searches, web_fetch_requests: 0 } : null,
    service_tier: 'standard',
    inference_geo: null,
    speed: counted.speed,
    iterations: counted.iterations,
  };
}

function blocks(answer: Answer, binding: string): unknown[] {
  const tools = answer.toolCalls.map((call) => ({
    ...emptyToolUse(call.name),
    input: parsedInput(call.arguments),
  }));
  return [
    ...(answer.reasoning ? [thinkingBlock(answer.reasoning, signature(answer.reasoning) + binding)] : []),
    ...(answer.text ? [textBlock(answer.text)] : []),
    ...tools,
  ];
}

const textBlock = (text: string) => ({ type: 'text', text, citations: null });
const thinkingBlock = (thinking: string, sign: string) => ({ type: 'thinking', thinking, signature: sign });
const emptyToolUse = (name: string) => ({
  type: 'tool_use',
  id: newId('toolu_01', 22),
  name,
  input: {},
  caller: { type: 'direct' },
});

function signature(thinking: string): string {
  return `Eq${createHash('sha512').update(thinking).digest('base64')}`;
}

/** Arguments that are not JSON can only be streamed; whole, the vendor has nothing but an object. */
function parsedInput(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return { unparsable: text, reason: String(error) };
  }
}

function* frames(model: string, answer: Answer, binding: string): Generator<string> {
  const counted = usage(answer.usage);
  const message = {
    ...emptyMessage(model),
    usage: { ...counted, output_tokens: 1, output_tokens_details: null, iterations: null },
  };
  yield event({ type: 'message_start', message });
  let index = 0;
  for (const { start, deltas } of streamedBlocks(answer, binding)) {
    yield event({ type: 'content_block_start', index, content_block: start });
    if (index === 0) yield event({ type: 'ping' });
    for (const delta of deltas) yield event({ type: 'content_block_delta', index, delta });
    yield event({ type: 'content_block_stop', index });
    index += 1;
  }
  const { input_tokens, output_tokens, output_tokens_details, server_tool_use } = counted;
  const { cache_creation_input_tokens, cache_read_input_tokens, iterations } = counted;
  yield event({
    type: 'message_delta',
    delta: { ...ending(answer), stop_details: null, container: null },
    usage: {
      input_tokens,
      cache_creation_input_tokens,
      cache_read_input_tokens,
      output_tokens,
      output_tokens_details,
      server_tool_use,
      iterations,
    },
  });
  yield event({ type: 'message_stop' });
}

function event(data: { type: string; [field: string]: unknown }): string {
  return sse(data, data.type);
}

function* streamedBlocks(
  answer: Answer,
  binding: string,
): Generator<{ start: unknown; deltas: Iterable<unknown> }> {
  const pieces = (text: string) => fragments(text, answer.chunkSize);
  if (answer.reasoning) {
    const thoughts = pieces(answer.reasoning).map((thinking) => ({ type: 'thinking_delta', thinking }));
    const signed = { type: 'signature_delta', signature: signature(answer.reasoning) + binding };
    yield { start: thinkingBlock('', ''), deltas: [...thoughts, signed] };
  }
  if (answer.text) {
    yield { start: textBlock(''), deltas: pieces(answer.text).map((text) => ({ type: 'text_delta', text })) };
  }
  for (const call of answer.toolCalls) {
    const parts = ['', ...pieces(call.arguments === '{}' ? '' : call.arguments)];
    yield {
      start: emptyToolUse(call.name),
      deltas: parts.map((partial_json) => ({ type: 'input_json_delta', partial_json })),
    };
  }
}
