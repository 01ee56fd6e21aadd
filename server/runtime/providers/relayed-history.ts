/** What is no vendor's of a history that a client took from one model to another: thoughts that nobody has signed, strange ids. */
import type { RelayRequest } from '../models/model.ts';
import { plainId } from './sent-calls.ts';

type Body = RelayRequest['body'];
type Block = Readonly<Record<string, unknown>>;

/**
 * The request without them, as Anthropic takes it; the same object where there are none. A message that was nothing but such
 * a thought goes as a whole.
 */
export function portableHistory(body: Body): Body {
  const { messages } = body;
  if (!Array.isArray(messages)) return body;
  const portable = messages.flatMap((message: Block) => {
    const { content } = message;
    if (!Array.isArray(content)) return [message];
    const blocks = portableBlocks(content);
    if (blocks === content) return [message];
    return blocks.length > 0 ? [{ ...message, content: blocks }] : [];
  });
  const isSame = portable.length === messages.length && portable.every((one, at) => one === messages[at]);
  return isSame ? body : { ...body, messages: portable };
}

function portableBlocks(content: readonly Block[]): readonly Block[] {
  const blocks = content.filter((block) => !isUnsigned(block)).map(withPlainIds);
  const isSame = blocks.length === content.length && blocks.every((block, at) => block === content[at]);
  return isSame ? content : blocks;
}

/** This server writes them so for models that sign nothing. */
function isUnsigned({ type, signature }: Block): boolean {
  return type === 'thinking' && signature === '';
}

function withPlainIds(block: Block): Block {
  const name = { tool_use: 'id', tool_result: 'tool_use_id' }[String(block.type)];
  const id = name === undefined ? undefined : block[name];
  if (name === undefined || typeof id !== 'string') return block;
  const plain = plainId(id);
  return plain === id ? block : { ...block, [name]: plain };
}
