/** Finds under which name a setting stands in a file: its proper one, an alias, or one that is deprecated. */

import { valueAt } from '../pointer.ts';
import { type SettingsSchema, schemaAt, schemaBelow, settingsSchema } from '../schema-marks.ts';
import type { Step } from './edit-text.ts';

/** Where a value is written, and which. */
export interface Assignment {
  readonly path: readonly Step[];
  readonly value: unknown;
}

/** How to set what the keys lead to in a file that says `content`: under the name that it has there, else its proper one. */
export function assignmentFor(content: unknown, keys: readonly string[], value: unknown): Assignment {
  const asked = keys.at(-1);
  // Under a deprecated name only what was asked for under that name can be said.
  const names = [...namesOf(keys)].filter((path) => path.at(-1) === asked || !replacementOf(path));
  const [first = keys, ...others] = names;
  const best = others.reduce(
    (one, other) => (depthOf(content, other) > depthOf(content, one) ? other : one),
    first,
  );
  const path = stepsOf(content, best);
  const replaced = replacementOf(keys);
  return { path, value: replaced && best.at(-1) !== asked ? replaced.values[String(value)] : value };
}

/** Every place where what the keys lead to stands in a file that says `content`; the one that counts comes first. */
export function standingPaths(content: unknown, keys: readonly string[]): (readonly Step[])[] {
  const standing = [...namesOf(keys)].filter((path) => depthOf(content, path) === path.length);
  return standing.map((path) => stepsOf(content, path));
}

/** Every name of what the keys lead to, the proper one first. */
function* namesOf(
  keys: readonly string[],
  schema: SettingsSchema = settingsSchema,
  before: readonly string[] = [],
): Generator<readonly string[]> {
  const [key, ...rest] = keys;
  if (key === undefined) {
    yield before;
    return;
  }
  const proper = properName(schema, key);
  const others = Object.keys(schema.properties ?? {}).filter((other) => properName(schema, other) === proper);
  for (const name of new Set([proper, ...others])) {
    yield* namesOf(rest, schemaBelow(schema, name) ?? {}, [...before, name]);
  }
}

function properName(schema: SettingsSchema, key: string): string {
  const property =
    schema.properties && Object.hasOwn(schema.properties, key) ? schema.properties[key] : undefined;
  return property?.['x-alias-of'] ?? property?.['x-replaced-by']?.key ?? key;
}

function replacementOf(keys: readonly string[]): SettingsSchema['x-replaced-by'] {
  return schemaAt(keys)?.['x-replaced-by'];
}

/** How far a path leads in what is there. */
function depthOf(content: unknown, path: readonly string[]): number {
  const missing = path.findIndex((_, index) => valueAt(content, path.slice(0, index + 1)) === undefined);
  return missing === -1 ? path.length : missing;
}

/** Lists are entered by numbers; one that is yet to be made is known by its schema. */
function stepsOf(content: unknown, path: readonly string[]): Step[] {
  return path.map((key, index) => {
    const before = path.slice(0, index);
    const parent = valueAt(content, before);
    const isList = parent === undefined ? schemaAt(before)?.items : Array.isArray(parent);
    return isList && /^\d+$/.test(key) ? Number(key) : key;
  });
}
