// OpenAI's Responses API: how an answer looks on its wire, plain and streamed.
import { type Answer, type Dialect, fragments, newId, sse, type Usage } from './dialect.ts';
import { openAi, openAiErrorBody } from './openai.ts';
import { type Item, type ResponsesRequest, readResponsesRequest, type Stored } from './responses-request.ts';

/** This dialect remembers: later requests may refer to earlier responses and their items. */
export function createResponses(): Dialect {
  const stored: Stored = { items: new Map(), conversations: new Map() };
  return {
    ...openAi,
    name: 'responses',
    read(body) {
      const { request, items, prompt } = readResponsesRequest(body, stored);
      const start = (answer: Answer) => {
        const head = headOf(request);
        const output = outputItems(answer, request);
        if (request.store !== false) remember(stored, head.id, items, output);
        return { head, output };
      };
      return {
        prompt,
        whole(answer) {
          const { head, output } = start(answer);
          return { ...head, ...ending(answer), output };
        },
        frames(answer) {
          const { head, output } = start(answer);
          return frames(head, output, answer);
        },
      };
    },
    keepAlive: sse({ type: 'keepalive', sequence_number: 1 }, 'keepalive'),
    errorFrame: (refusal) => sse({ type: 'error', ...openAiErrorBody(refusal), sequence_number: 0 }, 'error'),
  };
}

type Output =
  | {
      type: 'reasoning';
      id: string;
      summary: { type: 'summary_text'; text: string }[];
      encrypted_content?: string;
    }
  | { type: 'message'; id: string; status: string; role: 'assistant'; content: OutputText[] }
  | { type: 'function_call'; id: string; status: string; call_id: string; name: string; arguments: string };
// An alias, not an interface: only so may it stand where a loosely checked request item is expected.
type OutputText = { type: 'output_text'; text: string; annotations: never[]; logprobs: never[] };

function remember(stored: Stored, responseId: string, items: Item[], output: Output[]): void {
  for (const item of output) stored.items.set(item.id, item);
  stored.conversations.set(responseId, [...items, ...output]);
}

function headOf(request: ResponsesRequest) {
  return {
    id: newId('resp_', 48, hex),
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    status: 'in_progress',
    background: false,
    error: null,
    incomplete_details: null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    metadata: request.metadata ?? {},
    model: request.model,
    output: [],
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    reasoning: request.reasoning ?? { effort: null, summary: null },
    service_tier: 'default',
    store: request.store ?? true,
    temperature: request.temperature ?? 1,
    text: request.text ?? { format: { type: 'text' } },
    tool_choice: request.tool_choice ?? 'auto',
    tools: request.tools ?? [],
    top_p: request.top_p ?? 1,
    truncation: 'disabled',
    usage: null,
  };
}

const hex = '0123456789abcdef';

function ending(answer: Answer) {
  const reasons: Record<string, string> = { max_tokens: 'max_output_tokens', refusal: 'content_filter' };
  const reason = reasons[answer.stopReason];
  return {
    status: reason === undefined ? 'completed' : 'incomplete',
    incomplete_details: reason === undefined ? null : { reason },
    completed_at: reason === undefined ? Math.floor(Date.now() / 1000) : null,
    usage: usage(answer.usage),
  };
}

function usage(counted: Usage) {
  return {
    input_tokens: counted.input,
    input_tokens_details: { cached_tokens: counted.cached },
    output_tokens: counted.output,
    output_tokens_details: { reasoning_tokens: counted.reasoning },
    total_tokens: counted.input + counted.output,
  };
}

function outputItems(answer: Answer, request: ResponsesRequest): Output[] {
  const output: Output[] = [];
  if (answer.reasoning) output.push(reasoningItem(answer.reasoning, request));
  if (answer.text || answer.toolCalls.length === 0) {
    const content = [outputText(answer.text)];
    output.push({
      type: 'message',
      id: newId('msg_', 48, hex),
      status: 'completed',
      role: 'assistant',
      content,
    });
  }
  for (const call of answer.toolCalls) {
    const ids = { id: newId('fc_', 48, hex), call_id: newId('call_', 24) };
    output.push({ type: 'function_call', status: 'completed', ...ids, ...call });
  }
  return output;
}

function reasoningItem(text: string, request: ResponsesRequest): Output {
  const encrypted = request.include?.includes('reasoning.encrypted_content') ?? false;
  return {
    type: 'reasoning',
    id: newId('rs_', 48, hex),
    summary: [{ type: 'summary_text', text }],
    ...(encrypted ? { encrypted_content: Buffer.from(text).toString('base64') } : {}),
  };
}

function outputText(text: string): OutputText {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

function* frames(head: ReturnType<typeof headOf>, output: Output[], answer: Answer): Generator<string> {
  let sequence_number = 0;
  for (const { type, ...rest } of events(head, output, answer)) {
    yield sse({ type, sequence_number: sequence_number++, ...rest }, type);
  }
}

interface StreamEvent {
  type: string;
  [field: string]: unknown;
}

function* events(head: ReturnType<typeof headOf>, output: Output[], answer: Answer): Generator<StreamEvent> {
  yield { type: 'response.created', response: head };
  yield { type: 'response.in_progress', response: head };
  for (const [output_index, item] of output.entries()) {
    yield { type: 'response.output_item.added', output_index, item: begun(item) };
    yield* contentEvents(item, { item_id: item.id, output_index }, answer.chunkSize);
    yield { type: 'response.output_item.done', output_index, item };
  }
  const end = ending(answer);
  yield { type: `response.${end.status}`, response: { ...head, ...end, output } };
}

/** The item as it is announced: without its content. */
function begun(item: Output): Output {
  if (item.type === 'reasoning') return { ...item, summary: [] };
  if (item.type === 'message') return { ...item, status: 'in_progress', content: [] };
  return { ...item, status: 'in_progress', arguments: '' };
}

function* contentEvents(
  item: Output,
  place: { item_id: string; output_index: number },
  size: number,
): Generator<StreamEvent> {
  if (item.type === 'reasoning') yield* reasoningEvents(item.summary, place, size);
  else if (item.type === 'message') yield* textEvents(item.content, place, size);
  else {
    for (const delta of fragments(item.arguments, size)) {
      yield { type: 'response.function_call_arguments.delta', ...place, delta };
    }
    yield {
      type: 'response.function_call_arguments.done',
      ...place,
      name: item.name,
      arguments: item.arguments,
    };
  }
}

function* textEvents(content: OutputText[], place: object, size: number): Generator<StreamEvent> {
  for (const [content_index, part] of content.entries()) {
    const here = { ...place, content_index };
    yield { type: 'response.content_part.added', ...here, part: outputText('') };
    for (const delta of fragments(part.text, size)) {
      yield { type: 'response.output_text.delta', ...here, delta, logprobs: [] };
    }
    yield { type: 'response.output_text.done', ...here, text: part.text, logprobs: [] };
    yield { type: 'response.content_part.done', ...here, part };
  }
}

function* reasoningEvents(summary: { text: string }[], place: object, size: number): Generator<StreamEvent> {
  for (const [summary_index, part] of summary.entries()) {
    const here = { ...place, summary_index };
    yield { type: 'response.reasoning_summary_part.added', ...here, part: { ...part, text: '' } };
    for (const delta of fragments(part.text, size)) {
      yield { type: 'response.reasoning_summary_text.delta', ...here, delta };
    }
    yield { type: 'response.reasoning_summary_text.done', ...here, text: part.text };
    yield { type: 'response.reasoning_summary_part.done', ...here, part };
  }
}
