// Thoughts of Anthropic's newer models: bound to all that stood before them, and refused where that has changed since.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Refusal } from './dialect.ts';

/** As much of a request as its thoughts depend on. */
interface Bound {
  model: string;
  system?: unknown;
  tools?: unknown;
  messages: readonly { role: string; content: string | readonly Readonly<Record<string, unknown>>[] }[];
  thinking?: unknown;
}

/** What the signature of a thought ends with that answers this request; nothing for models that do not bind. */
export function bindingOf({ model, system, tools, messages }: Bound): string {
  if (!binding.test(model)) return '';
  const before = JSON.stringify([system, tools, messages.flatMap(blocksOf)], (name, value) =>
    name === 'cache_control' ? undefined : value,
  );
  return `bound${createHash('sha256').update(before).digest('hex')}`;
}

const binding = /claude-(fable-5-[12]|opus-5-5|sonnet-5-5)/;

/** Throws a `Refusal` for a thought that another conversation led to, unless it is to be left out. */
export function refuseUnbound(request: Bound, headers: IncomingHttpHeaders): void {
  if (leavesOut(request, headers)) return;
  request.messages.forEach((message, at) => {
    const expected = bindingOf({ ...request, messages: request.messages.slice(0, at) });
    blocksOf(message).forEach(({ signature }, index) => {
      if (typeof signature !== 'string' || signature.endsWith(expected)) return;
      const place = `messages.${at}.content.${index}`;
      throw new Refusal(400, `${place}: The block is bound to a different conversation.`);
    });
  });
}

function leavesOut({ model, thinking }: Bound, headers: IncomingHttpHeaders): boolean {
  const { block_binding: said } = (thinking ?? {}) as {
    block_binding?: { prefix_mismatch_behavior?: string };
  }; // looked at member by member
  if (said === undefined) return false;
  if (!binding.test(model) || !/thinking-binding-controls/.test(String(headers['anthropic-beta'])))
    throw new Refusal(400, 'thinking.block_binding: Extra inputs are not permitted');
  return said.prefix_mismatch_behavior === 'drop_block';
}

function blocksOf({ role, content }: Bound['messages'][number]) {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return blocks.map((block): Readonly<Record<string, unknown>> => ({ ...block, role }));
}
