/** Makes of what older versions have stored what an import takes. */
import type { MessagePart } from '../contract/api.ts';
import { fits, storableValue } from '../storable.ts';

type FilePart = Extract<MessagePart, { type: 'file' }>;

/** The message as it would be stored today, and without the bytes of files that no model takes. */
export function repaired<Given extends { readonly parts: readonly MessagePart[] }>(message: Given) {
  return { ...message, parts: withoutRepeatedCalls(message.parts).map(repairedPart) };
}

/** Of two calls with one id there is one result. */
function withoutRepeatedCalls(parts: readonly MessagePart[]): readonly MessagePart[] {
  const ids = new Set<string>();
  return parts.filter((part) => {
    if (part.type !== 'tool_use') return true;
    const isRepeated = ids.has(part.id);
    ids.add(part.id);
    return !isRepeated;
  });
}

function repairedPart(part: MessagePart): MessagePart {
  // Most parts need no copy. JSON writes NUL and half surrogate pairs as the escapes that are looked for.
  const isBroken = /\\u(?:0000|d[89a-f])/.test(JSON.stringify(part));
  const whole = isBroken ? (storableValue(part) as MessagePart) : part; // as its texts alone have changed
  if (whole.type === 'file') return shownFile(whole);
  return whole.type === 'tool_use' && !fits(whole.input) ? { ...whole, input: {} } : whole;
}

function shownFile({ name, ...rest }: FilePart): FilePart {
  const part = name === undefined ? rest : { ...rest, name: name.slice(0, longestName).toWellFormed() };
  if (isTakableFile(part)) return part;
  const { data: _data, sha256: _sha256, url: _url, ...told } = part;
  return told;
}

/** As the contract has it. */
const longestName = 1000;

/** What some provider takes; as in a query, of pictures these alone. `image/*` is one at an address. */
const takable = /^(?:image\/(?:jpeg|png|gif|webp|\*)|application\/pdf|(?:text|audio|video)\/.+)$/i;

/** A file that is only told of is shown to no model. */
export function isTakableFile({ media_type, data, sha256, url }: FilePart): boolean {
  const isShown = data !== undefined || sha256 !== undefined || url !== undefined;
  return !isShown || takable.test(media_type);
}
