/** Reads a Messages request in our words, and says what an answer to it is made of. */
import type { CreateMessageRequest, StopReason, Usage } from '../contract/api.ts';
import type { Generation } from '../handler.ts';

/** What either source of an answer yields: text as it comes, then how it ended. */
export type AnswerPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'finish'; readonly stopReason: StopReason; readonly usage: Usage };

/** Where an answer comes from: a bare model call, or a run in a session. */
export interface Answer {
  readonly parts: AsyncIterable<AnswerPart>;
  readonly sessionId: string | null;
  /** Soft limits that are passed. */
  readonly notices: readonly string[];
}

/** Instructions are said once, above the conversation, wherever the client put them. */
export function spoken({ system, messages }: CreateMessageRequest) {
  const instructions = messages.filter(({ role }) => role === 'system').map(({ content }) => textOf(content));
  return {
    system: [textOf(system ?? ''), ...instructions].filter(Boolean).join('\n\n'),
    messages: messages.flatMap(({ role, content }) =>
      role === 'system' ? [] : [{ role, parts: [{ type: 'text' as const, text: textOf(content) }] }],
    ),
  };
}

function textOf(content: string | readonly { readonly text: string }[]): string {
  return typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');
}

/** The sampling settings of a request. */
export function generationOf(body: CreateMessageRequest): Generation {
  return {
    maxTokens: body.max_tokens,
    onlyStandard: true,
    ...(body.temperature !== undefined && { temperature: body.temperature }),
    ...(body.top_p !== undefined && { topP: body.top_p }),
    ...(body.top_k !== undefined && { topK: body.top_k }),
    ...(body.stop_sequences && { stopSequences: body.stop_sequences }),
  };
}
