/** Writes the types of the settings file and their validator, for the server and for programs that embed the runtime. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { $RefParser } from '@apidevtools/json-schema-ref-parser';
import { compile, type JSONSchema } from 'json-schema-to-typescript';
import { jsonSchemaToZod } from 'json-schema-to-zod';
import type { Schema } from './contract.ts';
import { header, writeIfChanged } from './output.ts';

/**
 * Writes server/contract/config.ts (the type ClientConfig and the zod schema clientConfigSchema) and
 * service.schema.json beside it, so that the server needs nothing from outside its own folder.
 */
export async function generateConfigTypes(root: string): Promise<void> {
  const text = await readFile(join(root, 'schemas/service.schema.json'), 'utf8');
  const schema = JSON.parse(text) as Schema; // a hand-written schema, held valid by the tests
  const parts = [
    header('schemas'),
    "import { z } from 'zod';\n\n",
    await typesOf(schema),
    await validatorOf(schema),
  ];
  await writeIfChanged(join(root, 'server/contract/config.ts'), parts.join(''));
  await writeIfChanged(join(root, 'server/contract/service.schema.json'), text);
}

async function typesOf(schema: Schema): Promise<string> {
  // A title would win over the name that the type is to have.
  const { title: _title, ...untitled } = structuredClone(schema);
  // Our Schema leaves open which words `type` may hold; the tests hold them to JSON Schema's.
  return compile(untitled as JSONSchema, 'ClientConfig', {
    bannerComment: '',
    style: { singleQuote: true, printWidth: 110 },
  });
}

/** json-schema-to-zod takes every reference for "anything", hence the dereferenced schema. */
async function validatorOf(schema: Schema): Promise<string> {
  const dereferenced = await $RefParser.dereference<Schema>(structuredClone(schema));
  const expression = jsonSchemaToZod(withoutDefaults(dereferenced), { withoutDescribes: true });
  // The types know no undefined values, only absent keys; with exactOptional the compiler holds both to be one.
  const exact = expression.replaceAll('.optional()', '.exactOptional()');
  return `
/** Says whether a value is a ClientConfig, as Ajv does with the schema itself. It fills in no defaults: a merge must see what was written. */
export const clientConfigSchema: z.ZodType<ClientConfig> = ${exact};
`;
}

/** json-schema-to-zod fills in defaults, or else demands each key that has one. */
function withoutDefaults(schema: Schema): Schema {
  const { default: _default, ...kept } = schema;
  if (kept.properties) {
    const properties = Object.entries(kept.properties);
    kept.properties = Object.fromEntries(properties.map(([key, value]) => [key, withoutDefaults(value)]));
  }
  for (const keyword of ['additionalProperties', 'items']) {
    if (isSchema(kept[keyword])) kept[keyword] = withoutDefaults(kept[keyword]);
  }
  return kept;
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null;
}
