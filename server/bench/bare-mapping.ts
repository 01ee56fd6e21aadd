/** Maps the Messages API to OpenAI's chat completions and back, as one would write it by hand: text, tools and usage. */

/** A Messages request, as far as it is mapped. */
export interface Asked {
  readonly model: string;
  readonly max_tokens: number;
  readonly stream?: boolean;
  readonly temperature?: number;
  readonly stop_sequences?: readonly string[];
  readonly system?: string | readonly Block[];
  readonly messages: readonly { readonly role: 'user' | 'assistant'; readonly content: string | Block[] }[];
  readonly tools?: readonly { name: string; description?: string; input_schema: object }[];
}

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: object;
  readonly tool_use_id?: string;
  readonly content?: string | readonly Block[];
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

interface Call {
  readonly index?: number;
  readonly id?: string;
  readonly function?: { readonly name?: string; readonly arguments?: string };
}

/** A whole answer, or a piece of one. */
export interface FromProvider {
  readonly id: string;
  readonly choices: readonly {
    readonly message?: { readonly content?: string | null; readonly tool_calls?: readonly Call[] };
    readonly delta?: { readonly content?: string | null; readonly tool_calls?: readonly Call[] };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: Usage | null;
}

const reasons: Readonly<Record<string, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

export function toProvider(asked: Asked): object {
  const { model, max_tokens, stream = false, temperature, stop_sequences, system, messages, tools } = asked;
  return {
    ...{ model: model.split(':')[1], max_tokens, stream },
    ...(stream && { stream_options: { include_usage: true } }),
    ...(temperature !== undefined && { temperature }),
    ...(stop_sequences && { stop: stop_sequences }),
    messages: [
      ...(system === undefined ? [] : [{ role: 'system', content: textOf(system) }]),
      ...messages.flatMap(messagesOf),
    ],
    ...(tools && {
      tools: tools.map(({ name, description, input_schema }) => ({
        type: 'function',
        function: { name, description, parameters: input_schema },
      })),
    }),
  };
}

function messagesOf({ role, content }: Asked['messages'][number]): object[] {
  if (typeof content === 'string') return [{ role, content }];
  if (role === 'user')
    return [
      ...content
        .filter(({ type }) => type === 'tool_result')
        .map((block) => ({
          role: 'tool',
          tool_call_id: block.tool_use_id,
          content: textOf(block.content ?? ''),
        })),
      ...(content.some(({ type }) => type === 'text') ? [{ role, content: textOf(content) }] : []),
    ];
  const calls = content.filter(({ type }) => type === 'tool_use');
  return [
    {
      ...{ role, content: textOf(content) },
      ...(calls.length > 0 && {
        tool_calls: calls.map(({ id, name, input }) => ({
          ...{ id, type: 'function' },
          function: { name, arguments: JSON.stringify(input) },
        })),
      }),
    },
  ];
}

function textOf(content: string | readonly Block[]): string {
  if (typeof content === 'string') return content;
  return content.map(({ type, text }) => (type === 'text' ? text : '')).join('');
}

export function toAnswer({ id, choices, usage }: FromProvider, model: string): object {
  const [choice] = choices;
  const { content, tool_calls = [] } = choice?.message ?? {};
  return {
    ...{ id, type: 'message', role: 'assistant', model },
    content: [
      ...(content ? [{ type: 'text', text: content }] : []),
      ...tool_calls.map((call) => ({
        type: 'tool_use',
        id: call.id,
        name: call.function?.name,
        input: JSON.parse(call.function?.arguments || '{}'),
      })),
    ],
    ...ending(choice?.finish_reason),
    usage: usageOf(usage),
  };
}

function ending(reason: string | null | undefined) {
  return { stop_reason: reasons[reason ?? ''] ?? 'end_turn', stop_sequence: null };
}

function usageOf(usage: Usage | null | undefined) {
  return { input_tokens: usage?.prompt_tokens ?? 0, output_tokens: usage?.completion_tokens ?? 0 };
}

type Event = { readonly type: string } & Readonly<Record<string, unknown>>;

/** The frames of the Messages API, from those of the other. */
export async function* events(text: AsyncIterable<string>, model: string): AsyncGenerator<Event> {
  let open = -1;
  let kind = '';
  let usage: Usage | null = null;
  let reason: string | null = null;
  let begun = false;
  for await (const { id, choices, usage: counted } of pieces(text)) {
    if (!begun)
      yield {
        type: 'message_start',
        message: {
          ...{ id, type: 'message', role: 'assistant', model, content: [] },
          ...{ stop_reason: null, stop_sequence: null, usage: usageOf(null) },
        },
      };
    begun = true;
    usage = counted ?? usage;
    const [choice] = choices;
    reason = choice?.finish_reason ?? reason;
    const { content, tool_calls = [] } = choice?.delta ?? {};
    if (content) {
      if (kind !== 'text') {
        if (open >= 0) yield { type: 'content_block_stop', index: open };
        open += 1;
        kind = 'text';
        yield { type: 'content_block_start', index: open, content_block: { type: 'text', text: '' } };
      }
      yield { type: 'content_block_delta', index: open, delta: { type: 'text_delta', text: content } };
    }
    for (const call of tool_calls) {
      if (call.id !== undefined) {
        if (open >= 0) yield { type: 'content_block_stop', index: open };
        open += 1;
        kind = 'tool';
        const block = { type: 'tool_use', id: call.id, name: call.function?.name, input: {} };
        yield { type: 'content_block_start', index: open, content_block: block };
      }
      const json = call.function?.arguments ?? '';
      if (json)
        yield {
          type: 'content_block_delta',
          index: open,
          delta: { type: 'input_json_delta', partial_json: json },
        };
    }
  }
  if (open >= 0) yield { type: 'content_block_stop', index: open };
  yield { type: 'message_delta', delta: ending(reason), usage: usageOf(usage) };
  yield { type: 'message_stop' };
}

async function* pieces(text: AsyncIterable<string>): AsyncGenerator<FromProvider> {
  let rest = '';
  for await (const piece of text) {
    const frames = (rest + piece).split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      const data = frame.slice(frame.indexOf('data: ') + 6);
      // The provider is trusted to speak its own format.
      if (data !== '[DONE]') yield JSON.parse(data) as FromProvider;
    }
  }
}
