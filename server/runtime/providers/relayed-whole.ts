/** A Messages answer that came in one piece, as the frames of the stream that was asked for. */
import type { RelayedPiece } from '../models/model.ts';
import { errorWithin } from './error-within.ts';
import { cutShort } from './provider-failures.ts';

type Json = Readonly<Record<string, unknown>>;

/** A Messages answer. */
interface Whole extends Json {
  readonly content: readonly unknown[];
}

/** What a provider has said in one piece, as an answer. Throws what the error means that it said in its place. */
export function wholeIn(said: unknown): Whole {
  const answer = objectOf(said);
  const { type, content } = answer;
  if (type === 'error') throw errorWithin(answer.error);
  if (type !== 'message' || !Array.isArray(content)) throw cutShort();
  return { ...answer, content };
}

export async function* framesOfWhole(message: Whole): AsyncGenerator<RelayedPiece> {
  const { content, stop_reason, stop_sequence = null, usage } = message;
  const counted = objectOf(usage);
  const begun = { ...message, content: [], stop_reason: null, stop_sequence: null, usage: counted };
  const frames = [
    frame('message_start', { message: begun }),
    ...content.flatMap((block, index) => framesOfBlock(objectOf(block), index)),
    frame('message_delta', { delta: { stop_reason, stop_sequence }, usage: counted }),
    frame('message_stop', {}),
  ];
  const written = Buffer.from(frames.join(''));
  yield { written, heard: written.length, usage: counted, counted: true, last: true };
}

/** What clients put together from pieces comes as one; all else stands in the beginning of its block. */
function framesOfBlock(block: Json, index: number): string[] {
  const { begun, deltas } = pieces[String(block.type)]?.(block) ?? { begun: block, deltas: [] };
  return [
    frame('content_block_start', { index, content_block: begun }),
    ...deltas.map((delta) => frame('content_block_delta', { index, delta })),
    frame('content_block_stop', { index }),
  ];
}

interface Pieces {
  readonly begun: Json;
  readonly deltas: readonly Json[];
}

const called = (block: Json): Pieces => ({
  begun: { ...block, input: {} },
  deltas: [{ type: 'input_json_delta', partial_json: JSON.stringify(block.input ?? {}) }],
});

const pieces: Readonly<Record<string, (block: Json) => Pieces>> = {
  text: (block) => ({
    begun: { ...block, text: '' },
    deltas: [{ type: 'text_delta', text: block.text ?? '' }],
  }),
  thinking: (block) => ({
    begun: { ...block, thinking: '', signature: '' },
    deltas: [
      { type: 'thinking_delta', thinking: block.thinking ?? '' },
      { type: 'signature_delta', signature: block.signature ?? '' },
    ],
  }),
  tool_use: called,
  server_tool_use: called,
};

function frame(type: string, data: Json): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}

function objectOf(value: unknown): Json {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
