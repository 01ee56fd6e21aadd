/** Reads the value of a setting as a person types it on a command line, by the type that the schema gives it. */
import { SettingsError } from '../diagnostic.ts';
import { readDocument } from '../document.ts';
import { pointerTo } from '../pointer.ts';
import { type SettingsSchema, schemaAt } from '../schema-marks.ts';

/** The value that the text says, for the setting that the keys lead to. Throws SettingsError where it says none. */
export function readValue(text: string, keys: readonly string[]): unknown {
  const schema = schemaAt(keys) ?? {};
  const types = typesOf(schema);
  // A text is any text, so that it is asked last.
  const type = Object.keys(readers).find((one) => types.includes(one) && readers[one]?.(text) !== undefined);
  if (type !== undefined) return readers[type]?.(text);
  throw unreadable(keys, types, schema);
}

function typesOf({ type = [] }: SettingsSchema): readonly string[] {
  const types = typeof type === 'string' ? [type] : type;
  return types.length > 0 ? types : Object.keys(readers);
}

/** By type; undefined for a text that is none of that type. */
const readers: Readonly<Record<string, (text: string) => unknown>> = {
  boolean: (text) => ({ true: true, false: false })[text],
  integer: (text) => (/^-?\d+$/.test(text) ? Number(text) : undefined),
  number: (text) => (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : undefined),
  null: (text) => (text === 'null' ? null : undefined),
  array: (text) => ifOf(readJson(text), Array.isArray),
  object: (text) => ifOf(readJson(text), (value) => typeof value === 'object' && !Array.isArray(value)),
  string: (text) => text,
};

function ifOf(value: unknown, belongs: (value: unknown) => boolean): unknown {
  return value !== null && belongs(value) ? value : undefined;
}

/** Read as a settings file is, so that a key that stands twice is refused here too. */
function readJson(text: string): unknown {
  return /^\s*[[{]/.test(text) ? readDocument(new TextEncoder().encode(text), '').document?.value : undefined;
}

const kinds: Readonly<Record<string, string>> = {
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  array: 'a list, as JSON',
  object: 'an object, as JSON',
};

function unreadable(
  keys: readonly string[],
  types: readonly string[],
  { examples: [example] = [] }: SettingsSchema,
): SettingsError {
  return new SettingsError([
    {
      severity: 'error',
      place: null,
      pointer: pointerTo(keys),
      message: 'This value cannot be read',
      expected: types.map((type) => kinds[type] ?? type).join(' or '),
      remedy:
        example === undefined
          ? 'Write what is expected.'
          : `Write, for example, '${JSON.stringify(example)}'.`,
    },
  ]);
}
