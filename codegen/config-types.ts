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
  const expression = zodOf(withoutDefaults(dereferenced));
  // The types know no undefined values, only absent keys; with exactOptional the compiler holds both to be one.
  const exact = expression.replaceAll('.optional()', '.exactOptional()');
  return `
/** Says whether a value is a ClientConfig, as Ajv does with the schema itself. It fills in no defaults: a merge must see what was written. */
export const clientConfigSchema: z.ZodType<ClientConfig> = ${exact};
`;
}

/** json-schema-to-zod passes over an `if` without an `else`, so what it forbids is refused by a refinement. */
function zodOf(schema: Schema): string {
  return jsonSchemaToZod(schema, {
    withoutDescribes: true,
    parserOverride: (part) => {
      if (!('if' in part)) return undefined;
      const { if: condition, then, ...rest } = part as Schema; // a part of a schema that is one
      if (!isSchema(condition) || !forbids(condition, then))
        throw new Error(`The validator knows an if only where its then forbids: ${JSON.stringify(part)}`);
      return `${zodOf(rest)}.refine((value) => !(${predicateOf(condition)}))`;
    },
  });
}

/** Whether nothing can be valid where the condition holds: `then` refuses the value, or a key that the condition asks for. */
function forbids(condition: Schema, then: unknown): boolean {
  if (!isSchema(then)) return false;
  if (isSchema(then.not) && Object.keys(then.not).length === 0) return true;
  const asked = Array.isArray(condition.required) ? condition.required : [];
  return Object.entries(then.properties ?? {}).some(
    ([key, rules]) => asked.includes(key) && forbids({}, rules),
  );
}

/** The condition as an expression over `value`, whose own type has been checked; only the keywords that our conditions use. */
function predicateOf(condition: Schema): string {
  const terms = Object.entries(condition).map(([keyword, rule]) => {
    const write = predicates[keyword];
    if (!write) throw new Error(`The validator does not know ${keyword} in a condition`);
    return write(rule);
  });
  return terms.join(' && ');
}

const predicates: Readonly<Record<string, (rule: unknown) => string>> = {
  type: (rule) => {
    if (rule !== 'integer') throw new Error(`The validator does not know the type ${rule} in a condition`);
    return "typeof value === 'number'";
  },
  exclusiveMaximum: (rule) => `value < ${rule}`,
  // These three hold what JSON Schema says they hold, as Ajv has checked.
  required: (rule) =>
    (rule as string[]).map((key) => `value[${JSON.stringify(key)}] !== undefined`).join(' && '),
  not: (rule) => `!(${predicateOf(rule as Schema)})`,
  anyOf: (rule) => `(${(rule as Schema[]).map((one) => `(${predicateOf(one)})`).join(' || ')})`,
};

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
