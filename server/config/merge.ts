/** Merges what several files say, and remembers of each value which file says it. */
import type { ClientConfig } from '../contract/config.ts';
import { isObject, type JsonObject, objectOf, pointerKeys, pointerTo } from './pointer.ts';
import { type SettingsSchema, schemaBelow, settingsSchema } from './schema-marks.ts';

/** Where a merged value comes from: the index of the file, and the pointer there. */
export interface Source {
  readonly layer: number;
  readonly pointer: string;
}

/** The merged settings. */
export interface MergedSettings {
  readonly config: ClientConfig;
  /** Of each value that is no object, and of each item of an appended list, by its pointer in the result. */
  readonly sources: ReadonlyMap<string, Source>;
}

/**
 * Merges from the farthest file to the nearest: objects key by key; of all else the nearest counts, unless the schema
 * has lists appended.
 */
export function merge(layers: readonly ClientConfig[]): MergedSettings {
  const sources = new Map<string, Source>();
  const config = layers.reduce<JsonObject>(
    (farther, nearer, layer) =>
      mergeObjects(farther, nearer as JsonObject, settingsSchema, [], { layer, sources }), // settings are an object
    objectOf([]),
  );
  return { config, sources };
}

interface Work {
  readonly layer: number;
  readonly sources: Map<string, Source>;
}

function mergeObjects(
  farther: JsonObject,
  nearer: JsonObject,
  schema: SettingsSchema,
  keys: readonly string[],
  work: Work,
): JsonObject {
  const result = objectOf(Object.entries(farther));
  for (const [key, value] of Object.entries(nearer)) {
    result[key] = mergeValue(result[key], value, schemaBelow(schema, key) ?? {}, [...keys, key], work);
  }
  return result;
}

function mergeValue(
  farther: unknown,
  nearer: unknown,
  schema: SettingsSchema,
  keys: readonly string[],
  work: Work,
): unknown {
  if (isObject(nearer)) {
    if (!isObject(farther)) forget(farther, keys, work);
    return mergeObjects(isObject(farther) ? farther : objectOf([]), nearer, schema, keys, work);
  }
  if (schema['x-merge'] === 'append' && Array.isArray(nearer)) return append(farther, nearer, keys, work);
  forget(farther, keys, work);
  const pointer = pointerTo(keys);
  work.sources.set(pointer, { layer: work.layer, pointer });
  return nearer;
}

function append(
  farther: unknown,
  nearer: readonly unknown[],
  keys: readonly string[],
  work: Work,
): unknown[] {
  const before: unknown[] = Array.isArray(farther) ? farther : [];
  for (const index of nearer.keys()) {
    const source = { layer: work.layer, pointer: pointerTo([...keys, String(index)]) };
    work.sources.set(pointerTo([...keys, String(before.length + index)]), source);
  }
  return [...before, ...nearer];
}

/** What stood here in farther files counts no more. */
function forget(farther: unknown, keys: readonly string[], work: Work): void {
  work.sources.delete(pointerTo(keys));
  if (!isObject(farther)) return;
  for (const [key, value] of Object.entries(farther)) forget(value, [...keys, key], work);
}

/** Where the merged value at the pointer comes from; null for an object, and for what nobody wrote. */
export function sourceOf(sources: ReadonlyMap<string, Source>, pointer: string): Source | null {
  const keys = pointerKeys(pointer);
  for (let length = keys.length; length > 0; length--) {
    const source = sources.get(pointerTo(keys.slice(0, length)));
    if (source) return { ...source, pointer: source.pointer + pointerTo(keys.slice(length)) };
  }
  return null;
}
