/** Makes of what older versions have stored what an import takes. */
import type { MessagePart } from '../contract/api.ts';

type FilePart = Extract<MessagePart, { type: 'file' }>;

/** The message as it would be stored today, and without the bytes of files that no model takes. */
export function repaired<Given extends { readonly parts: readonly MessagePart[] }>(message: Given) {
  return { ...message, parts: message.parts.map(repairedPart) };
}

function repairedPart(part: MessagePart): MessagePart {
  // Most parts need no copy. JSON writes NUL and half surrogate pairs as the escapes that are looked for.
  const isBroken = /\\u(?:0000|d[89a-f])/.test(JSON.stringify(part));
  const whole = isBroken ? (repairedValue(part) as MessagePart) : part; // as its texts alone have changed
  if (whole.type === 'file') return shownFile(whole);
  return whole.type === 'tool_use' && !fits(whole.input, deepest) ? { ...whole, input: {} } : whole;
}

/** How deep the arguments of a call go, and how many members an object has: an import reads no more. */
const deepest = 59;
const mostMembers = 5000;

function fits(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  const inner = Object.values(value);
  if (!Array.isArray(value) && inner.length > mostMembers) return false;
  return inner.every((one) => fits(one, levels - 1));
}

/** Members keep their names, `__proto__` too: made from entries, it is one like the others. */
function repairedValue(value: unknown): unknown {
  if (typeof value === 'string') return repairedText(value);
  if (Array.isArray(value)) return value.map(repairedValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [repairedText(name), repairedValue(member)]),
  );
}

function repairedText(text: string): string {
  return text.toWellFormed().replaceAll('\u0000', '\ufffd');
}

function shownFile(part: FilePart): FilePart {
  if (isTakableFile(part)) return part;
  const { data: _data, sha256: _sha256, url: _url, ...told } = part;
  return told;
}

/** What some provider takes; as in a query, of pictures these alone. `image/*` is one at an address. */
const takable = /^(?:image\/(?:jpeg|png|gif|webp|\*)|application\/pdf|(?:text|audio|video)\/.+)$/i;

/** A file that is only told of is shown to no model. */
export function isTakableFile({ media_type, data, sha256, url }: FilePart): boolean {
  const isShown = data !== undefined || sha256 !== undefined || url !== undefined;
  return !isShown || takable.test(media_type);
}
