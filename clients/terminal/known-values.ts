/** Values that a server sends and this command has words for. A newer server has others: they are shown as they come. */

/** What the table has for it; null where it is none of those that are known. */
export function knownIn<Value>(table: Readonly<Record<string, Value>>, value: string): Value | null {
  return Object.hasOwn(table, value) ? (table[value] ?? null) : null;
}
