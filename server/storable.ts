/** What a session can keep, and an import takes back, of texts and of the arguments of calls. */

/** How deep arguments go: an import reads 64 levels, of which five are around them. */
const deepest = 59;
/** How many members an object of them has. */
const mostMembers = 5_000;

/** NUL and half surrogate pairs cannot be stored by every database nor sent to every provider. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll('\u0000', '\uFFFD');
}

/** All texts in it are storable then. Members keep their names, `__proto__` too: made from entries, it is one like the others. */
export function storableValue(value: unknown): unknown {
  if (typeof value === 'string') return storableText(value);
  if (Array.isArray(value)) return value.map(storableValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [storableText(name), storableValue(member)]),
  );
}

/** Whether arguments are neither too deep nor too wide. */
export function fits(value: unknown, levels = deepest): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  const inner = Object.values(value);
  if (!Array.isArray(value) && inner.length > mostMembers) return false;
  return inner.every((one) => fits(one, levels - 1));
}
