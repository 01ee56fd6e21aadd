/** Says of settings what they are, where each comes from, and what else was said of it. */

import type { Place } from './diagnostic.ts';
import type {
  IgnoredSection,
  LoadedSettings,
  Origin,
  SettingsLayer,
  SettingsScope,
} from './loaded-settings.ts';
import { maskSecrets } from './mask-secrets.ts';
import { isAtOrBelow, isObject, pointerKeys, pointerPart, pointerTo, valueAt } from './pointer.ts';
import { type SettingsSchema, schemaAt, schemaBelow, settingsSchema } from './schema-marks.ts';
import { describe, type KnownKey, keyToPointer, pointerToKey } from './setting-keys.ts';

/** One value of the settings as it counts; secrets hidden. */
export interface FlatSetting {
  readonly pointer: string;
  readonly key: string;
  readonly value: unknown;
  /** Null for a default. */
  readonly origin: Origin | null;
}

/** What one file says of a key. */
export interface SettingMention {
  readonly scope: SettingsScope;
  readonly place: Place;
  /** Secrets hidden. */
  readonly value: unknown;
  /** What became of it; `merged` and `appended` values count together with those of other files. */
  readonly status: 'effective' | 'overridden' | 'appended' | 'merged' | 'not trusted' | 'confined';
  /** The key as the file has it, where that is another name of it; null otherwise. */
  readonly writtenAs: string | null;
}

/** All that there is to say of one key. */
export interface Explanation extends KnownKey {
  readonly pointer: string;
  /** The value that counts, the default included; undefined where there is none. Secrets hidden. */
  readonly value: unknown;
  /** Null for a default, for an object of several files, and where there is no value. */
  readonly origin: Origin | null;
  /** What each file says of it, from the farthest to the nearest. */
  readonly setBy: readonly SettingMention[];
  /** Warnings that concern it. */
  readonly notes: readonly string[];
}

/** Every value that counts, in the order of the schema's sections; with `defaults`, those that nobody wrote as well. */
export function flattenSettings(loaded: LoadedSettings, { defaults = false } = {}): FlatSetting[] {
  return [...flatten(loaded, loaded.config, settingsSchema, [], defaults)];
}

function* flatten(
  loaded: LoadedSettings,
  value: unknown,
  schema: SettingsSchema,
  keys: readonly string[],
  defaults: boolean,
): Generator<FlatSetting> {
  for (const key of keysOf(value, schema, defaults)) {
    const at = [...keys, key];
    const below = schemaBelow(schema, key) ?? {};
    const child = valueAt(value, [key]);
    if (child === undefined) {
      if (below.default !== undefined) yield { ...named(at), value: below.default, origin: null };
      else if (below.properties) yield* flatten(loaded, child, below, at, defaults);
    } else if (isSplit(child, below)) yield* flatten(loaded, child, below, at, defaults);
    else yield { ...named(at), value: maskSecrets(child, at), origin: loaded.origin(pointerTo(at)) };
  }
}

/** Lists are one value, unless several files may have added to them. */
function isSplit(value: unknown, schema: SettingsSchema): boolean {
  if (Array.isArray(value)) return schema['x-merge'] === 'append' && value.length > 0;
  return isObject(value) && Object.keys(value).length > 0;
}

function keysOf(value: unknown, schema: SettingsSchema, defaults: boolean): string[] {
  const present = typeof value === 'object' && value !== null ? Object.keys(value) : [];
  const known = Object.entries(schema.properties ?? {});
  const ordered = known.flatMap(([key, { deprecated, 'x-alias-of': alias }]) => {
    const wanted = present.includes(key) || (defaults && !deprecated && alias === undefined);
    return wanted ? [key] : [];
  });
  return [...ordered, ...present.filter((key) => !ordered.includes(key))];
}

function named(keys: readonly string[]): Pick<FlatSetting, 'pointer' | 'key'> {
  const pointer = pointerTo(keys);
  return { pointer, key: pointerToKey(pointer) };
}

/** All about one key. Throws SettingsError for a key that there is not. */
export function explainSetting(loaded: LoadedSettings, key: string): Explanation {
  const asked = keyToPointer(key);
  const askedKeys = pointerKeys(asked);
  const pointer = properPointer(askedKeys);
  const keys = pointerKeys(pointer);
  const value = valueAt(loaded.config, keys) ?? schemaAt(keys)?.default;
  const description = describe(askedKeys, schemaAt(askedKeys) ?? {});
  return {
    ...description,
    key: pointerToKey(asked),
    pointer,
    value: maskSecrets(value, keys),
    origin: loaded.origin(pointer),
    setBy: loaded.layers.flatMap((layer) => mention(loaded, layer, pointer)),
    notes: notesOn(loaded, [asked, pointer]),
  };
}

/** Where the value of an alias or a deprecated key is found once the settings are loaded. */
function properPointer(keys: readonly string[]): string {
  return keys.reduce((pointer, key) => {
    const below = schemaAt([...pointerKeys(pointer), key]);
    const proper = below?.['x-alias-of'] ?? below?.['x-replaced-by']?.key ?? key;
    return `${pointer}/${pointerPart(proper)}`;
  }, '');
}

function mention(loaded: LoadedSettings, layer: SettingsLayer, pointer: string): SettingMention[] {
  const keys = pointerKeys(pointer);
  const place = layer.place(pointer);
  if (!place) return [];
  const inFile = layer.pointerInFile(pointer);
  return [
    {
      scope: layer.scope,
      place,
      value: maskSecrets(valueAt(layer.written, keys), keys),
      status: statusOf(loaded, layer, pointer),
      writtenAs: inFile === pointer ? null : pointerToKey(inFile),
    },
  ];
}

function statusOf(loaded: LoadedSettings, layer: SettingsLayer, pointer: string): SettingMention['status'] {
  const keys = pointerKeys(pointer);
  if (valueAt(layer.config, keys) === undefined) return isIgnoredByTrust(loaded.ignored, layer, pointer);
  const value = valueAt(layer.config, keys);
  const saying = loaded.layers.filter(({ config }) => valueAt(config, keys) !== undefined);
  if (saying.length === 1) return 'effective';
  if (isObject(value)) return 'merged';
  if (schemaAt(keys)?.['x-merge'] === 'append') return 'appended';
  return saying.at(-1) === layer ? 'effective' : 'overridden';
}

function isIgnoredByTrust(
  ignored: readonly IgnoredSection[],
  { file, pointerInFile }: SettingsLayer,
  pointer: string,
): 'not trusted' | 'confined' {
  const found = ignored.find((one) => one.file === file && isAtOrBelow(pointerInFile(pointer), one.pointer));
  return found && schemaAt(pointerKeys(found.pointer))?.['x-confined'] ? 'confined' : 'not trusted';
}

function notesOn(loaded: LoadedSettings, pointers: readonly string[]): string[] {
  const inFiles = loaded.layers.flatMap(({ pointerInFile }) => pointers.map(pointerInFile));
  const concerned = new Set([...pointers, ...inFiles]);
  return loaded.diagnostics
    .filter((diagnostic) => concerned.has(diagnostic.pointer))
    .map(({ place, message, remedy }) =>
      place ? `${place.file}:${place.line}:${place.column}: ${message}. ${remedy}` : `${message}. ${remedy}`,
    );
}
