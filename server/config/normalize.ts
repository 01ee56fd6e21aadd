/** Gives what a settings file says its proper names: of aliases, of deprecated keys, of values with two names. */
import type { ClientConfig } from '../contract/config.ts';
import type { Diagnostic } from './diagnostic.ts';
import type { SettingsDocument } from './document.ts';
import { isObject, type JsonObject, objectOf, pointerKeys, pointerTo } from './pointer.ts';
import { type SettingsSchema, schemaBelow, settingsSchema } from './schema-marks.ts';

/** What a file says under proper names, and under which it says so. */
export interface NormalizedSettings {
  readonly config: ClientConfig;
  /** Warnings. */
  readonly diagnostics: readonly Diagnostic[];
  /** The pointer in the file of a value of `config`. */
  pointerInFile(pointer: string): string;
}

/** Renames what one file says, by itself: in another file the same key may stand under its other name. */
export function normalize(written: ClientConfig, document: SettingsDocument): NormalizedSettings {
  const work: Work = { document, diagnostics: [], moved: new Map() };
  const config = renamed(written, settingsSchema, [], work) as ClientConfig; // proper names keep it valid
  return {
    config,
    diagnostics: work.diagnostics,
    pointerInFile: (pointer) => originalOf(pointer, work.moved),
  };
}

interface Work {
  readonly document: SettingsDocument;
  readonly diagnostics: Diagnostic[];
  /** From pointers of the result to pointers in the file. */
  readonly moved: Map<string, string>;
}

function renamed(value: unknown, schema: SettingsSchema, keys: readonly string[], work: Work): unknown {
  if (typeof value === 'string') return schema['x-aliases']?.[value] ?? value;
  if (Array.isArray(value)) {
    return value.map((item, index) => {
      const below = schemaBelow(schema, String(index));
      return below ? renamed(item, below, [...keys, String(index)], work) : item;
    });
  }
  if (!isObject(value)) return value;
  const result = objectOf(
    Object.entries(value).map(([key, child]) => {
      const below = schemaBelow(schema, key);
      return [key, below ? renamed(child, below, [...keys, key], work) : child] as const;
    }),
  );
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    if (!Object.hasOwn(result, key)) continue;
    const found = { key, keys, property, result, work };
    if (property['x-alias-of'] !== undefined) moveAlias(found, property['x-alias-of']);
    if (property['x-replaced-by'] !== undefined) replace(found, property['x-replaced-by']);
  }
  return result;
}

/** A key to be renamed, in the object that holds it. */
interface Found {
  readonly key: string;
  readonly keys: readonly string[];
  readonly property: SettingsSchema;
  readonly result: JsonObject;
  readonly work: Work;
}

/** What stands under both names is told: which of them counts must not be a surprise. */
function moveAlias({ key, keys, result, work }: Found, target: string): void {
  const { [key]: alias, [target]: present } = result;
  Reflect.deleteProperty(result, key);
  if (!isObject(alias)) return;
  if (!isObject(present)) {
    result[target] = alias;
    work.moved.set(pointerTo([...keys, target]), pointerTo([...keys, key]));
    return;
  }
  for (const [name, value] of Object.entries(alias)) {
    const pointer = pointerTo([...keys, key, name]);
    if (Object.hasOwn(present, name)) {
      const message = `${JSON.stringify(name)} stands under ${target} too, and only that counts`;
      work.diagnostics.push(warning(work.document, pointer, message, 'Remove one of the two.'));
    } else {
      present[name] = value;
      work.moved.set(pointerTo([...keys, target, name]), pointer);
    }
  }
}

function replace(
  { key, keys, property, result, work }: Found,
  replacement: NonNullable<SettingsSchema['x-replaced-by']>,
): void {
  const pointer = pointerTo([...keys, key]);
  const value = replacement.values[String(result[key])];
  const beside = Object.hasOwn(result, replacement.key);
  Reflect.deleteProperty(result, key);
  if (!beside && value !== undefined) {
    result[replacement.key] = value;
    work.moved.set(pointerTo([...keys, replacement.key]), pointer);
  }
  const effect = beside ? `, and has no effect beside ${JSON.stringify(replacement.key)}` : '';
  const message = `The key ${JSON.stringify(key)} is deprecated${effect}`;
  const remedy = property.deprecationMessage ?? `Use ${replacement.key}.`;
  work.diagnostics.push(warning(work.document, pointer, message, remedy));
}

function warning(document: SettingsDocument, pointer: string, message: string, remedy: string): Diagnostic {
  // The key itself is the place, not its value.
  const place = document.place(document.node(pointer)?.parent?.offset ?? 0);
  return { severity: 'warning', place, pointer, message, expected: null, remedy };
}

function originalOf(pointer: string, moved: ReadonlyMap<string, string>): string {
  const keys = pointerKeys(pointer);
  for (let length = keys.length; length > 0; length--) {
    const original = moved.get(pointerTo(keys.slice(0, length)));
    if (original !== undefined) return original + pointerTo(keys.slice(length));
  }
  return pointer;
}
