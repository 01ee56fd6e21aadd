/** JSON pointers: how a value of the settings is named. */

/** A JSON object as the settings hold it: without a prototype, so that no name has a meaning of its own. */
export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The key as a part of a JSON pointer. */
export function pointerPart(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The JSON pointer to what the keys lead to. */
export function pointerTo(keys: readonly string[]): string {
  return keys.map((key) => `/${pointerPart(key)}`).join('');
}

/** The keys that a JSON pointer names. */
export function pointerKeys(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The value that the keys lead to; undefined where nothing stands. */
export function valueAt(value: unknown, keys: readonly string[]): unknown {
  return keys.reduce(childOf, value);
}

function childOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return Reflect.get(value, key);
}

/** Whether the pointer names what the other names, or something in it. */
export function isAtOrBelow(pointer: string, other: string): boolean {
  return pointer === other || pointer.startsWith(`${other}/`);
}

/** A copy without what the keys lead to. */
export function without(value: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined || !isObject(value) || !Object.hasOwn(value, key)) return value;
  const kept = Object.entries(value).flatMap(([name, child]) => {
    if (name !== key) return [[name, child] as const];
    return rest.length > 0 ? [[name, without(child, rest)] as const] : [];
  });
  return objectOf(kept);
}

/** An object without a prototype. */
export function objectOf(entries: Iterable<readonly [string, unknown]>): JsonObject {
  const made: JsonObject = Object.create(null);
  for (const [key, value] of entries) made[key] = value;
  return made;
}
