// OpenAI's chat completions API: how an answer looks on its wire, plain and streamed.
import { isMistral, readChatRequest } from './chat-completions-request.ts';
import {
  type Answer,
  type Call,
  type Dialect,
  fragments,
  newId,
  type StopReason,
  sse,
  type Usage,
} from './dialect.ts';
import { openAi, openAiErrorBody } from './openai.ts';
import type { DialectName } from './prompt.ts';

export const chatCompletions: Dialect = {
  ...openAi,
  name: 'chat_completions',
  read: (body) => readChat(body, 'chat_completions'),
  errorFrame: (refusal) => sse(openAiErrorBody(refusal)),
};

/** A call of any vendor that speaks chat completions. */
export function readChat(body: unknown, dialect: DialectName): Call {
  const { model, prompt, includeUsage } = readChatRequest(body, dialect);
  const head = () => ({ id: newId('chatcmpl-', 29), created: Math.floor(Date.now() / 1000), model });
  return {
    prompt,
    whole: (answer) => completion(head(), answer),
    frames: (answer) => frames(head(), answer, includeUsage),
  };
}

interface Head {
  id: string;
  created: number;
  model: string;
}

const finishReasons: Record<StopReason, string> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  refusal: 'content_filter',
};
const fingerprint = { service_tier: 'default', system_fingerprint: 'fp_5c71b1ed00' };

function completion({ id, created, model }: Head, answer: Answer): unknown {
  const toolCalls = answer.toolCalls.map(({ id = callId(model), ...call }) => ({
    ...{ id, type: 'function' },
    function: call,
  }));
  const message = {
    role: 'assistant',
    content: answer.text || toolCalls.length === 0 ? answer.text : null,
    ...(answer.reasoning ? { reasoning_content: answer.reasoning } : {}),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
    refusal: null,
    annotations: [],
  };
  const choice = { index: 0, message, logprobs: null, finish_reason: finishReasons[answer.stopReason] };
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: [choice],
    usage: usage(answer.usage),
    ...fingerprint,
  };
}

function usage(counted: Usage) {
  return {
    prompt_tokens: counted.input,
    completion_tokens: counted.output,
    total_tokens: counted.input + counted.output,
    prompt_tokens_details: { cached_tokens: counted.cached, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: counted.reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

const callId = (model: string) => (isMistral(model) ? newId('', 9) : newId('call_', 24));

function* frames({ id, created, model }: Head, answer: Answer, includeUsage: boolean): Generator<string> {
  const base = { id, object: 'chat.completion.chunk', created, model, ...fingerprint };
  // With include_usage every chunk has the field, and only the last, without choices, has the figures.
  const chunk = (delta: unknown, finish_reason: string | null) =>
    sse({
      ...base,
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      ...(includeUsage ? { usage: null } : {}),
    });
  const content = answer.text || answer.toolCalls.length === 0 ? '' : null;
  yield chunk({ role: 'assistant', content, refusal: null }, null);
  for (const delta of deltas(answer, model)) yield chunk(delta, null);
  yield chunk({}, finishReasons[answer.stopReason]);
  if (includeUsage) yield sse({ ...base, choices: [], usage: usage(answer.usage) });
  yield 'data: [DONE]\n\n';
}

function* deltas(answer: Answer, model: string): Generator<unknown> {
  for (const reasoning_content of fragments(answer.reasoning, answer.chunkSize)) yield { reasoning_content };
  for (const content of fragments(answer.text, answer.chunkSize)) yield { content };
  for (const [index, call] of answer.toolCalls.entries()) {
    const first = {
      index,
      id: call.id ?? callId(model),
      type: 'function',
      function: { name: call.name, arguments: '' },
    };
    yield { tool_calls: [first] };
    for (const part of fragments(call.arguments, answer.chunkSize)) {
      yield { tool_calls: [{ index, function: { arguments: part } }] };
    }
  }
}
