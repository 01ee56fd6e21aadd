/** Walks the schema of the settings file: every place where a value may stand, by the dotted path of its key. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Schema } from './contract.ts';

/** The schema of the settings file; what its references lead to stands under `definitions`. */
export type SettingsSchema = Schema & { definitions: Record<string, Schema> };

/** A schema with the dotted path of the key it describes; `*` stands for a name of the user's choice, `[]` for an item. */
export interface Place {
  readonly path: string;
  readonly schema: Schema;
}

/** Reads schemas/service.schema.json below the root of the repository. */
export async function readSettingsSchema(root: string): Promise<SettingsSchema> {
  const text = await readFile(join(root, 'schemas/service.schema.json'), 'utf8');
  return JSON.parse(text) as SettingsSchema; // written by hand, held valid by the tests
}

/** Every place of the schema, references followed, from the top; the first is the file itself. */
export function placesOf(root: SettingsSchema): Place[] {
  return [...walk(root, root, '')];
}

function* walk(root: SettingsSchema, given: Schema, path: string): Generator<Place> {
  const schema = follow(root, given);
  yield { path, schema };
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    yield* walk(root, property, path === '' ? key : `${path}.${key}`);
  }
  const { additionalProperties, items } = schema as Record<
    'additionalProperties' | 'items',
    Schema | boolean
  >;
  if (typeof additionalProperties === 'object') yield* walk(root, additionalProperties, `${path}.*`);
  if (typeof items === 'object') yield* walk(root, items, `${path}[]`);
}

function follow(root: SettingsSchema, schema: Schema): Schema {
  const name = typeof schema.$ref === 'string' ? schema.$ref.replace('#/definitions/', '') : null;
  if (name === null) return schema;
  const found = root.definitions[name];
  if (!found) throw new Error(`The schema has no definition ${name}`);
  return found;
}
