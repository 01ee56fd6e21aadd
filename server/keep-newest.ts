/** Maps of bounded size, of which the oldest entry goes first. */

/** Sets the value as the newest one, and lets the oldest go where there are more than `most`. */
export function keepNewest<Key, Value>(kept: Map<Key, Value>, key: Key, value: Value, most: number): void {
  kept.delete(key);
  kept.set(key, value);
  const [oldest] = kept.keys();
  if (oldest !== undefined && kept.size > most) kept.delete(oldest);
}
