/** How people name settings: `options.tui.diff_mode`, or a JSON pointer where a name has a dot in it. */
import { SettingsError } from './diagnostic.ts';
import { nearest } from './nearest.ts';
import { pointerKeys, pointerTo } from './pointer.ts';
import { needsTrust, type SettingsSchema, schemaAt, schemaBelow, settingsSchema } from './schema-marks.ts';

/** What is known of a key without looking at any file. */
export interface KnownKey {
  /** Dotted; `*` stands for a name of the user's choice. */
  readonly key: string;
  readonly description: string;
  readonly type: readonly string[];
  /** Null where any value of the type will do. */
  readonly enum: readonly unknown[] | null;
  /** Undefined where there is none. */
  readonly default: unknown;
  /** What to use instead; null for a key that is not deprecated. */
  readonly deprecated: string | null;
  /** Whether it counts only in files that are trusted. */
  readonly restricted: boolean;
}

/** Every key that a settings file may have, in the order of the schema; those of lists' items are left out. */
export function listKeys(): KnownKey[] {
  return [...keysBelow(settingsSchema, [])];
}

function* keysBelow(schema: SettingsSchema, keys: readonly string[]): Generator<KnownKey> {
  const { properties = {}, additionalProperties } = schema;
  for (const key of Object.keys(properties)) yield* knownAndBelow(schema, key, [...keys, key]);
  if (typeof additionalProperties === 'object') yield* knownAndBelow(schema, '*', [...keys, '*']);
}

function* knownAndBelow(parent: SettingsSchema, key: string, keys: readonly string[]): Generator<KnownKey> {
  const schema = schemaBelow(parent, key);
  if (!schema) return;
  yield { key: keys.join('.'), ...describe(keys, schema) };
  if (!schema.items) yield* keysBelow(schema, keys);
}

/** What the schema says of the value that the keys lead to. */
export function describe(keys: readonly string[], schema: SettingsSchema): Omit<KnownKey, 'key'> {
  const {
    type = [],
    description = '',
    enum: values = null,
    default: usual,
    deprecationMessage = null,
  } = schema;
  const restricted = keys.some((_, index) => needsTrust(schemaAt(keys.slice(0, index + 1))));
  return {
    description,
    type: typeof type === 'string' ? [type] : type,
    enum: values,
    default: usual,
    deprecated: deprecationMessage,
    restricted,
  };
}

/**
 * The JSON pointer of a key: dotted, or a JSON pointer already. Throws SettingsError for what the schema does not
 * know, with the key that was probably meant.
 */
export function keyToPointer(key: string): string {
  const keys = key.startsWith('/') ? pointerKeys(key) : key.split('.');
  if (key !== '' && schemaAt(keys)) return pointerTo(keys);
  throw unknownKey(key, keys);
}

/** The key by which people name the value at a JSON pointer. */
export function pointerToKey(pointer: string): string {
  const keys = pointerKeys(pointer);
  const plain = keys.every((key) => key !== '' && !key.includes('.')) && !keys[0]?.startsWith('/');
  return plain ? keys.join('.') : pointer;
}

function unknownKey(key: string, keys: readonly string[]): SettingsError {
  const known = keys.findIndex((_, index) => !schemaAt(keys.slice(0, index + 1)));
  const before = keys.slice(0, Math.max(0, known));
  return new SettingsError([
    {
      severity: 'error',
      place: null,
      pointer: '',
      message: `There is no setting ${JSON.stringify(key)}`,
      expected: null,
      remedy: remedyFor(keys, before) ?? 'See `service schema`.',
    },
  ]);
}

function remedyFor(keys: readonly string[], before: readonly string[]): string | null {
  const parent = schemaAt(before);
  const siblings = Object.keys(parent?.properties ?? {});
  const meant = nearest(keys[before.length] ?? '', siblings);
  if (meant)
    return `Did you mean "${pointerToKey(pointerTo([...before, meant, ...restIfKnown(keys, before, meant)]))}"?`;
  // The whole key may be near to another one although its parts are not: "diff_mode" for "options.tui.diff_mode".
  const elsewhere = keyThatEndsLike(keys.at(-1) ?? '');
  if (elsewhere) return `Did you mean "${elsewhere}"?`;
  if (before.some((_, index) => isNamedByUser(before.slice(0, index + 1))))
    return `A name with a dot in it is written in a JSON pointer, such as "/providers/my.gateway/base_url".`;
  return siblings.length > 0
    ? `Below ${before.join('.') || 'the top'} there are ${siblings.join(', ')}.`
    : null;
}

/** A key that can be written as it is, and whose last word is the given one or near to it. */
function keyThatEndsLike(word: string): string | null {
  const byLastWord = new Map(
    listKeys()
      .filter(({ key, deprecated }) => deprecated === null && !key.includes('*'))
      .map(({ key }): [string, string] => [key.split('.').at(-1) ?? '', key])
      .reverse(),
  );
  const meant = nearest(word, [...byLastWord.keys()]);
  return meant === null ? null : (byLastWord.get(meant) ?? null);
}

function isNamedByUser(keys: readonly string[]): boolean {
  const parent = schemaAt(keys.slice(0, -1));
  return (
    typeof parent?.additionalProperties === 'object' &&
    !Object.hasOwn(parent.properties ?? {}, keys.at(-1) ?? '')
  );
}

function restIfKnown(keys: readonly string[], before: readonly string[], meant: string): readonly string[] {
  const rest = keys.slice(before.length + 1);
  return schemaAt([...before, meant, ...rest]) ? rest : [];
}
